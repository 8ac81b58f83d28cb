"""How many terms a convolution has, padding and holes left out."""

from __future__ import annotations

import math
import re

import numpy as np

from partir.ir.attributes import ints
from partir.rules.nest import Nest

_SIDES = re.compile(r"\[([^\]]*)\]x\[([^\]]*)\]->\[([^\]]*)\]")


def convolution_taps(nest: Nest) -> int:
    """Products of an input element with a kernel element."""
    _, kernel, result = _dimensions(nest)
    weights = nest.operand_types[1].shape
    features = weights[kernel["i"]] * weights[kernel["o"]]
    images = nest.result_types[0].shape[result["b"]]
    return images * features * math.prod(_valid(nest))


def convolution_shape(nest: Nest) -> tuple[int, int, int, int]:
    """The convolution as matrix products: (groups, rows, columns, depth)."""
    _, kernel, result = _dimensions(nest)
    made, weights = nest.result_types[0].shape, nest.operand_types[1].shape
    groups = _count(nest, "feature_group_count")
    spatial = [n for name, n in kernel.items() if name.isdigit()]
    rows = math.prod(n for d, n in enumerate(made) if d != result["f"])
    depth = weights[kernel["i"]] * math.prod(weights[d] for d in spatial)
    return groups, rows, max(weights[kernel["o"]] // groups, 1), depth


def _count(nest: Nest, name: str) -> int:
    found = re.match(r"\d+", nest.attrs.get(name, "1"))
    return int(found.group()) if found else 1


def _dimensions(nest: Nest) -> tuple[dict[str, int], ...]:
    """Dimension of each name: ``b``, ``f``, ``i``, ``o`` and spatial numbers."""
    found = _SIDES.search(nest.attrs["dimension_numbers"])
    assert found is not None, nest.attrs["dimension_numbers"]
    return tuple(
        {name.strip(): dim for dim, name in enumerate(side.split(","))}
        for side in found.groups()
    )


def _valid(nest: Nest) -> list[int]:
    """Pairs of output and kernel positions inside the input, per spatial dimension."""
    image, kernel, result = _dimensions(nest)
    names = sorted(name for name in image if name.isdigit())
    ones = [1] * len(names)
    strides = _numbers(nest, "window_strides", ones)
    stretch = _numbers(nest, "lhs_dilation", ones)
    dilation = _numbers(nest, "rhs_dilation", ones)
    padding = _numbers(nest, "padding", [0, 0] * len(names))
    counts = []
    for number, name in enumerate(names):
        size = nest.operand_types[0].shape[image[name]]
        taps = np.arange(nest.operand_types[1].shape[kernel[name]])
        places = np.arange(nest.result_types[0].shape[result[name]])
        start = places * strides[number] - padding[2 * number]
        at = start[:, None] + taps * dilation[number]
        inside = (at >= 0) & (at < (size - 1) * stretch[number] + 1)
        counts.append(int(np.sum(inside & (at % stretch[number] == 0))))
    return counts


def _numbers(nest: Nest, name: str, default: list[int]) -> list[int]:
    text = nest.attrs.get(name)
    return default if text is None else list(ints(text))
