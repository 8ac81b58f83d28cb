"""Numbers that a program spells out."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from partir.ir.types import numpy_name
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import Complex, Integers, ring_of
from partir.verify.layout import Unreadable

_WORD = re.compile(r"-?0x[0-9A-Fa-f]+|-?\d+\.\d+(?:[eE][-+]?\d+)?|-?\d+|true|false")
_TRUTHS = {"true": 1, "false": 0}


def constant(
    ops: Elementwise, text: str, shape: tuple[int, ...], dtype: str
) -> list[Any]:
    """Elements of a dense attribute."""
    literal = text[len("dense<") : text.rindex(">", 0, text.rindex(" : "))]
    count = math.prod(shape)
    if literal.startswith('"'):
        return [number(ops, one, dtype) for one in _from_bytes(literal, count, dtype)]
    words = _WORD.findall(literal)
    if isinstance(ring_of(dtype), Complex):
        part = dtype[len("complex<") : -1]
        pairs = [*zip(words[::2], words[1::2], strict=True)]
        made: list[Any] = [_complex(ops, pair, part) for pair in pairs]
    else:
        made = [number(ops, _read(word, dtype), dtype) for word in words]
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
    return tuple(number(ops, one + 0.0, part) for one in read)  # zero without a sign


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
    bits = np.array(int(word, 16), dtype=f"u{kind.itemsize}")
    return float(bits.view(kind))


def _from_bytes(literal: str, count: int, dtype: str) -> list[Any]:
    kind = np.dtype(numpy_name(dtype))
    data = bytes.fromhex(literal.strip('"').removeprefix("0x"))
    narrow = dtype.lstrip("uif").isdigit() and int(dtype.lstrip("uif")) < 8
    if dtype.startswith("complex") or narrow or len(data) != count * kind.itemsize:
        raise Unreadable("a constant in an unknown spelling")
    return list(np.frombuffer(data, kind).tolist())
