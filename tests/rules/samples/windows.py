"""Samples of reduce_window and select_and_scatter."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import partir
from partir.rules.window import FILLED
from tests.rules.samples.sample import Sample, combine, sample, traced, written


def _attrs(**fields: tuple[int, ...]) -> str:
    return ", ".join(
        f"{name} = array<i64: {', '.join(map(str, value))}>"
        for name, value in fields.items()
    )


# Types, window, stride: one element, side by side, with a rest, over all of it, one
# window in each tile.
_WINDOWS = (
    ("4x6x{0}, {0} -> 4x3x{0}", (1, 2), (1, 2)),
    ("4x6x{0}, {0} -> 2x6x{0}", (1, 1), (2, 1)),
    ("4x6x{0}, {0} -> 4x2x{0}", (1, 2), (1, 3)),
    ("4x6x{0}, {0} -> 4x5x{0}", (1, 2), (1, 1)),
    ("4x7x{0}, {0} -> 4x3x{0}", (1, 2), (1, 2)),
    ("4x6x2x{0}, {0} -> 1x1x2x{0}", (4, 6, 1), (4, 6, 1)),
    ("4x2x{0}, {0} -> 1x2x{0}", (4, 1), (3, 1)),
    ("3x{0}, {0} -> 2x{0}", (2,), (1,)),
)


@sample("reduce_window")
def reduce_window(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Windows of all kinds with a start that counts; padding, dilation; sums so far."""
    for number, (types, size, stride) in enumerate(_WINDOWS):
        dtype = ("i32", "f64")[number % 2]
        attrs = _attrs(window_dimensions=size, window_strides=stride)
        region = combine(("add", "maximum", "subtract")[number % 3], dtype)
        yield Sample(types, written(kind, types.format(dtype), attrs, region))
    for op in ("add", "multiply", "minimum"):
        attrs = _attrs(window_dimensions=(1, 4))
        types = "6x4xi32, i32 -> 6x1xi32"
        yield Sample(f"all, {op}", written(kind, types, attrs, combine(op, "i32")))
    types = "4x6xi32, 4x6xf64, i32, f64 -> 4x1xi32, 4x1xf64"
    attrs = _attrs(window_dimensions=(1, 6))
    yield Sample("two at once", written(kind, types, attrs, _TWO_SUMS))
    yield from _padded_or_dilated(kind)
    x = np.zeros((4, 6))
    yield Sample("sums so far", *traced(kind, lambda x: _cumulative(x), x))


def _cumulative(x: jax.Array) -> jax.Array:
    size, stride, padding = (1, 6), (1, 1), ((0, 0), (5, 0))
    return lax.reduce_window(x, 0.0, lax.add, size, stride, padding)


def _padded_or_dilated(kind: str) -> Iterator[Sample]:
    region = combine("add", "f64")
    for types, attrs in (
        (
            "4x6xf64, f64 -> 4x4xf64",
            _attrs(window_dimensions=(1, 2), window_strides=(1, 2))
            + ", padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>",
        ),
        (
            "4x6xf64, f64 -> 4x6xf64",
            _attrs(window_dimensions=(1, 1), window_strides=(1, 2))
            + ", base_dilations = array<i64: 1, 2>",
        ),
        (
            "4x6xf64, f64 -> 4x2xf64",
            _attrs(window_dimensions=(1, 2), window_strides=(1, 3))
            + ", window_dilations = array<i64: 1, 2>",
        ),
        (  # the start is padding too
            "4x6xf64, f64 -> 1x6xf64",
            _attrs(window_dimensions=(4, 3))
            + ", padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>",
        ),
        (
            "4x6xf64, f64 -> 1x11xf64",
            _attrs(window_dimensions=(4, 1), base_dilations=(1, 2)),
        ),
        (  # larger than the map
            "4x2xf64, f64 -> 4x2xf64",
            _attrs(window_dimensions=(1, 3))
            + ", padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>",
        ),
        ("4x2xf64, f64 -> 4x0xf64", _attrs(window_dimensions=(1, 3))),
    ):
        yield Sample(attrs, written(kind, types, attrs, region))


_TWO_SUMS = """{
  ^bb0(%a: tensor<i32>, %b: tensor<f64>, %c: tensor<i32>, %d: tensor<f64>):
  %e = stablehlo.add %a, %c : tensor<i32>
  %f = stablehlo.add %b, %d : tensor<f64>
  "stablehlo.return"(%e, %f) : (tensor<i32>, tensor<f64>) -> () }"""


@sample("select_and_scatter")
def select_and_scatter(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """The gradient of max-pooling: side by side, overlapping, padded; a start."""
    x = np.zeros((2, 4, 6))
    for size, stride, padding in (
        ((1, 2, 2), (1, 2, 2), "VALID"),
        ((1, 1, 2), (1, 1, 3), "VALID"),
        ((1, 2, 3), (1, 1, 3), "VALID"),
        ((1, 2, 2), (1, 2, 2), "SAME"),
        ((2, 1, 2), (2, 1, 4), "SAME"),
    ):

        def pooled(x: jax.Array) -> jax.Array:
            made = lax.reduce_window(x, -jnp.inf, lax.max, size, stride, padding)  # noqa: B023
            return (made**2).sum()

        for signature in traced(kind, jax.grad(pooled), x):
            yield Sample(f"{size} {stride} {padding}", signature)
    yield from _filled(kind)
    yield from _left_out(kind)


_LARGEST = """{
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
  %c = stablehlo.compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
  "stablehlo.return"(%c) : (tensor<i1>) -> () }"""


def _left_out(kind: str) -> Iterator[Sample]:
    """Padding without numbers, where the only ones are infinite, or nan."""
    x = np.asarray([[-np.inf, -np.inf, 1.0, 2.0, -np.inf, np.nan]] * 4)
    attrs = (
        f"{_attrs(window_dimensions=(2, 3), window_strides=(1, 1))}, "
        "padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>"
    )
    types = "4x6xf64, 3x6xf64, f64 -> 4x6xf64"
    regions = f"{_LARGEST}, {combine('add', 'f64')}"
    y = np.arange(1.0, 19.0).reshape(3, 6)
    signature = written(kind, types, attrs, regions)
    yield Sample("padding left out", signature, given=(x, y, np.asarray(0.0)))


def _filled(kind: str) -> Iterator[Sample]:
    """In normal form: padding that has numbers, of which some are the only ones."""
    x = np.asarray([[-np.inf, -np.inf, 1.0, 2.0, np.nan, -np.inf]] * 4)
    for size, stride, padding in (
        ((1, 3), (1, 2), ((0, 0), (0, 1))),
        ((2, 2), (1, 1), ((1, 0), (1, 1))),
        ((3, 2), (2, 3), ((0, 1), (1, 1))),
    ):

        def pooled(x: jax.Array) -> jax.Array:
            made = lax.reduce_window(x, -jnp.inf, lax.max, size, stride, padding)  # noqa: B023
            return jnp.sum(jnp.sin(made))

        for op in partir.trace(jax.grad(pooled), x).ops:
            if op.kind == kind:
                assert FILLED in op.signature.attrs
                y = np.arange(1.0, 1 + np.prod(op.signature.operands[1].shape))
                y = y.reshape(op.signature.operands[1].shape)
                given = (x, y, np.asarray(0.0))
                label = f"filled {size} {stride}"
                yield Sample(label, op.signature, given=given)
