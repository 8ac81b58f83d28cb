"""Modules that are wrong in places that are not known, in a type, or on a device."""

from __future__ import annotations

import numpy as np
import pytest

from partir.mesh import Mesh
from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import OPEN, RowTable, fill
from partir.verify.classes.terms import ClassTerm
from partir.verify.layouts.concrete import KNOWN, numbers
from partir.verify.layouts.layout import Digit, DigitLayout, View
from tests.verify.modules import (
    CHANNEL,
    WHOLE,
    Case,
    all_reduce,
    compare,
    constant,
    device,
    function,
    is_proved,
    permute,
    reducer,
    unary,
)

B: tuple[tuple[str, ...], ...] = (("B",),)
ONE = Mesh({"B": 1})


def forgotten_row() -> Case:
    """Device 0 receives nothing: what is cut out of that is not known, either."""
    given = {"a": "5xf64", "b": "5xf64"}
    rows = "broadcast_in_dim|, dims = [1]"
    two, four = "2x5xf64", "4x5xf64"
    both = f"(tensor<{two}>, tensor<{two}>) -> tensor<{four}>"
    local = function(
        given,
        two,
        unary("p", rows, "a", "5xf64", two),
        unary("q", rows, "b", "5xf64", two),
        f"%c = stablehlo.concatenate %p, %q, dim = 0 : {both}",
        permute("d", "c", [[0, 1]], four),
        unary("r", "slice|[0:2, 0:5]", "d", four, two),
    )
    source = function(given, two, unary("r", rows, "a", "5xf64", two))
    return Case(source, local, [(), ()])


def forgotten_number() -> Case:
    """A padded value that device 1 does not receive: nor does it the padding."""
    made = "1x{}xf64"
    local = function(
        {"x": "4x4xf64"},
        made.format(4),
        constant("c", "3.0", "f64"),
        "%p = stablehlo.pad %x, %c, low = [1, 0], high = [0, 0], interior = [0, 0]"
        " : (tensor<4x4xf64>, tensor<f64>) -> tensor<5x4xf64>",
        permute("d", "p", [[0, 0]], "5x4xf64"),
        unary("r", "slice|[0:1, 0:4]", "d", "5x4xf64", made.format(4)),
    )
    source = function({"x": "4x8xf64"}, made.format(8), constant("r", "3.0", "1x8xf64"))
    return Case(source, local, [((), ("B",))], ((), ("B",)))


def product(rows: int, name: str, x: str, y: str) -> str:
    type_ = f"tensor<{rows}xf64>"
    return (
        f"%{name} = stablehlo.dot_general %{x}, %{y}, contracting_dims = [0] x [0]"
        f" : ({type_}, {type_}) -> tensor<f64>"
    )


def masked(*operands: str) -> Case:
    """log(x) @ w of seven rows: behind the end, zero times infinity is nan."""
    names = {"l", "w"}
    select = "%{0}0 = stablehlo.select %m, %{0}, %z : tensor<4xi1>, tensor<4xf64>"
    used = [f"{name}0" if name in operands else name for name in sorted(names)]
    local = function(
        {"x": "4xf64", "w": "4xf64"},
        "f64",
        "%l = stablehlo.log %x : tensor<4xf64>",
        device("off", 4),
        unary("offs", "broadcast_in_dim|, dims = []", "off", "i32", "4xi32"),
        "%i = stablehlo.iota dim = 0 : tensor<4xi32>",
        "%at = stablehlo.add %i, %offs : tensor<4xi32>",
        constant("end", 7, "4xi32"),
        compare("m", "LT", "at", "end", "4xi32"),
        constant("z", "0.0", "4xf64"),
        *(select.format(name) for name in operands),
        product(4, "d", *used),
        all_reduce("r", "d", "add", "f64"),
    )
    source = function(
        {"x": "7xf64", "w": "7xf64"},
        "f64",
        "%l = stablehlo.log %x : tensor<7xf64>",
        product(7, "r", "l", "w"),
    )
    return Case(source, local, [B, B])


def total(name: str, rows: int, dtype: str) -> str:
    types = f"(tensor<{rows}xi8>, tensor<{dtype}>) -> tensor<{dtype}>"
    region = reducer("add", dtype)
    attrs = "{dimensions = array<i64: 0>}"
    return f'%{name} = "stablehlo.reduce"(%x, %z) {region} {attrs} : {types}'


def narrow(source: str, local: str, end: str) -> Case:
    """Sums of i8, in one type here and in another there."""

    def sum_of(name: str, rows: int, dtype: str, *more: str, made: str = "") -> str:
        body = (constant("z", 0, dtype), total(name, rows, dtype), *more)
        return function({"x": f"{rows}xi8"}, made or dtype, *body)

    over = all_reduce("r", "s", "add", local, end)
    return Case(
        sum_of("r", 4, source), sum_of("s", 2, local, over, made=end), [B], WHOLE
    )


