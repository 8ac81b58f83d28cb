"""Modules that are wrong at the edges of an identity: none is proved."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import partir
from partir.mesh import Mesh
from partir.verify import prove
from partir.verify.classes.monoids import is_identity

ONE, TWO = Mesh({"B": 1}), Mesh({"B": 2})


class Pair(NamedTuple):
    """A source and a module that computes something else."""

    source: str
    wrong: str
    mesh: Mesh = ONE


def main(given: str, made: str, body: str) -> str:
    """A module of one function with an argument `%x`, which returns `%r`."""
    argument = f"%x: tensor<{given}>" if given else ""
    lines = f"{body}\n  return %r : tensor<{made}>"
    return f"func.func public @main({argument}) -> tensor<{made}> {{\n{lines}\n}}"


def reduce(name: str, operand: str, op: str, init: str, dim: int, sizes: str) -> str:
    """`%name`, a reduction of one dimension of `sizes`, which end in a type."""
    *shape, dtype = sizes.split("x")
    left = "x".join([*(n for i, n in enumerate(shape) if i != dim), dtype])
    return (
        f"%{name} = stablehlo.reduce(%{operand} init: %{init}) applies stablehlo.{op} "
        f"across dimensions = [{dim}] : (tensor<{sizes}>, tensor<{dtype}>) "
        f"-> tensor<{left}>"
    )


def constant(name: str, number: object, dtype: str) -> str:
    return f"%{name} = stablehlo.constant dense<{number}> : tensor<{dtype}>"


def all_reduce(name: str, operand: str, op: str, dtype: str) -> str:
    t = f"tensor<{dtype}>"
    return f"""%{name} = "stablehlo.all_reduce"(%{operand}) ({{
      ^bb0(%p: {t}, %q: {t}):
        %pq = stablehlo.{op} %p, %q : {t}
        stablehlo.return %pq : {t} }}) {{
      replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      use_global_device_ids}} : ({t}) -> {t}"""


def repeated(way: str, dtype: str, start: object) -> Pair:
    """`way` over sums of three equal numbers is not the sum of three results."""
    start_, zero = constant("o", start, dtype), constant("z", 0, dtype)
    if dtype[0] == "f":
        zero = constant("z", "0.0", dtype)
    spread = "%b = stablehlo.broadcast_in_dim"
    source = [
        *(start_, zero),
        f"{spread} %x, dims = [0] : (tensor<3x{dtype}>) -> tensor<3x3x{dtype}>",
        reduce("s", "b", "add", "z", 1, f"3x3x{dtype}"),
        reduce("r", "s", way, "o", 0, f"3x{dtype}"),
    ]
    wrong = [
        *(start_, zero),
        reduce("s", "x", way, "o", 0, f"3x{dtype}"),
        f"{spread} %s, dims = [] : (tensor<{dtype}>) -> tensor<3x{dtype}>",
        reduce("r", "b", "add", "z", 0, f"3x{dtype}"),
    ]
    made = (main(f"3x{dtype}", dtype, "\n".join(lines)) for lines in (source, wrong))
    return Pair(*made)


def started(dtype: str, wrong: object, right: object) -> Pair:
    """Maxima that start from what is no identity."""
    fold = reduce("r", "x", "maximum", "o", 0, f"4x{dtype}")
    source, module = (
        main(f"4x{dtype}", dtype, f"{constant('o', n, dtype)}\n{fold}")
        for n in (wrong, right)
    )
    return Pair(source, module)


def convolution(kernel: str, result: str) -> str:
    body = f"""%w = stablehlo.iota dim = 0 : tensor<3x3x1x1xf64>
  %r = stablehlo.convolution(%x, %w)
      dim_numbers = [b, 0, 1, f]x{kernel}->{result}, window = {{stride = [1, 1]}}
      {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
      : (tensor<1x5x5x1xf64>, tensor<3x3x1x1xf64>) -> tensor<1x3x3x1xf64>"""
    return main("1x5x5x1xf64", "1x3x3x1xf64", body)


def scattered(count: int, then: str) -> str:
    """`count` equal updates at one place."""
    body = f"""%z = stablehlo.constant dense<0.0> : tensor<f64>
  %u = stablehlo.slice %x [0:1] : (tensor<4xf64>) -> tensor<1xf64>
  %v = stablehlo.reshape %u : (tensor<1xf64>) -> tensor<f64>
  %i = stablehlo.constant dense<1> : tensor<{count}x1xi32>
  %b = stablehlo.broadcast_in_dim %v, dims = [] : (tensor<f64>) -> tensor<{count}xf64>
  %s = "stablehlo.scatter"(%x, %i, %b) ({{
    ^bb0(%p: tensor<f64>, %q: tensor<f64>):
      %pq = stablehlo.add %p, %q : tensor<f64>
      stablehlo.return %pq : tensor<f64>
  }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
      indices_are_sorted = false, unique_indices = false}}
      : (tensor<4xf64>, tensor<{count}x1xi32>, tensor<{count}xf64>) -> tensor<4xf64>
  {then}"""
    return main("4xf64", "4xf64", body)


THREE_TIMES = (
    "%t = stablehlo.broadcast_in_dim %s, dims = [0] "
    ": (tensor<4xf64>) -> tensor<4x3xf64>\n"
    + reduce("r", "t", "add", "z", 1, "4x3xf64")
)
AS_IT_IS = "%r = stablehlo.negate %s : tensor<4xf64>"


def by_zero(rows: int, then: str) -> str:
    """(Σ x) / 0: parts 2 and -1 give inf - inf, the whole gives inf."""
    body = [
        constant("z", "0.0", "f64"),
        reduce("s", "x", "add", "z", 0, f"{rows}xf64"),
        f"{then} = stablehlo.divide %s, %z : tensor<f64>",
    ]
    return "\n".join(body)


def narrowed(rows: int, end: list[str]) -> str:
    body = [
        constant("z", "0.0", "f32"),
        reduce("s", "x", "add", "z", 0, f"{rows}xf32"),
        *end,
    ]
    return main(f"{rows}xf32", "bf16", "\n".join(body))


ORDER = """%w = stablehlo.constant dense<31> : tensor<i32>
  %rest = stablehlo.constant dense<2147483647> : tensor<i32>
  %bits = "stablehlo.bitcast_convert"(%m) : (tensor<i32>) -> tensor<i32>
  %neg = stablehlo.shift_right_arithmetic %bits, %w : tensor<i32>
  %and = stablehlo.and %neg, %rest : tensor<i32>
  %ord = stablehlo.xor %bits, %and : tensor<i32>
  %nan = stablehlo.compare NE, %m, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %sel = stablehlo.select %nan, %rest, %ord : tensor<i1>, tensor<i32>"""
BACK = """%neg2 = stablehlo.shift_right_arithmetic %all, %w : tensor<i32>
  %and2 = stablehlo.and %neg2, %rest : tensor<i32>
  %ord2 = stablehlo.xor %all, %and2 : tensor<i32>
  %r = "stablehlo.bitcast_convert"(%ord2) : (tensor<i32>) -> tensor<i32>"""


def largest(rows: int, name: str, then: list[str]) -> str:
    start = constant("o", -(2**31), "i32")
    fold = reduce(name, "x", "maximum", "o", 0, f"{rows}xi32")
    return main(f"{rows}xi32", "i32", "\n".join([start, fold, *then]))


NARROW = "%{} = stablehlo.convert %{} : (tensor<f32>) -> tensor<bf16>"
PAIRS: dict[str, Pair] = {
    "a product of sums": repeated("multiply", "f64", "1.0"),
    "a maximum of sums that wrap around": repeated("maximum", "i8", -128),
    "a kernel turned": Pair(
        convolution("[0, 1, i, o]", "[b, 0, 1, f]"),
        convolution("[1, 0, i, o]", "[b, 0, 1, f]"),
    ),
    "a result turned": Pair(
        convolution("[0, 1, i, o]", "[b, 0, 1, f]"),
        convolution("[0, 1, i, o]", "[b, 1, 0, f]"),
    ),
    "counting that wraps around": Pair(
        main(
            "",
            "300xi32",
            "%i = stablehlo.iota dim = 0 : tensor<300xi8>\n"
            "%r = stablehlo.convert %i : (tensor<300xi8>) -> tensor<300xi32>",
        ),
        main("", "300xi32", "%r = stablehlo.iota dim = 0 : tensor<300xi32>"),
    ),
    "a maximum from nan": started("f16", "0xFF80", "0xFC00"),
    "a maximum from the least but one": started("i64", -(2**63) + 1, -(2**63)),
    "three updates, or three times one": Pair(
        scattered(3, AS_IT_IS), scattered(1, THREE_TIMES)
    ),
    "parts divided by zero": Pair(
        main("4xf64", "f64", by_zero(4, "%r")),
        main(
            "2xf64",
            "f64",
            by_zero(2, "%d") + "\n" + all_reduce("r", "d", "add", "f64"),
        ),
        TWO,
    ),
    "parts narrowed before they are added": Pair(
        narrowed(4, [NARROW.format("r", "s")]),
        narrowed(2, [NARROW.format("d", "s"), all_reduce("r", "d", "add", "bf16")]),
        TWO,
    ),
    "integers in the order of floats": Pair(
        largest(4, "r", []),
        largest(2, "m", [ORDER, all_reduce("all", "sel", "maximum", "i32"), BACK]),
        TWO,
    ),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", PAIRS)
def test_is_not_proved(name: str) -> None:
    source, wrong, mesh = PAIRS[name]
    program = partir.load(source)
    axes = ("B",) if mesh.size > 1 else ()
    ranks = [len(program.types[v].shape) for v in program.body.arguments]
    tiled = [(axes, *((),) * (rank - 1)) for rank in ranks]
    (port,) = program.results
    whole = ((),) * len(program.types[port.value].shape)
    assert prove(program, wrong, mesh, tiled, [whole]).not_proved
    if mesh is ONE and "wraps around" not in name and "three" not in name:
        assert not prove(program, source, mesh, tiled, [whole]).not_proved


def sent(pairs: str) -> str:
    """The first row of two, from a device to another."""
    body = f"""%n = stablehlo.negate %x : tensor<1x4xf64>
  %c = stablehlo.concatenate %x, %n, dim = 0
      : (tensor<1x4xf64>, tensor<1x4xf64>) -> tensor<2x4xf64>
  %p = "stablehlo.collective_permute"(%c) {{
      source_target_pairs = dense<{pairs}> : tensor<{pairs.count("],") + 1}x2xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}
      : (tensor<2x4xf64>) -> tensor<2x4xf64>
  %s = stablehlo.slice %p [0:1, 0:4] : (tensor<2x4xf64>) -> tensor<1x4xf64>
  %r = stablehlo.negate %s : tensor<1x4xf64>"""
    return main("1x4xf64", "1x4xf64", body)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("pairs", "proved"), [("[[0, 1], [1, 0]]", True), ("[[0, 1]]", False)]
)
def test_a_device_that_receives_nothing_has_nothing(pairs: str, proved: bool) -> None:
    negate = "%r = stablehlo.negate %x : tensor<1x4xf64>"
    source = partir.load(main("1x4xf64", "1x4xf64", negate))
    made = prove(source, sent(pairs), TWO, [((), ())], [((), ())])
    assert bool(made.proved) is proved


def called(target: str) -> str:
    call = (
        f"%y = stablehlo.custom_call @{target}(%x) : (tensor<4xf64>) -> tensor<4xf64>"
    )
    return main("4xf64", "4xf64", f"{call}\n  %r = stablehlo.negate %y : tensor<4xf64>")


@pytest.mark.usefixtures("x64")
def test_another_memory_holds_the_same_and_another_call_does_not() -> None:
    source = partir.load(called("MoveToHost"))
    negated = main("4xf64", "4xf64", "%r = stablehlo.negate %x : tensor<4xf64>")
    for local in (negated, called("MoveToHost"), called("annotate_device_placement")):
        assert prove(source, local, ONE, [((),)], [((),)]).proved
    assert not prove(source, called("another"), ONE, [((),)], [((),)]).proved
    other = partir.load(called("another"))
    assert not prove(other, negated, ONE, [((),)], [((),)]).proved


def gathered(mesh: str) -> str:
    """A gather over the axis x, in groups by the axes of a mesh."""
    body = f"""%r = "stablehlo.all_gather"(%x) {{all_gather_dim = 0 : i64,
      replica_groups = #stablehlo.replica_group_mesh_axes<
        mesh = #stablehlo.mesh<axes = [{mesh}]>,
        axes = [#stablehlo.axis_ref<name = "x">]>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      use_global_device_ids}} : (tensor<2xf64>) -> tensor<4xf64>"""
    return main("2xf64", "4xf64", body)


@pytest.mark.needs_jax("0.10", "groups by mesh axes came with it")
@pytest.mark.usefixtures("x64")
def test_groups_are_those_of_the_mesh() -> None:
    x, y = (f'#stablehlo.mesh_axis<name = "{name}", size = 2>' for name in "xy")
    source = partir.load(
        main("4xf64", "4xf64", "%r = stablehlo.negate %x : tensor<4xf64>")
    )
    local = gathered("{}").replace("%r =", "%g =", 1)
    local = local.replace(
        "return %r", "%r = stablehlo.negate %g : tensor<4xf64>\n  return %r"
    )
    mesh = Mesh({"x": 2, "y": 2})
    for axes, proved in ((f"{x}, {y}", True), (f"{y}, {x}", False)):
        text = local.replace("{}", axes)
        made = prove(source, text, mesh, [(("x",),)], [((),)])
        assert bool(made.proved) is proved


def test_zero_has_two_parts_if_it_is_complex() -> None:
    zero, other = "(0.000000e+00,0.000000e+00)", "(0.000000e+00,1.000000e+00)"
    assert is_identity("sum", zero, "complex<f32>")
    assert not is_identity("sum", other, "complex<f32>")
    assert not is_identity("product", zero, "complex<f32>")
    assert not is_identity("sum", "(0.000000e+00,0x7FC00000)", "complex<f32>")
