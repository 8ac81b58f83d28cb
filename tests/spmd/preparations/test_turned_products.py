"""Products over rows: the way round in which they are read, and by halves."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir.spmd.export_policy import PLAIN, XLA_CPU
from partir.spmd.preparations.major_scatters import scatter_major_dimensions
from partir.spmd.preparations.turned_products import turn_products
from partir.spmd.rewrites.table import scatter_reduced_slices
from partir.spmd.stablehlo.export import stablehlo_text
from tests.e2e.compare import QUICK
from tests.spmd.lowered import M2, X, Y, floats, lowered

pytestmark = pytest.mark.usefixtures("x64")

ROWS = [("M", {"x": 0, "y": 0})]
SCATTERED = [("M", {"x": 0, "y": 0, "result0": 0})]
X3, Y3 = floats(5, 4, 2, 6), floats(6, 4, 2, 8)


def gradient(x: Array, y: Array) -> Array:
    """A weight's gradient, as jax writes it: made transposed."""
    return jnp.transpose(jax.lax.dot_general(y, x, (((0,), (0,)), ((), ()))))


def from_sequences(x: Array, y: Array) -> Array:
    """The same of sequences: sums over two dimensions."""
    return jnp.transpose(jax.lax.dot_general(y, x, (((0, 1), (0, 1)), ((), ()))))


# turn_products


@pytest.mark.parametrize(
    ("function", "x", "y"), [(gradient, X, Y), (from_sequences, X3, Y3)]
)
def test_a_product_is_made_the_way_round_in_which_it_is_read(
    function: Callable[..., Any], x: np.ndarray, y: np.ndarray
) -> None:
    case = lowered(function, x, y, axes=M2, tactics=SCATTERED)
    before = scatter_reduced_slices, scatter_major_dimensions
    assert case.after(*before) == ["dot_general", "transpose", "reduce_scatter 0 M"]
    assert case.after(*before, turn_products) == ["dot_general", "reduce_scatter 0 M"]


def read_twice(x: Array, y: Array) -> tuple[Array, Array]:
    made = jax.lax.dot_general(y, x, (((0,), (0,)), ((), ())))
    return made, made.T


def by_columns(x: Array, y: Array) -> Array:
    return (x @ y.T).T


def by_batches(x: Array, y: Array) -> Array:
    return jnp.einsum("bsi,bso->boi", x, y).transpose(0, 2, 1)


def otherwise(x: Array, y: Array) -> Array:
    """Of three dimensions, the first two are exchanged."""
    made = jax.lax.dot_general(y, x, (((0,), (0,)), ((), ())))
    return made.transpose(1, 0, 2)


@pytest.mark.parametrize(
    ("function", "x", "y"),
    [
        (read_twice, X, Y),
        (by_columns, X, Y),
        (by_batches, X3, Y3),
        (otherwise, X3, Y3[:, 0]),
    ],
)
def test_other_products_stay(
    function: Callable[..., Any], x: np.ndarray, y: np.ndarray
) -> None:
    case = lowered(function, x, y, axes=M2, tactics=[("M", {"y": -1 % y.ndim})])
    assert "transpose" in case.steps
    assert case.after(turn_products) == case.steps


INF, NAN = np.inf, np.nan
EDGES: dict[str, tuple[Any, Any]] = {
    "wrapping": (np.full((8, 4), 100, np.int8), np.full((8, 2), 3, np.int8)),
    "infinite": (np.full((8, 4), INF), np.ones((8, 2))),
    "no number": (np.full((8, 4), INF), np.zeros((8, 2))),
    "negative zero": (np.full((8, 4), -0.0), np.ones((8, 2))),
    "complex": (np.full((8, 4), 1 + 2j), np.full((8, 2), 3 - 1j)),
    "odd rows": (np.ones((12, 4), np.float32), np.ones((12, 2), np.float32)),
}


@pytest.mark.identity("turned", "unmerged")
@pytest.mark.parametrize("name", EDGES)
def test_numbers_are_those_of_one_device(name: str) -> None:
    x, y = EDGES[name]
    tactic = partir.ManualPartition({"x": 0, "y": 0}, outputs={"out": 0}, axis="B")
    run = partir.jit(gradient, {"B": 4}, [tactic], compiler_options=QUICK)
    want = jax.jit(gradient, compiler_options=QUICK)(x, y)
    np.testing.assert_array_equal(run(x, y), want)
    assert "transpose" not in stablehlo_text(run.partitioned(x, y).spmd, XLA_CPU)


# halves_rows


def text_of(x: Any, y: Any, halves: bool = True) -> str:
    tactic = partir.ManualPartition({"x": 0, "y": 0}, axis="B")
    done = partir.partition(gradient, {"B": 4}, [tactic], args=(x, y))
    policy = replace(XLA_CPU, halves_rows=halves)
    text = stablehlo_text(done.spmd, policy)
    assert not done.verify(text).not_proved
    return text


def shapes(dtype: str, rows: int = 16) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct((rows, width), dtype) for width in (4, 6)]


def test_rows_are_summed_by_halves() -> None:
    assert "tensor<2x2x6xf32>, tensor<2x2x4xf32>" in text_of(*shapes("float32"))
    assert "stablehlo.reshape" not in text_of(*shapes("float32"), halves=False)


@pytest.mark.parametrize(("dtype", "rows"), [("float64", 16), ("float32", 12)])
def test_other_types_and_odd_rows_are_not(dtype: str, rows: int) -> None:
    assert "stablehlo.reshape" not in text_of(*shapes(dtype, rows))


def test_xla_puts_the_left_operand_in_order() -> None:
    """Its kernels for products want the left one's sum along the last dimension."""

    def update(w: Array, x: Array, y: Array) -> Array:
        return w - jax.grad(lambda w: jnp.sum((x @ w) * y))(w)

    x, y = (np.ones((16, n), np.float32) for n in (8, 6))
    w = np.ones((8, 6), np.float32)
    rows = partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP")
    state = partir.ManualPartition({"w": 0}, outputs={"out": 0}, axis="B", name="Z3")
    for schedule in ([rows], [rows, state]):
        run = partir.jit(update, {"B": 4}, schedule)
        text = run.lower(w, x, y).compile().as_text()
        products = re.findall(r" dot\(.*lhs_contracting_dims=\{(\d)\}", text)
        assert set(products) == {"1"}
        np.testing.assert_allclose(run(w, x, y), update(w, x, y), rtol=1e-6)


def test_plain_programs_are_left_as_they_are() -> None:
    assert not PLAIN.turns_products
    assert not PLAIN.halves_rows
