"""Rows padded before a reduction, or after it: the numbers there are others."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import partir
from tests.verify.modules import Case, all_reduce, constant, function, is_proved
from tests.verify.test_right_and_wrong import shape

pytestmark = pytest.mark.quick
Function = Callable[[jax.Array], jax.Array]


def padded(value: jax.Array) -> jax.Array:
    edges = ((0, 1), *((0, 0),) * (value.ndim - 1))
    return jnp.pad(value, edges, constant_values=5.0)


def of_one(value: jax.Array) -> jax.Array:
    """A sum along a dimension of one row, which changes nothing."""
    return lax.reduce(value[..., None], jnp.float32(0), lax.add, (value.ndim,))


def repeated(value: jax.Array) -> jax.Array:
    return jnp.broadcast_to(value[:, None], (value.size, 3)).sum(1)


def before(x: jax.Array) -> jax.Array:
    return padded(jnp.sin(x)).sum(-1)


def after(x: jax.Array) -> jax.Array:
    return padded(jnp.sin(x).sum(-1))


BEHIND: dict[str, tuple[Function, tuple[int, ...]]] = {
    "nothing": (of_one, (4, 8)),
    "a maximum": (lambda y: y.max(1), (4, 3, 8)),
    "another sum": (lambda y: y.sum(1), (4, 3, 8)),
    "a maximum of rows": (lambda y: y.max(0), (4, 8)),
    "a sum of rows": (lambda y: y.sum(0), (4, 8)),
    "one row": (lambda y: y[4].max(0), (4, 3, 8)),
    "repetition": (repeated, (4, 8)),
    "a row of a repetition": (lambda y: repeated(y)[4], (4, 8)),
    "a product": (lambda y: y @ jnp.ones((3, 2)), (4, 3, 8)),
    "a sort": (lambda y: jnp.sort(y, 1).sum(1), (4, 3, 8)),
    "each element": (jnp.cos, (4, 8)),
}


@pytest.mark.parametrize("name", BEHIND)
def test_padding_before_a_sum_is_not_padding_after_it(name: str) -> None:
    behind, sizes = BEHIND[name]
    made = [
        partir.partition(
            lambda x, f=f: behind(f(x)), {"B": 1}, [], args=(shape(*sizes),)
        )
        for f in (before, after)
    ]
    for p in made:
        assert not p.verify().not_proved
    assert made[0].proof(made[1].stablehlo()).proved == ()
    assert made[1].proof(made[0].stablehlo()).proved == ()


def test_padding_before_a_product_is_not_padding_after_it() -> None:
    w = shape(8, 3)
    first, second = (
        partir.partition(f, {"B": 1}, [], args=(shape(4, 8), w))
        for f in (
            lambda x, w: (padded(jnp.sin(x)) @ w).max(1),
            lambda x, w: padded(jnp.sin(x) @ w).max(1),
        )
    )
    assert first.proof(second.stablehlo()).proved == ()
    assert second.proof(first.stablehlo()).proved == ()


def pad(name: str, operand: str, number: str, before_: str, after_: str) -> str:
    """One row more."""
    more, none = ("[1, 0]", "[0, 0]") if before_.count("x") > 1 else ("[1]", "[0]")
    return f"""{constant(f"{name}c", number, "f32")}
  %{name} = stablehlo.pad %{operand}, %{name}c, low = {none}, high = {more},
    interior = {none} : (tensor<{before_}>, tensor<f32>) -> tensor<{after_}>"""


def total(name: str, operand: str, before_: str, after_: str) -> str:
    return f"""{constant(f"{name}z", "0.0", "f32")}
  %{name} = stablehlo.reduce(%{operand} init: %{name}z) applies stablehlo.add across
    dimensions = [1] : (tensor<{before_}>, tensor<f32>) -> tensor<{after_}>"""


def summed(number: str, *, first: bool) -> Case:
    """A sum over two devices, padded before or after devices have summed their own."""
    source = function(
        {"x": "4x8xf32"},
        "5xf32",
        pad("p", "x", number, "4x8xf32", "5x8xf32"),
        total("r", "p", "5x8xf32", "5xf32"),
    )
    own = (
        pad("h", "x", number, "4x4xf32", "5x4xf32"),
        total("e", "h", "5x4xf32", "5xf32"),
    )
    late = (
        total("h", "x", "4x4xf32", "4xf32"),
        pad("e", "h", number, "4xf32", "5xf32"),
    )
    local = function(
        {"x": "4x4xf32"},
        "5xf32",
        *(own if first else late),
        all_reduce("r", "e", "add", "5xf32"),
    )
    return Case(source, local, [((), ("B",))])


def product(number: str, *, first: bool) -> Case:
    """The same of a product."""
    line = (
        "%{} = stablehlo.dot_general %{}, %w, contracting_dims = [1] x [0] : "
        "(tensor<{}x{}xf32>, tensor<{}x3xf32>) -> tensor<{}x3xf32>"
    )
    source = function(
        {"x": "4x8xf32", "w": "8x3xf32"},
        "5x3xf32",
        pad("p", "x", number, "4x8xf32", "5x8xf32"),
        line.format("r", "p", 5, 8, 8, 5),
    )
    own = (
        pad("h", "x", number, "4x4xf32", "5x4xf32"),
        line.format("e", "h", 5, 4, 4, 5),
    )
    late = (
        line.format("h", "x", 4, 4, 4, 4),
        pad("e", "h", number, "4x3xf32", "5x3xf32"),
    )
    local = function(
        {"x": "4x4xf32", "w": "4x3xf32"},
        "5x3xf32",
        *(own if first else late),
        all_reduce("r", "e", "add", "5x3xf32"),
    )
    return Case(source, local, [((), ("B",)), (("B",),)])


@pytest.mark.parametrize("made", [summed, product])
def test_devices_pad_their_parts(made: Callable[..., Case]) -> None:
    """Another number than zero, before they add up their own alone."""
    assert is_proved(made("0.0", first=True))
    assert is_proved(made("5.0", first=True))
    assert not is_proved(made("5.0", first=False))