def ordered(way: str) -> Case:
    """A maximum as integers in the order of floats; nan is what is not itself."""
    one = "tensor<i32>"

    def shift(name: str, operand: str) -> str:
        return f"""%{name}s = stablehlo.shift_right_arithmetic %{operand}, %w : {one}
  %{name}a = stablehlo.and %{name}s, %rest : {one}
  %{name} = stablehlo.xor %{operand}, %{name}a : {one}"""

    def largest(name: str, rows: int) -> str:
        types = f"(tensor<{rows}xf32>, tensor<f32>) -> tensor<f32>"
        start = constant("o", "0xFF800000", "f32")
        fold = "applies stablehlo.maximum across dimensions = [0]"
        return f"{start}\n  %{name} = stablehlo.reduce(%x init: %o) {fold} : {types}"

    local = function(
        {"x": "2xf32"},
        "f32",
        largest("m", 2),
        constant("w", 31, "i32"),
        constant("rest", 2**31 - 1, "i32"),
        unary("bits", "bitcast_convert", "m", "f32", "i32"),
        shift("turned", "bits"),
        f"%nan = stablehlo.compare {way}, %m, %m{', SIGNED' * (way == 'EQ')}"
        " : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        f"%sel = stablehlo.select %nan, %rest, %turned : tensor<i1>, {one}",
        all_reduce("all", "sel", "maximum", "i32"),
        shift("back", "all"),
        unary("r", "bitcast_convert", "back", "i32", "f32"),
    )
    return Case(function({"x": "4xf32"}, "f32", largest("r", 4)), local, [B])


def swapped(channel: str) -> Case:
    """Halves swapped between partitions; without a channel, between replicas."""
    half, types = "slice|[{}:{}]", ("4xf64", "2xf64")
    source = function(
        {"x": "4xf64"},
        "4xf64",
        unary("a", half.format(2, 4), "x", *types),
        unary("b", half.format(0, 2), "x", *types),
        "%r = stablehlo.concatenate %a, %b, dim = 0"
        " : (tensor<2xf64>, tensor<2xf64>) -> tensor<4xf64>",
    )
    local = function(
        {"x": "2xf64"}, "2xf64", permute("r", "x", [[0, 1], [1, 0]], "2xf64")
    )
    return Case(source, local.replace(f", {CHANNEL}", channel), [B], B)


def largest_start() -> Case:
    """A start beyond the end is the last, however large it is."""
    one = ("4xf64", "1xf64")
    source = function({"x": "4xf64"}, "1xf64", unary("r", "slice|[0:1]", "x", *one))
    local = function(
        {"x": "4xf64"},
        "1xf64",
        constant("c", f"[{2**64 - 1}, 0]", "2xui64"),
        unary("s", "slice|[0:1]", "c", "2xui64", "1xui64"),
        unary("i", "reshape", "s", "1xui64", "ui64"),
        "%r = stablehlo.dynamic_slice %x, %i, sizes = [1]"
        " : (tensor<4xf64>, tensor<ui64>) -> tensor<1xf64>",
    )
    return Case(source, local, [()], WHOLE, ONE)


def turned(*ops: str) -> Case:
    """Reversed in two dimensions, which are two each, and repeated."""
    small, large = "3x3x3x3xf64", "18x18xf64"
    apart = "3x2x3x3x2x3xf64"
    start = (
        unary("b", "broadcast_in_dim|, dims = [0, 2, 3, 5]", "x", small, apart),
        unary("c", "reshape", "b", apart, large),
    )
    straight = f"%r = stablehlo.reverse %c, dims = [0, 1] : tensor<{large}>"
    source, local = (
        function({"x": small}, large, *start, *body) for body in ((straight,), ops)
    )
    return Case(source, local, [()], WHOLE, ONE)


TRANSPOSED = unary("t", "transpose|, dims = [1, 0]", "c", "18x18xf64", "18x18xf64")
REVERSED = "%r = stablehlo.reverse %{}, dims = [1, 0] : tensor<18x18xf64>"


def gathered(devices: str) -> Case:
    """Tiles of both devices, in the order of a mesh."""
    axis = '#stablehlo.mesh_axis<name = "B", size = 2>'
    local = function(
        {"x": "2xf64"},
        "4xf64",
        f"""%g = "stablehlo.all_gather"(%x) {{all_gather_dim = 0 : i64,
    replica_groups = #stablehlo.replica_group_mesh_axes<
      mesh = #stablehlo.mesh<axes = [{axis}]{devices}>,
      axes = [#stablehlo.axis_ref<name = "B">]>,
    {CHANNEL}, use_global_device_ids}} : (tensor<2xf64>) -> tensor<4xf64>""",
        "%r = stablehlo.negate %g : tensor<4xf64>",
    )
    negated = "%r = stablehlo.negate %x : tensor<4xf64>"
    return Case(function({"x": "4xf64"}, "4xf64", negated), local, [B])


