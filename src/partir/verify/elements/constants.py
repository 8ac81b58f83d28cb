"""Numbers that a program spells out."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from partir.ir.types import numpy_name
from partir.verify.elements.cases import FALSE
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import Complex, Integers, Truths, ring_of
from partir.verify.layouts.layout import Unreadable

_WORD = re.compile(r"-?0x[0-9A-Fa-f]+|-?\d+\.\d+(?:[eE][-+]?\d+)?|-?\d+|true|false")
_TRUTHS = {"true": 1, "false": 0}
_WITH_SIGNED_NAN = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}  # bits


def constant(
    ops: Elementwise, text: str, shape: tuple[int, ...], dtype: str
) -> list[Any]:
    """Elements of a dense attribute."""
    literal = text[len("dense<") : text.rindex(">", 0, text.rindex(" : "))]
    count = math.prod(shape)
    if literal.startswith('"'):
        return _from_bytes(ops, literal, count, dtype)
    words = _WORD.findall(literal)
    if isinstance(ring_of(dtype), Complex):
        part = dtype[len("complex<") : -1]
        pairs = [*zip(words[::2], words[1::2], strict=True)]
        made: list[Any] = [_complex(ops, pair, part) for pair in pairs]
    else:
        made = [_spelled(ops, word, dtype) for word in words]
    if len(made) not in (1, count):
        raise Unreadable("a constant in an unknown spelling")
    return made * count if len(made) == 1 else made


def _complex(ops: Elementwise, words: tuple[str, str], part: str) -> Any:
    """Two known numbers; of what is none, only the spelling is known."""
    read = [_read(word, part) for word in words]
    if not all(map(math.isfinite, read)):
        made = Complex().unknown(ops.algebra.point, "spelled", part, words)
        ops.algebra.far.update(made)
        return made
    return tuple(number(ops, one, part) for one in read)


def number(ops: Elementwise, value: Any, dtype: str) -> Any:
    """A known number as a formula."""
    ring = ring_of(dtype)
    if isinstance(ring, Integers):
        return ring.number(int(value))
    return ops.numbers.formula(float(value))


def _read(word: str, dtype: str) -> float | int:
    if word in _TRUTHS:
        return _TRUTHS[word]
    if isinstance(ring_of(dtype), Integers):
        return int(word, 0) if "x" in word else int(word)
    if "x" not in word:
        return float(np.array(float(word)).astype(np.dtype(numpy_name(dtype))))
    kind = np.dtype(numpy_name(dtype))
    return float(_of_bits(int(word, 16), kind))


def _of_bits(bits: int, kind: np.dtype[Any]) -> np.ndarray:
    return np.array(bits, dtype=f"u{kind.itemsize}").view(kind)


def _spelled(ops: Elementwise, word: str, dtype: str) -> Any:
    """A word; what is no number is one of several, which orders tell apart."""
    read = _read(word, dtype)
    if isinstance(read, int) or not math.isnan(read):
        return number(ops, read, dtype)
    return no_number(ops, int(word, 16), dtype)


def no_number(ops: Elementwise, bits: int, dtype: str) -> Any:
    """What is none, by its bits."""
    kind = np.dtype(numpy_name(dtype))
    usual = int(np.array(math.nan).astype(kind).view(f"u{kind.itemsize}"))
    return (
        ops.numbers.none(dtype, bits) if bits != usual else ops.numbers.special["nan"]
    )


def least_number(ops: Elementwise, dtype: str) -> Any:
    """What is behind all other numbers in their order; None if that is not known."""
    ring = ring_of(dtype)
    if isinstance(ring, Truths):
        return FALSE
    if isinstance(ring, Integers):
        return ring.number(ring.least)
    bits = _WITH_SIGNED_NAN.get(dtype)
    return None if bits is None else no_number(ops, (1 << bits) - 1, dtype)


def _from_bytes(ops: Elementwise, literal: str, count: int, dtype: str) -> list[Any]:
    kind = np.dtype(numpy_name(dtype))
    data = bytes.fromhex(literal.strip('"').removeprefix("0x"))
    narrow = dtype.lstrip("uif").isdigit() and int(dtype.lstrip("uif")) < 8
    if dtype.startswith("complex") or narrow or len(data) != count * kind.itemsize:
        raise Unreadable("a constant in an unknown spelling")
    held = np.frombuffer(data, kind).tolist()
    bits = np.frombuffer(data, f"u{kind.itemsize}").tolist()
    return [
        no_number(ops, spelled, dtype) if one != one else number(ops, one, dtype)
        for one, spelled in zip(held, bits, strict=True)
    ]
