"""Sums over one axis after another, of what the source adds up at once."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from partir.mesh import Mesh
from partir.verify.classes.classes import Classes
from partir.verify.classes.terms import ClassTerm
from partir.verify.identities.reduction import Reduction
from partir.verify.identities.sums import reduce
from tests.verify.modules import Case, all_reduce, constant, function, is_proved

FOUR = Mesh({"A": 2, "B": 2})
ROWS = (("A", "B"),)
OVER = {"A": "[[0, 2], [1, 3]]", "B": "[[0, 1], [2, 3]]", "both": "[[0, 1, 2, 3]]"}


def over(name: str, operand: str, axis: str, op: str = "add") -> str:
    groups = OVER[axis]
    shape = "2x2" if axis != "both" else "1x4"
    text = all_reduce(name, operand, op, "3xf64")
    return text.replace("dense<[[0, 1]]>", f"dense<{groups}>").replace(
        "1x2xi64", f"{shape}xi64"
    )


def added(*steps: str, monoid: str = "add") -> Case:
    """The sum of all rows of x + y."""
    reduce = (
        "%r = stablehlo.reduce(%s init: %z) applies stablehlo.add across dimensions = "
        "[0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>"
    )
    source = function(
        {"x": "4x3xf64", "y": "4x3xf64"},
        "3xf64",
        constant("z", "0.0", "f64"),
        f"%s = stablehlo.{monoid} %x, %y : tensor<4x3xf64>",
        reduce,
    )
    local = function(
        {"x": "1x3xf64", "y": "1x3xf64"},
        "3xf64",
        f"%s = stablehlo.{monoid} %x, %y : tensor<1x3xf64>",
        "%t = stablehlo.reshape %s : (tensor<1x3xf64>) -> tensor<3xf64>",
        *steps,
    )
    return Case(source, local, [ROWS, ROWS], mesh=FOUR)


@pytest.mark.usefixtures("x64")
def test_sums_in_turn_are_one_sum() -> None:
    assert is_proved(added(over("u", "t", "A"), over("r", "u", "B")))
    assert is_proved(added(over("u", "t", "B"), over("r", "u", "A")))
    assert is_proved(added(over("r", "t", "both")))


@pytest.mark.usefixtures("x64")
def test_other_sums_are_not() -> None:
    both = (over("u", "t", "A"), over("r", "u", "B"))
    assert not is_proved(added(over("u", "t", "A"), over("r", "u", "A")))
    assert not is_proved(added(over("r", "t", "A")))
    assert not is_proved(added(both[0], over("r", "u", "B", "maximum")))
    product = added(*both, monoid="multiply").local
    assert not is_proved(added(*both)._replace(local=product))


def convolved(x: Array, w: Array) -> Array:
    numbers = ("NHC", "HIO", "NHC")
    return lax.conv_general_dilated(x, w, (1,), "VALID", dimension_numbers=numbers)


def two_gradients(x: Array, w: Array) -> Array:
    """A kernel that is used twice: the sum of two gradients, summed over devices."""
    found: Array = jax.grad(
        lambda w: jnp.sum(jnp.sin(convolved(jnp.tanh(convolved(x, w)), w)))
    )(w)
    return found


def test_gradients_of_windows_are_summed_together() -> None:
    args = [jax.ShapeDtypeStruct(s, "float32") for s in ((1, 20, 2), (3, 2, 2))]
    rows = partir.ManualPartition({"x": 1}, axis="B")
    p = partir.partition(two_gradients, {"B": 4}, [rows], args=args)
    assert p.collectives["all_reduce"] == 1
    assert not p.proof().not_proved
    text = p.stablehlo()
    for right, wrong in (
        ("direction LT>", "direction GT>"),
        ('lo.add"', 'lo.maximum"'),
    ):
        before, found, after = text.rpartition(right)
        assert found
        assert p.proof(before + wrong + after).not_proved


def two_kernels(x: Array, w: Array) -> Array:
    """Gradients of kernels that are apart in one tensor, summed over devices."""

    def loss(w: Array) -> Array:
        made = x
        for number in range(2):
            made = jnp.tanh(
                lax.conv_general_dilated(
                    made,
                    w[number],
                    (1,),
                    "SAME",
                    rhs_dilation=(number + 1,),
                    dimension_numbers=("NHC", "HIO", "NHC"),
                )
            )
        return jnp.sum(jnp.sin(made))

    found: Array = jax.grad(loss)(w)
    return found


def test_what_is_side_by_side_is_summed_together() -> None:
    args = [jax.ShapeDtypeStruct(s, "float32") for s in ((1, 16, 2), (2, 3, 2, 2))]
    rows = partir.ManualPartition({"x": 1}, axis="B")
    p = partir.partition(two_kernels, {"B": 4}, [rows], args=args)
    assert p.collectives["all_reduce"] == 1
    assert not p.proof().not_proved
    text = p.stablehlo()
    made = [*re.finditer(r'lo.concatenate"\((%\w+), (%\w+)\)', text)][-1]
    first, second = made.span(1), made.span(2)
    turned = text[: first[0]] + made[2] + ", " + made[1] + text[second[1] :]
    assert p.proof(turned).not_proved


def largest_sum(classes: Classes, node: int, groups: list[list[int]]) -> object:
    """The largest of sums of some rows: its class, and which of it."""
    what = Reduction("sum", node, (("i",),), {"i": 8}, frozenset("i"))
    sums = reduce(classes, what._replace(rows={"i": np.array(groups)}))
    of_all = {"i": sums.rows["i"][None]}
    sizes = {"i": classes.terms[sums.node].dims[0]}
    what = Reduction("max", sums.node, (("i",),), sizes, frozenset("i"), rows=of_all)
    made = reduce(classes, what)
    return made.node, made.rows["i"].tolist()


@pytest.mark.quick
def test_it_matters_what_was_summed_before_the_largest_is_taken() -> None:
    """max(a + b, c + d) is not max(a + c, b + d)."""
    classes = Classes()
    argument = ClassTerm("argument", 0, (), (), (), new=(8,), dtype="f32")
    node = classes.of(argument)
    pairs = largest_sum(classes, node, [[0, 1], [2, 3]])
    assert pairs == largest_sum(classes, node, [[2, 3], [1, 0]])
    assert pairs != largest_sum(classes, node, [[0, 2], [1, 3]])
