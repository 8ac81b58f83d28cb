"""Ops that take sizes as operands, where those are constants: the static op instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from partir.ir.attributes import i64_array, ints

Numbers = Callable[[int], str | None]
"""The constant that a value is, in MLIR's spelling, if it is one."""


class Static(NamedTuple):
    """What a dynamic op is without its sizes."""

    kind: str
    attrs: dict[str, str]
    operands: tuple[int, ...]


# For each op: how many operands stay, and the attributes that the others become.
_FORMS = {
    "stablehlo.dynamic_pad": (
        "stablehlo.pad",
        2,
        ("edge_padding_low", "edge_padding_high", "interior_padding"),
    ),
    "stablehlo.real_dynamic_slice": (
        "stablehlo.slice",
        1,
        ("start_indices", "limit_indices", "strides"),
    ),
    "stablehlo.dynamic_gather": ("stablehlo.gather", 2, ("slice_sizes",)),
    "stablehlo.dynamic_conv": ("stablehlo.convolution", 2, ("padding",)),
}


def takes_sizes(kind: str) -> bool:
    """Whether an op takes sizes as operands."""
    return kind in _FORMS


def as_static(
    kind: str, attrs: dict[str, str], operands: Sequence[int], numbers: Numbers
) -> Static | None:
    """The static op; None if it is static already, or its sizes are computed."""
    if kind not in _FORMS:
        return None
    static, count, names = _FORMS[kind]
    made = dict(attrs)
    for name, value in zip(names, operands[count:], strict=True):
        text = numbers(value)
        if text is None:
            return None
        made[name] = _pairs(text) if name == "padding" else i64_array(ints(text))
    return Static(static, made, tuple(operands[:count]))


def _pairs(text: str) -> str:
    """Numbers before and behind each dimension, as an attribute."""
    numbers = ints(text)
    pairs = [list(pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    return f"dense<{pairs}> : tensor<{len(pairs)}x2xi64>"