def loop(name: str, rows: int, operand: str) -> str:
    """`%name`, three times the sum of an operand."""
    summed = f"(tensor<{rows}xf64>, tensor<f64>) -> tensor<f64>"
    return f"""%{name}n, %{name} = stablehlo.while(%it = %none, %sum = %z)
      : tensor<i32>, tensor<f64>
    cond {{
      {compare("goes", "LT", "it", "three", "i32")}
      stablehlo.return %goes : tensor<i1>
    }} do {{
      %next = stablehlo.add %it, %one : tensor<i32>
      %s = stablehlo.reduce(%{operand} init: %z) applies stablehlo.add
        across dimensions = [0] : {summed}
      %more = stablehlo.add %sum, %s : tensor<f64>
      stablehlo.return %next, %more : tensor<i32>, tensor<f64>
    }}"""


def two_loops(taken: str) -> Case:
    """Two loops add up the same, in other parts: one of each is no whole."""
    start = [constant("z", "0.0", "f64")]
    for name, number in (("none", 0), ("one", 1), ("three", 3)):
        start.append(constant(name, number, "i32"))
    groups = f"replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, {CHANNEL}"
    local = function(
        {"x": "2xf64"},
        "f64",
        *start,
        loop("a", 2, "x"),
        f'%g = "stablehlo.all_gather"(%x) {{all_gather_dim = 0 : i64, {groups},'
        " use_global_device_ids} : (tensor<2xf64>) -> tensor<4xf64>",
        unary("h", "reshape", "g", "4xf64", "2x2xf64"),
        "%id = stablehlo.partition_id : tensor<ui32>",
        constant("first", 0, "ui32"),
        "%c = stablehlo.dynamic_slice %h, %first, %id, sizes = [2, 1]"
        " : (tensor<2x2xf64>, tensor<ui32>, tensor<ui32>) -> tensor<2x1xf64>",
        unary("y", "reshape", "c", "2x1xf64", "2xf64"),
        loop("b", 2, "y"),
        compare("is", "EQ", "id", "first", "ui32"),
        "%mixed = stablehlo.select %is, %a, %b : tensor<i1>, tensor<f64>",
        all_reduce("t", taken, "add", "f64"),
        "%r = stablehlo.negate %t : tensor<f64>",
    )
    end = "%r = stablehlo.negate %a : tensor<f64>"
    source = function({"x": "4xf64"}, "f64", *start, loop("a", 4, "x"), end)
    return Case(source, local, [B])


RIGHT = {
    "both masked": masked("l", "w"),
    "i8 added up as i8": narrow("i8", "i8", "i8"),
    "nan is not nan": ordered("NE"),
    "halves of partitions": swapped(f", {CHANNEL}"),
    "reversed in any order": turned(REVERSED.format("c")),
    "parts of one loop": two_loops("a"),
    "parts of another loop": two_loops("b"),
}
WRONG = {
    "rows that were not received": forgotten_row(),
    "padding that was not received": forgotten_number(),
    "one side masked": masked("w"),
    "another side masked": masked("l"),
    "i8 added up as i32": narrow("i8", "i8", "i32"),
    "i32 added up as i8": narrow("i32", "i8", "i8"),
    "all but nan are nan": ordered("EQ"),
    "halves of replicas": swapped(""),
    "halves of replicas, by channel 0": swapped(f", {CHANNEL.replace('1', '0', 1)}"),
    "the largest start is the first": largest_start(),
    "reversed and transposed": turned(TRANSPOSED, REVERSED.format("t")),
    "parts of two loops": two_loops("mixed"),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
def test_only_what_is_right_is_proved(name: str) -> None:
    assert is_proved({**RIGHT, **WRONG}[name]) is (name in RIGHT)


@pytest.mark.needs_jax("0.10", "groups by mesh axes came with it")
@pytest.mark.usefixtures("x64")
def test_groups_are_of_devices_in_their_order() -> None:
    assert is_proved(gathered(""))
    other = ", device_ids = dense<[1, 0]> : tensor<2xi64>"
    assert not is_proved(gathered(other))


def test_numbers_in_place_of_rows_are_themselves() -> None:
    classes = Classes()
    five = classes.of(ClassTerm("affine", (5, ()), (), (), (), dtype="i32"))
    known = classes.of(ClassTerm(KNOWN, (), (), (), (), new=(OPEN,), dtype="i32"))
    table = RowTable(np.array([fill(five), 1 << 39]), OPEN)
    view = View(known, DigitLayout(((Digit(0, 1, 2),),), (), ((0, table),)))
    found = numbers(classes, view)
    assert found is not None
    assert found.tolist() == [5, 0]
