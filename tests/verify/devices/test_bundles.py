"""Values that go through a collective side by side, and are cut apart again."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import AbstractMesh, PartitionSpec as P

import partir
from partir.frontend.device_local import read_device_local
from partir.spmd.export_policy import PLAIN, XLA_CPU
from partir.spmd.stablehlo.export import stablehlo_text
from partir.verify import prove
from partir.verify.devices.bundles import unbundled
from tests.verify.modules import (
    CHANNEL,
    TWO,
    Case,
    all_reduce,
    constant,
    function,
    is_proved,
    reducer,
)

pytestmark = pytest.mark.quick

ROWS = (("B",),)
GIVEN = {"x": "4x3x2xf32", "y": "4x5xf32"}
GROUPS = f"replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, {CHANNEL}"


def added(name: str, operand: str, rows: int, rest: str) -> str:
    types = f"(tensor<{rows}x{rest}xf32>, tensor<f32>) -> tensor<{rest}xf32>"
    how = "applies stablehlo.add across dimensions = [0]"
    return f"%{name} = stablehlo.reduce(%{operand} init: %zero) {how} : {types}"


def multiplied() -> tuple[str, ...]:
    """The sums of x and y, each element by each."""
    wide = "tensor<3x2x5xf32>"
    return (
        f"%aw = stablehlo.broadcast_in_dim %a, dims = [0, 1] : "
        f"(tensor<3x2xf32>) -> {wide}",
        f"%bw = stablehlo.broadcast_in_dim %b, dims = [2] : (tensor<5xf32>) -> {wide}",
        f"%r = stablehlo.subtract %aw, %bw : {wide}",
    )


SOURCE = function(
    GIVEN,
    "3x2x5xf32",
    constant("zero", 0.0, "f32"),
    added("a", "x", 4, "3x2"),
    added("b", "y", 4, "5"),
    *multiplied(),
)


def cut(name: str, start: int, end: int) -> str:
    types = f"(tensor<11xf32>) -> tensor<{end - start}xf32>"
    return f"%{name} = stablehlo.slice %sum [{start}:{end}] : {types}"


def cut_at(name: str, start: str, size: int) -> str:
    types = f"(tensor<11xf32>, tensor<i32>) -> tensor<{size}xf32>"
    what = f"stablehlo.dynamic_slice %sum, %{start}, sizes = [{size}]"
    return f"%{name} = {what} : {types}"


def hidden(*numbers: int) -> tuple[str, ...]:
    names = [f"n{place}" for place in range(len(numbers))]
    held = ", ".join(f"%{name}" for name in names)
    types = ", ".join(["tensor<i32>"] * len(names))
    return (
        *(constant(n, number, "i32") for n, number in zip(names, numbers, strict=True)),
        f"%s:{len(names)} = stablehlo.optimization_barrier {held} : {types}",
    )


def local(
    *cuts: str, joined: str = "%af, %bf", op: str = "add", also: str = "%asum"
) -> str:
    types = "(tensor<6xf32>, tensor<5xf32>)"
    return function(
        {"x": "2x3x2xf32", "y": "2x5xf32"},
        "3x2x5xf32",
        constant("zero", 0.0, "f32"),
        added("ap", "x", 2, "3x2"),
        added("bf", "y", 2, "5"),
        "%af = stablehlo.reshape %ap : (tensor<3x2xf32>) -> tensor<6xf32>",
        f"%both = stablehlo.concatenate {joined}, dim = 0 : {types} -> tensor<11xf32>"
        if joined.startswith("%af")
        else f"%both = stablehlo.concatenate {joined}, dim = 0 : "
        "(tensor<5xf32>, tensor<6xf32>) -> tensor<11xf32>",
        all_reduce("sum", "both", op, "11xf32"),
        *cuts,
        f"%a = stablehlo.reshape {also} : (tensor<6xf32>) -> tensor<3x2xf32>",
        *multiplied(),
    )


def proved(text: str) -> bool:
    return is_proved(Case(SOURCE, text, (ROWS, ROWS)))


def test_sums_of_values_side_by_side_are_sums_of_each() -> None:
    assert proved(local(cut("asum", 0, 6), cut("b", 6, 11)))
    behind = local(cut("b", 0, 5), cut("asum", 5, 11), joined="%bf, %af")
    assert proved(behind)


def test_places_may_be_hidden_behind_a_barrier() -> None:
    cuts = (cut_at("asum", "s#0", 6), cut_at("b", "s#1", 5))
    assert proved(local(*hidden(0, 6), *cuts))
    for wrong in ((6, 0), (1, 6), (0, 5), (0, 0)):
        assert not proved(local(*hidden(*wrong), *cuts))


def test_other_cuts_and_other_reductions_are_not_proved() -> None:
    right = cut("asum", 0, 6), cut("b", 6, 11)
    for wrong in (
        local(cut("asum", 1, 7), right[1]),
        local(right[0], cut("b", 5, 10)),
        local(cut("asum", 5, 11), cut("b", 0, 5)),
        local(*right, joined="%bf, %af"),
        local(*right, op="maximum"),
        local(*right, also="%af"),
    ):
        assert not proved(wrong)


# Gathers and scatters


def moved(kind: str, along: int, side: int) -> str:
    """x and y side by side along one dimension, moved along another."""
    name = "all_gather_dim" if kind == "all_gather" else "scatter_dimension"
    region = "" if kind == "all_gather" else reducer("add", "f32")
    tile, both = [2, 2], [2, 2]
    both[side] *= 2
    made = list(both)
    made[along] = made[along] * 2 if kind == "all_gather" else made[along] // 2
    one = list(made)
    one[side] //= 2
    shapes = ["x".join(map(str, s)) + "xf32" for s in (tile, both, made, one)]
    t, b, m, o = shapes
    starts = [[0, 0], [0, 0]]
    starts[1][side] = one[side]
    cuts = [
        f"%{n} = stablehlo.slice %moved ["
        + ", ".join(f"{s}:{s + size}" for s, size in zip(start, one, strict=True))
        + f"] : (tensor<{m}>) -> tensor<{o}>"
        for n, start in zip("ab", starts, strict=True)
    ]
    return function(
        {"x": t, "y": t},
        o,
        f"%both = stablehlo.concatenate %x, %y, dim = {side} : "
        f"(tensor<{t}>, tensor<{t}>) -> tensor<{b}>",
        f'%moved = "stablehlo.{kind}"(%both) {region} {{ {name} = {along} : i64, '
        f"{GROUPS}, use_global_device_ids }} : (tensor<{b}>) -> tensor<{m}>",
        *cuts,
        f"%r = stablehlo.subtract %a, %b : tensor<{o}>",
    )


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
@pytest.mark.parametrize("along", [0, 1])
def test_values_are_moved_along_another_dimension_than_they_lie_along(
    kind: str, along: int
) -> None:
    for side in (0, 1):
        program = read_device_local(moved(kind, along, side))
        made = unbundled(program, program)
        kinds = [made.ops[number].signature.name for number in made.body.ops]
        if side == along:
            assert made is program
        else:
            assert kinds == [kind, kind, "subtract"]


# What else reads what is put side by side, and what the source puts so


def read_elsewhere(first: str, second: str, *body: str) -> str:
    """x and y summed side by side; two results, in a module that makes more."""
    lines = "\n  ".join(
        (
            "%both = stablehlo.concatenate %x, %y, dim = 0 : "
            "(tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>",
            all_reduce("sum", "both", "add", "6xf32"),
            "%a = stablehlo.slice %sum [0:3] : (tensor<6xf32>) -> tensor<3xf32>",
            *body,
        )
    )
    return f"""func.func public @main(%x: tensor<3xf32>, %y: tensor<3xf32>,
      %if: tensor<i1>) -> (tensor<3xf32>, tensor<6xf32>) {{
  {lines}
  return {first}, {second} : tensor<3xf32>, tensor<6xf32>
}}"""


BRANCH = """%r = "stablehlo.if"(%if) ({{
    stablehlo.return %{0} : tensor<6xf32>
  }}, {{
    %n = stablehlo.negate %x : tensor<3xf32>
    %nn = stablehlo.concatenate %n, %n, dim = 0 :
      (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
    stablehlo.return %nn : tensor<6xf32>
  }}) : (tensor<i1>) -> tensor<6xf32>"""
NOTHING = (
    f'"stablehlo.all_reduce"() {reducer("add", "f32")} '
    f"{{{GROUPS}, use_global_device_ids}} : () -> ()"
)


@pytest.mark.parametrize(
    ("second", "body", "ops"),
    [
        ("%both", (), ["concatenate", "all_reduce"]),
        ("%sum", (), ["concatenate", "all_reduce", "all_reduce"]),
        ("%r", (BRANCH.format("both"),), ["concatenate", "all_reduce", "if"]),
        (
            "%r",
            (BRANCH.format("sum"),),
            ["concatenate", "all_reduce", "all_reduce", "if"],
        ),
        ("%both", (NOTHING,), ["concatenate", "all_reduce", "all_reduce"]),
    ],
)
def test_what_is_returned_as_well_is_still_made(
    second: str, body: tuple[str, ...], ops: list[str]
) -> None:
    program = read_device_local(read_elsewhere("%a", second, *body))
    made = unbundled(program, program)
    assert [made.ops[number].signature.name for number in made.body.ops] == ops


def test_proofs_look_at_what_is_returned_as_well() -> None:
    lines = [
        f"%{n}2 = stablehlo.reshape %{n} : (tensor<6xf32>) -> tensor<2x3xf32>"
        for n in "xy"
    ]
    source = function(
        {"x": "6xf32", "y": "6xf32", "if": "i1"},
        "6xf32",
        constant("zero", 0.0, "f32"),
        *lines,
        added("a", "x2", 2, "3"),
        added("b", "y2", 2, "3"),
        "%r = stablehlo.concatenate %a, %b, dim = 0 : "
        "(tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>",
    )
    source = source.replace("-> tensor<6xf32> {", "-> (tensor<3xf32>, tensor<6xf32>) {")
    source = source.replace("return %r :", "return %a, %r : tensor<3xf32>,")
    for second, proved in (("%sum", 2), ("%both", 1)):
        text, tilings = read_elsewhere("%a", second), ((ROWS, ROWS, ()), (((),), ((),)))
        assert len(prove(partir.load(source), text, TWO, *tilings).proved) == proved


def summed_by_hand(x: Array, y: Array) -> tuple[Array, Array]:
    both = jax.lax.psum(jnp.concatenate([jnp.sin(x), jnp.cos(y)], 1), "B")
    return both[:, :3], both[:, 3:]


def test_what_the_author_puts_side_by_side_in_a_shard_map_stays_so() -> None:
    mesh = AbstractMesh((2,), ("B",))
    body = jax.shard_map(
        summed_by_hand, mesh=mesh, in_specs=P("B"), out_specs=P(), check_vma=False
    )

    def model(x: Array, y: Array) -> tuple[Array, ...]:
        return (*body(x, y), x.sum(), y.sum())

    args = np.ones((4, 3), np.float32), np.ones((4, 5), np.float32)
    batch = partir.ManualPartition({"x": 0, "y": 0}, axis="B")
    made = partir.partition(model, {"B": 2}, [batch], args=args, verify="off")
    for policy, joins in ((PLAIN, 1), (XLA_CPU, 2)):
        text = stablehlo_text(made.spmd, policy)
        assert text.count('"stablehlo.concatenate"') == joins
        assert not made.verify(text).not_proved
