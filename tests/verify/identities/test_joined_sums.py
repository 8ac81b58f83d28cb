"""Parts of sums that devices put side by side, and add up behind other ops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

import partir
from tests.verify.modules import Case, all_reduce, constant, function, is_proved
from tests.verify.test_right_and_wrong import shape

pytestmark = pytest.mark.quick

ROWS = (("B",),)


def added(name: str, operand: str, rows: int) -> str:
    types = f"(tensor<{rows}x3xf32>, tensor<f32>) -> tensor<3xf32>"
    how = "applies stablehlo.add across dimensions = [0]"
    return f"""%{name}s = stablehlo.reduce(%{operand} init: %zero) {how} : {types}
  %{name} = stablehlo.reshape %{name}s : (tensor<3xf32>) -> tensor<1x3xf32>"""


def beside(first: str, second: str, op: str = "negate") -> tuple[str, str]:
    types = "(tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>"
    joined = f"%both = stablehlo.concatenate %{first}, %{second}, dim = 0 : {types}"
    return joined, f"%made = stablehlo.{op} %both : tensor<2x3xf32>"


def source(*ops: str) -> str:
    return function(
        {"x": "4x3xf32", "y": "4x3xf32"},
        "2x3xf32",
        constant("zero", 0.0, "f32"),
        added("a", "x", 4),
        added("b", "y", 4),
        *ops,
        "%r = stablehlo.reshape %made : (tensor<2x3xf32>) -> tensor<2x3xf32>",
    )


def local(*ops: str, rows: int = 2) -> str:
    """Of x each device has a tile; of y, too, or all of it."""
    return function(
        {"x": "2x3xf32", "y": f"{rows}x3xf32"},
        "2x3xf32",
        constant("zero", 0.0, "f32"),
        added("a", "x", 2),
        added("b", "y", rows),
        *ops,
        all_reduce("r", "made", "add", "2x3xf32"),
    )


def test_parts_side_by_side_are_added_up_each_by_itself() -> None:
    right = source(*beside("a", "b"))
    given = (ROWS, ROWS)
    assert is_proved(Case(right, local(*beside("a", "b")), given))
    for wrong in (("b", "a"), ("a", "a"), ("a", "b", "tanh")):
        assert not is_proved(Case(right, local(*beside(*wrong)), given))
    whole = local(*beside("a", "b"), rows=4)  # and added up as often as there are
    assert not is_proved(Case(right, whole, (ROWS, ())))


def shifted(x: Array, mix: Array, w: Array, g: Array) -> tuple[Array, ...]:
    """Layers that mix each token with the one before it, and their gradient."""

    def layers(x: Array, mix: Array, w: Array) -> Array:
        def layer(h: Array, weights: tuple[Array, Array]) -> tuple[Array, None]:
            shares, product = weights
            before = jnp.pad(h, ((1, 0), (0, 0)))[:-1]
            return jnp.tanh((h * shares[0] + before * shares[1]) @ product), None

        return lax.scan(layer, x, (mix, w))[0]

    gradient: tuple[Array, ...] = jax.vjp(layers, x, mix, w)[1](g)
    return gradient


def test_gradients_of_shares_are_stacked_in_a_loop() -> None:
    tactic = partir.ManualPartition({"x": 0}, axis="B")
    args = (shape(4, 3), shape(2, 2, 3), shape(2, 3, 3), shape(4, 3))
    p = partir.partition(shifted, {"B": 2}, [tactic], args=args)
    assert not p.verify().not_proved
    text = p.stablehlo()
    *before, last, after = text.split('"stablehlo.concatenate"(')
    assert "tensor<2x3xf32>" in after.splitlines()[0], last
    names, rest = after.split(")", 1)
    swapped = ", ".join(reversed(names.split(", ")))
    other = '"stablehlo.concatenate"('.join([*before, last, f"{swapped}){rest}"])
    assert other != text
    assert "out/1" not in p.proof(other).proved
