"""Samples of convolution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax import lax

from partir.ir.core import Signature
from tests.rules.samples.sample import Sample, sample, traced

_ONE, _NONE = (1, 1), [(0, 0), (0, 0)]
# Label, shapes of input (batch, height, width, features) and kernel, and options.
_CASES: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ("same size", (2, 4, 4, 2), (4, 2, 2, 4), {"padding": "SAME"}),
    ("one by one", (2, 8, 2, 2), (1, 1, 2, 2), {"window_strides": (2, 1)}),
    ("patches", (2, 6, 4, 2), (3, 2, 2, 2), {"window_strides": (3, 2)}),
    ("depthwise", (2, 4, 2, 4), (2, 1, 1, 4), {"feature_group_count": 4}),
    ("groups", (2, 3, 1, 8), (2, 1, 2, 8), {"feature_group_count": 4}),
    ("batch groups", (8, 3, 1, 2), (2, 1, 2, 8), {"batch_group_count": 4}),
    (
        "spread over elements of its own",
        (2, 4, 2, 2),
        (2, 1, 2, 2),
        {"lhs_dilation": (2, 1), "padding": [(1, 1), (0, 0)]},
    ),
    (
        "kernel with holes, input cut off",
        (2, 7, 2, 2),
        (4, 2, 2, 2),
        {"rhs_dilation": (2, 1), "padding": [(2, -1), (1, 0)]},
    ),
    ("kernel longer than the input", (2, 2, 1, 2), (4, 1, 2, 2), {"padding": _NONE}),
    (
        "nothing to see, then padding",
        (2, 0, 2, 2),
        (4, 1, 2, 2),
        {"padding": [(2, 2), (0, 0)], "lhs_dilation": (2, 1)},
    ),
    (
        "holes, as long as the input",
        (2, 8, 1, 2),
        (4, 1, 2, 2),
        {"rhs_dilation": (2, 1)},
    ),
    (
        "cut to nothing",
        (2, 4, 1, 2),
        (4, 1, 2, 2),
        {"window_strides": (3, 1), "padding": [(-2, 0), (0, 0)]},
    ),
    (
        "holes, and even half the kernel is longer than the input",
        (2, 4, 1, 2),
        (8, 1, 2, 2),
        {"rhs_dilation": (2, 1), "padding": [(-1, 1), (0, 0)]},
    ),
)


@sample("convolution")
def convolution(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Each way of tiling; the gradients of some; random paddings and dilations."""
    for label, left, kernel, options in _CASES:
        yield Sample(label, _convolution(kind, left, kernel, options))
    for number in range(4):
        options = _random_options(rng)
        signature = _convolution(kind, (2, 5, 4, 2), (2, 4, 2, 2), options)
        yield Sample(f"random {number}", signature, depth=1)
    yield Sample("turned round", _turned_round(kind, (2, 4, 2, 2), (2, 2, 2, 4)))
    yield Sample("as long, reversed", _turned_round(kind, (2, 4, 1, 2), (4, 1, 2, 2)))
    for stride in (1, 2):
        yield Sample(f"gradient of patches {stride}", _gradient(kind, stride))


def _convolution(
    kind: str,
    left: tuple[int, ...],
    kernel: tuple[int, ...],
    options: dict[str, Any],
) -> Signature:
    numbers = ("NHWC", "HWIO", "NHWC")
    options = {"window_strides": _ONE, "padding": _NONE, **options}
    (found,) = traced(
        kind,
        lambda x, k: lax.conv_general_dilated(
            x, k, dimension_numbers=numbers, **options
        ),
        np.zeros(left),
        np.zeros(kernel),
    )
    return found


def _random_options(rng: np.random.Generator) -> dict[str, Any]:
    """Such that every window has something to look at."""

    def two(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high, 2))

    return {
        "window_strides": two(1, 4),
        "padding": [two(0, 4), two(0, 4)],
        "lhs_dilation": two(1, 4),
        "rhs_dilation": (int(rng.integers(1, 3)), 1),
    }


def _turned_round(
    kind: str, left: tuple[int, ...], kernel: tuple[int, ...]
) -> Signature:
    """A kernel that is reversed along one dimension."""
    padding = _NONE if left[1] == kernel[0] else "SAME"
    plain = _convolution(kind, left, kernel, {"padding": padding})
    flags = "array<i1: true, false>"
    return Signature.of(
        kind,
        {**plain.attrs, "window_reversal": flags},
        plain.operands,
        plain.results,
    )


def _gradient(kind: str, stride: int) -> Signature:
    """What a kernel without overlaps gets back: its kernel is as long as the input."""

    def loss(x: Any, k: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        strides = (stride, 1)
        made = lax.conv_general_dilated(x, k, strides, _NONE, dimension_numbers=numbers)
        return (made**2).sum()

    kernel = np.zeros((stride, 1, 2, 2))
    return traced(kind, jax.grad(loss, argnums=1), np.zeros((2, 8, 2, 2)), kernel)[-1]
