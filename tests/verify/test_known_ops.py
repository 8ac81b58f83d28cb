"""Ops that other frontends write: each has an equation, and other ops have others."""

from __future__ import annotations

import re

import pytest

import partir
from partir.mesh import Mesh
from partir.rules.elementwise import _BROADCASTING, POINTWISE
from partir.verify import prove
from partir.verify.equations.registry import known_kinds
from tests.verify.modules import Case, all_reduce, function, is_proved

pytestmark = pytest.mark.quick


def test_all_ops_that_compute_each_element_are_known() -> None:
    wanted = POINTWISE | {f"chlo.broadcast_{name}" for name in _BROADCASTING}
    assert wanted - known_kinds() == set()


def broadcast_add(rows: int, tiled: bool = True, dims: str = "[1]") -> Case:
    """Of a square and a vector, rows of the square on each device."""
    line = (
        "%r = chlo.broadcast_add %x, %y {{broadcast_dimensions = array<i64: {}>}} : "
        "(tensor<{}x4xf32>, tensor<{}xf32>) -> tensor<{}x4xf32>"
    )
    source = function(
        {"x": "4x4xf32", "y": "4xf32"}, "4x4xf32", line.format(1, 4, 4, 4)
    )
    dim = dims.strip("[]")
    local = function(
        {"x": "2x4xf32", "y": f"{rows}xf32"}, "2x4xf32", line.format(dim, 2, rows, 2)
    )
    given = [(("B",),), (("B",),) if tiled else ()]
    return Case(source, local, given, (("B",),))


def test_what_is_broadcast_along_named_dimensions() -> None:
    assert is_proved(broadcast_add(4, tiled=False))
    assert not is_proved(broadcast_add(2, dims="[0]"))


def test_what_has_one_row_is_repeated() -> None:
    line = (
        "%r = chlo.broadcast_subtract %x, %y : "
        "(tensor<{}x4xf32>, tensor<{}x4xf32>) -> tensor<{}x4xf32>"
    )
    source = function({"x": "4x4xf32", "y": "1x4xf32"}, "4x4xf32", line.format(4, 1, 4))
    local = function({"x": "2x4xf32", "y": "1x4xf32"}, "2x4xf32", line.format(2, 1, 2))
    swapped = local.replace("%x, %y :", "%y, %x :").replace(
        "(tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>\n  r",
        "(tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>\n  r",
    )
    tiling = (("B",),)
    assert is_proved(Case(source, local, [tiling, ()], tiling))
    assert not is_proved(Case(source, swapped, [tiling, ()], tiling))


def einsum(config: str, part: str = "add") -> Case:
    """A sum over what two devices have halves of."""
    line = (
        '%{} = "stablehlo.einsum"(%x, %y) {{einsum_config = "{}"}} : '
        "(tensor<3x{}xf32>, tensor<{}x3xf32>) -> tensor<3x3xf32>"
    )
    source = function(
        {"x": "3x2xf32", "y": "2x3xf32"},
        "3x3xf32",
        line.format("r", "ij,jk->ki", 2, 2),
    )
    local = function(
        {"x": "3x1xf32", "y": "1x3xf32"},
        "3x3xf32",
        line.format("h", config, 1, 1),
        all_reduce("r", "h", part, "3x3xf32"),
    )
    return Case(source, local, [((), ("B",)), (("B",),)])


def test_einsums() -> None:
    assert is_proved(einsum("ij,jk->ki"))
    assert not is_proved(einsum("ij,jk->ik"))
    assert not is_proved(einsum("ij,jk->ki", "maximum"))


def solved(left: bool, along: int) -> bool:
    """Whether a solver is proved with what it is solved for in tiles."""
    source = """func.func public @main(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>)
        -> tensor<4x4xf32> {
      %r = "stablehlo.triangular_solve"(%a, %b) {left_side = SIDE, lower = true,
        transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false} :
        (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      return %r : tensor<4x4xf32>
    }""".replace("SIDE", str(left).lower())
    part = "2x4xf32" if along == 0 else "4x2xf32"
    local = re.sub(
        r"(%b: tensor<|, tensor<|-> tensor<|return %r : tensor<)4x4xf32",
        rf"\g<1>{part}",
        source,
    )
    program = partir.load(source)
    tiling: tuple[tuple[str, ...], ...] = (("B",), ()) if along == 0 else ((), ("B",))
    whole: tuple[tuple[str, ...], ...] = ((), ())
    try:
        proof = prove(program, local, Mesh({"B": 2}), [whole, tiling], [tiling])
    except partir.PartirError:  # no such op
        return False
    return bool(proof.proved)


def test_each_column_is_solved_for_by_itself() -> None:
    assert solved(left=True, along=1)
    assert solved(left=False, along=0)
    assert not solved(left=True, along=0)
    assert not solved(left=False, along=1)


def counted(shown: int, dtype: str, times: int) -> Case:
    """Rows that are counted in a type that has not so many numbers."""
    source = function(
        {"x": f"512x{dtype}"},
        f"512x{dtype}",
        f"%i = stablehlo.iota dim = 0 : tensor<512x{dtype}>",
        f"%r = stablehlo.add %x, %i : tensor<512x{dtype}>",
    )
    local = function(
        {"x": f"256x{dtype}"},
        f"256x{dtype}",
        f"%j = stablehlo.iota dim = 0 : tensor<{shown}xi32>",
        f"%h = stablehlo.constant dense<{times}> : tensor<{shown}xi32>",
        f"%k = stablehlo.multiply %j, %h : tensor<{shown}xi32>",
        f"%i = stablehlo.convert %k : (tensor<{shown}xi32>) -> tensor<{shown}x{dtype}>",
        f"%r = stablehlo.add %x, %i : tensor<256x{dtype}>",
    )
    return Case(source, local, [(("B",),)], (("B",),))


def test_counts_that_wrap_round() -> None:
    """256 rows further on, the numbers of eight bits are the same."""
    assert is_proved(counted(256, "ui8", 1))
    assert is_proved(counted(256, "i8", 257))
    assert not is_proved(counted(256, "ui8", 2))
    assert not is_proved(counted(256, "i16", 1))
