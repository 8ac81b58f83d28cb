"""How many terms windows have: convolutions without padding and holes, scans."""

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
    result_shape, weights = nest.result_types[0].shape, nest.operand_types[1].shape
    groups = _count(nest, "feature_group_count")
    spatial = [n for name, n in kernel.items() if name.isdigit()]
    rows = math.prod(n for d, n in enumerate(result_shape) if d != result["f"])
    depth = weights[kernel["i"]] * math.prod(weights[d] for d in spatial)
    return groups, rows, max(weights[kernel["o"]] // groups, 1), depth


def expanded_groups(nest: Nest) -> int:
    """How often XLA computes a convolution with as many batch groups as features.

    That is the gradient of a depthwise kernel: all pairs of channels are computed, and
    the diagonal taken.
    """
    _, _, result = _dimensions(nest)
    groups = _count(nest, "batch_group_count")
    return groups if nest.result_types[0].shape[result["f"]] == groups else 1


_SCAN_BLOCK = 16


def scan_length(nest: Nest) -> int:
    """Length of the dimension that a window op accumulates along, 0 if it doesn't.

    Each window then begins (or ends) with the dimension.
    """
    window = ints(nest.attrs["window_dimensions"])
    wide = [dim for dim, size in enumerate(window) if size > 1]
    if len(wide) != 1 or nest.operand_types[0].shape != nest.result_types[0].shape:
        return 0
    (dim,) = wide
    length = nest.operand_types[0].shape[dim]
    padding = _numbers(nest, "padding", [0] * 2 * len(window))
    whole = sorted(padding[2 * dim : 2 * dim + 2]) == [0, length - 1]
    return length if window[dim] == length and whole else 0


def scan_steps(length: int, exclusive: bool = False) -> int:
    """Steps of a cumulative sum: within blocks, over the blocks' sums, then added.

    >>> scan_steps(16), scan_steps(40)
    (240, 776)
    """
    if length <= _SCAN_BLOCK:
        return (length + exclusive) * (length - 1)
    blocks = -(-length // _SCAN_BLOCK)
    return _SCAN_BLOCK**2 * blocks + scan_steps(blocks, exclusive=True)


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
