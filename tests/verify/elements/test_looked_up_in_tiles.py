"""Sums of what devices look up, each in its tile; and what is one change away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from partir.ir.core import Signature
from partir.ir.types import tensor
from partir.verify.elements.alone import evaluated, new_ops
from partir.verify.elements.cases import FALSE, TRUE, Scalar, Unknown
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import ring_of
from tests.verify.elements.test_partitions import Change, is_equal, normal

pytestmark = pytest.mark.usefixtures("x64")
NAN, ZERO = "dense<0x7FF8000000000000>", "dense<0.000000e+00>"


def filled(values: Array, where: Array) -> Array:
    return values.at[where].get(mode="fill", fill_value=jnp.nan)


def twice(x: Array, k: Array, values: Array) -> Array:
    """Of rows that were looked up, one: it is none where a place is out of range."""
    found = filled(filled(values, x), k)
    return found * found


def in_columns(x: Array, k: Array, values: Array) -> Array:
    """By two numbers, each with a range of its own."""
    found = filled(values.reshape(2, 3)[x[:, 0], x[:, 1]], k)
    return found * found


def times_another(x: Array, k: Array, values: Array) -> Array:
    """A row times what one integer says, and others by theirs."""
    ones = jnp.ones(4)
    return jnp.dot(filled(values, x[:5]), jnp.append(values[k], ones))


def places(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32)


PLACE = np.int64(0)
PROGRAMS: list[tuple[Callable[..., Any], dict[str, np.ndarray], list[Change]]] = [
    (
        twice,
        {"x": places(6), "k": PLACE, "values": normal(4, dtype=np.float64)},
        [(NAN, ZERO), ("dense<2> : tensor<i", "dense<1> : tensor<i")],
    ),
    (
        in_columns,
        {"x": places(6, 2), "k": PLACE, "values": normal(6, dtype=np.float64)},
        [(NAN, ZERO), ("stablehlo.multiply", "stablehlo.add")],
    ),
    (
        times_another,
        {"x": places(6), "k": PLACE, "values": normal(4, dtype=np.float64)},
        [(NAN, ZERO), ("dense<1.000000e+00>", "dense<2.000000e+00>")],
    ),
]


@pytest.mark.parametrize(
    ("function", "args", "changes"),
    PROGRAMS,
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_in_tiles(
    function: Callable[..., Any], args: dict[str, np.ndarray], changes: list[Change]
) -> None:
    assert is_equal(function, args, None)
    for change in changes:
        assert not is_equal(function, args, change), change


class Rows:
    """Rows of a few numbers, looked up by integers that are known before the row is."""

    def __init__(self, ops: Elementwise, dtype: str, none: Scalar) -> None:
        self.ops, self.dtype, self.ring = ops, dtype, ring_of(dtype)
        point, cases = ops.algebra.point, ops.algebra.cases
        self.row: Unknown = (point.unknown("row"), 32)
        self.rows = []
        for number in range(3):
            first, second = (self.unknown("argument", number, n) for n in range(2))
            by = (point.unknown("place", number), 32)
            ops.algebra.order(by)
            self.rows.append(cases(by, (0, 1, 2), (first, second, none), self.ring))

    def unknown(self, *key: Any) -> Scalar:
        if self.dtype == "i1":
            return self.ops.algebra.truth(*key)
        return self.ring.unknown(self.ops.algebra.point, *key)

    def whole(self) -> Scalar:
        """Nothing behind the last."""
        values = (*self.rows, self.ring.zero)
        return self.ops.algebra.cases(self.row, (0, 1, 2, 9), values, self.ring)

    def on_devices(self, *firsts: int) -> Scalar:
        """The sum of what devices find, who have one row each."""
        select, found, algebra = self.ops.select(self.dtype), [], self.ops.algebra
        for first, row in zip(firsts, self.rows, strict=True):
            edges = [(0, FALSE), (first, TRUE), (first + 1 if first < 2 else 9, FALSE)]
            edges = edges[1:] if not first else edges
            starts, here = zip(*edges, strict=True)
            hit = algebra.cases(self.row, starts, here, ring_of("i1"))
            found.append(select(hit, row, self.ring.zero))
        return self.ops.monoids.total("sum", self.dtype, self.ring, found)

    def squared(self, x: Scalar) -> Scalar:
        type_ = tensor((), self.dtype)
        times = Signature.of("stablehlo.multiply", {}, (type_, type_), (type_,))
        run = self.ops.run(times)
        assert run is not None
        return self.ops.algebra.flat(run(x, x), self.ring)


@pytest.mark.parametrize("dtype", ["f32", "i64", "i1"])
def test_each_on_its_device(dtype: str) -> None:
    """One says something and all others nothing: the row that was asked for."""
    ops = new_ops()
    nan = ops.numbers.special["nan"]
    rows = Rows(ops, dtype, {"f32": nan, "i64": (0, -1), "i1": TRUE}[dtype])
    want = rows.squared(rows.whole())
    assert rows.squared(rows.on_devices(0, 1, 2)) == want
    for wrong in ((1, 0, 2), (0, 1, 1), (0, 0, 2)):
        assert rows.squared(rows.on_devices(*wrong)) != want


def product(x: str, y: str, made: str) -> Signature:
    """Of two rows of three numbers."""
    attrs = {
        "dot_dimension_numbers": "#stablehlo.dot<lhs_contracting_dimensions = [0], "
        "rhs_contracting_dimensions = [0]>"
    }
    types = tensor((3,), x), tensor((3,), y)
    return Signature.of("stablehlo.dot_general", attrs, types, (tensor((), made),))


def test_products_in_types_with_fewer_numbers() -> None:
    """Sums over tiles are the whole's; nobody says when factors are rounded."""
    ops = new_ops()
    ring, point = ring_of("f64"), ops.algebra.point
    x, y = ([ring.unknown(point, name, n) for n in range(3)] for name in "xy")

    def run(x: Any, y: Any, *types: str) -> Scalar:
        ((made,),) = evaluated(ops, product(*types), [[*x], [*y]])
        return made

    narrow = ("f64", "f64", "f32")
    want = run(x, y, *narrow)
    tiles = [
        run([*x[:2], 0], [*y[:2], 0], *narrow),
        run([0, 0, x[2]], [0, 0, y[2]], *narrow),
    ]
    assert ops.monoids.total("sum", "f32", ring, tiles) == want
    assert run(y, x, *narrow) == want
    # A finite number may be infinite in fewer bits: zero times that is none.
    assert run([*x[:2], 0], y, *narrow) != run([*x[:2], 0], [*y[:2], 0], *narrow)
    rounded = [[ops.convert("f64", "f32")(one) for one in side] for side in (x, y)]
    assert run(*rounded, "f32", "f32", "f32") != want
    assert run(rounded[0], y, "f32", "f64", "f32") != want
    assert run(x, y, "f64", "f64", "f64") != want
    assert run(x, y, "f64", "f64", "bf16") != want
