"""Values that go through a collective side by side, and are cut apart again."""

from __future__ import annotations

import pytest

from partir.frontend.device_local import read_device_local
from partir.verify.bundles import unbundled
from tests.verify.modules import (
    CHANNEL,
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
        made = unbundled(program)
        kinds = [made.ops[number].signature.name for number in made.body.ops]
        if side == along:
            assert made is program
        else:
            assert kinds == [kind, kind, "subtract"]
