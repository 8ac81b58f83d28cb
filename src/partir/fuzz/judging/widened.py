"""The same program in double precision, to see what rounding costs on one device."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np

_NARROW = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
_TYPE = re.compile(r"(?<=[x<])(bf16|f16|f32)(?=>)")
_BITS = re.compile(r"dense<0x([0-9A-F]+)> : tensor<[^>]*?(bf16|f16|f32)>")


def widened(text: str) -> str | None:
    """A module with float64 for every narrower float; None where bits are named.

    Nor are floats of eight bits widened: what they hold is not what rounding costs.
    """
    if any(word in text for word in ('dense<"0x', "bitcast_convert", "xf8E", "<f8E")):
        return None
    return _TYPE.sub("f64", _BITS.sub(_wide_constant, text))


def _wide_constant(found: re.Match[str]) -> str:
    """An infinity or a NaN, which MLIR spells by its bits."""
    dtype = np.dtype(_NARROW[found[2]])
    bits = np.array(int(found[1], 16), f"u{dtype.itemsize}")
    number = bits.view(dtype).astype(np.float64)
    spelled = f"dense<0x{int(number.view('u8')):016X}>"
    return spelled + found[0][found[0].index(" :") :]
