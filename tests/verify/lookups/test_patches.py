"""Rows of tiles replaced at computed places: right ones are proved, wrong ones not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import partir
from partir.mesh import Mesh
from tests.verify.modules import Case, compare, constant, device, function, is_proved

pytestmark = pytest.mark.quick


def update(name: str, into: int, rows: int, index: str = "i32") -> str:
    types = f"tensor<{into}xf64>, tensor<{rows}xf64>, tensor<{index}>"
    return (
        f"%{name} = stablehlo.dynamic_update_slice %{{}}, %new, %{{}}"
        f" : ({types}) -> tensor<{into}xf64>"
    )


def padded(
    *,
    tile: int = 4,
    inner: tuple[int, int] = (0, 5),
    shift: int = 3,
    outer: tuple[int, int] = (0, 7),
    pads: tuple[int, int] = (3, 3),
    start: int = 3,
    index: str = "c",
) -> Case:
    """Three rows into tiles of four of eight, padded by three at both ends."""
    given = {"x": "8xf64", "new": "3xf64", "i": "i32"}
    source = function(given, "8xf64", update("r", 8, 3).format("x", "i"))
    names = ("low", "high", "first", "last", "shift")
    numbers = (*inner, *outer, shift)
    length = 4 + sum(pads)
    local = function(
        {**given, "x": "4xf64"},
        "4xf64",
        device("off", tile),
        *(constant(n, k, "i32") for n, k in zip(names, numbers, strict=True)),
        constant("z", "0.0", "f64"),
        "%c = stablehlo.clamp %low, %i, %high : tensor<i32>",
        f"%s = stablehlo.subtract %{index}, %off : tensor<i32>",
        "%t = stablehlo.add %s, %shift : tensor<i32>",
        "%q = stablehlo.clamp %first, %t, %last : tensor<i32>",
        f"%p = stablehlo.pad %x, %z, low = [{pads[0]}], high = [{pads[1]}],"
        f" interior = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<{length}xf64>",
        update("u", length, 3).format("p", "q"),
        f"%r = stablehlo.slice %u [{start}:{start + 4}]"
        f" : (tensor<{length}xf64>) -> tensor<4xf64>",
    )
    return Case(source, local, [(("B",),), (), ()], (("B",),))


RIGHT = {
    "as it is": padded(),
    "more padding": padded(pads=(4, 5), shift=4, start=4, outer=(0, 10)),
    "no second clamp": padded(outer=(-9, 90)),
    "a wider second clamp": padded(outer=(-1, 8)),
}

WRONG = {
    "another shift": padded(shift=2),
    "another slice": padded(start=2),
    "another padding": padded(pads=(2, 4)),
    "too little padding": padded(pads=(2, 2), shift=2, start=2, outer=(0, 5)),
    "too little behind": padded(pads=(3, 2), outer=(0, 6)),
    "other tiles": padded(tile=3),
    "the first tile on both": padded(tile=0),
    "not moved into range": padded(index="i"),
    "moved too far down": padded(inner=(0, 4)),
    "moved too far up": padded(inner=(1, 5)),
    "an end that counts": padded(outer=(0, 5)),
    "a start that counts": padded(outer=(1, 7)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_rows_into_padded_tiles(name: str) -> None:
    assert is_proved(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_wrong_places_of_padded_tiles(name: str) -> None:
    assert not is_proved(WRONG[name])


def masked(
    *, way: str = "LT", kept: str = "old", at: str = "q", mask: str = "here"
) -> Case:
    """One row into tiles of four of eight, or what was there."""
    given = {"x": "8xf64", "new": "1xf64", "i": "i32"}
    source = function(given, "8xf64", update("r", 8, 1).format("x", "i"))
    numbers = {"zero": 0, "seven": 7, "three": 3, "four": 4}
    local = function(
        {**given, "x": "4xf64"},
        "4xf64",
        device("off", 4),
        *(constant(name, number, "i32") for name, number in numbers.items()),
        constant("no", "0.0", "1xf64"),
        "%c = stablehlo.clamp %zero, %i, %seven : tensor<i32>",
        "%s = stablehlo.subtract %c, %off : tensor<i32>",
        "%q = stablehlo.clamp %zero, %s, %three : tensor<i32>",
        compare("low", "GE", "s", "zero", "i32"),
        compare("high", way, "s", "four", "i32"),
        "%here = stablehlo.and %low, %high : tensor<i1>",
        f"%old = stablehlo.dynamic_slice %x, %{at}, sizes = [1]"
        " : (tensor<4xf64>, tensor<i32>) -> tensor<1xf64>",
        f"%new0 = stablehlo.select %{mask}, %new, %{kept} : tensor<i1>, tensor<1xf64>",
        update("r", 4, 1).replace("%new", "%new0").format("x", "q"),
    )
    return Case(source, local, [(("B",),), (), ()], (("B",),))


def test_a_row_or_what_was_there() -> None:
    assert is_proved(masked())


@pytest.mark.parametrize(
    "case",
    [
        masked(way="LE"),
        masked(way="GT"),
        masked(kept="no"),
        masked(at="zero"),
        masked(mask="low"),
        masked(mask="high"),
    ],
)
def test_a_row_or_something_else(case: Case) -> None:
    assert not is_proved(case)


def of_two(x: jax.Array, new: jax.Array, i: jax.Array, j: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice(x, new, (i, j)) * 2


def into_zeros(x: jax.Array, new: jax.Array, i: jax.Array, j: jax.Array) -> jax.Array:
    return x + lax.dynamic_update_slice(jnp.zeros_like(x), new, (i, j))


def reversed_first(
    x: jax.Array, new: jax.Array, i: jax.Array, j: jax.Array
) -> jax.Array:
    return lax.dynamic_update_slice(x[::-1], new, (i, jnp.int32(1)))


@pytest.mark.parametrize("fn", [of_two, into_zeros, reversed_first])
@pytest.mark.parametrize("rows", [1, 2])
def test_updates_of_both_dimensions(fn: object, rows: int) -> None:
    """Tiles of two dimensions, short ones among them."""
    number = jax.ShapeDtypeStruct((), "int32")
    shapes = [jax.ShapeDtypeStruct(s, "float32") for s in ((7, 6), (rows, 3))]
    tiles = ((partir.padded(0), "A"), (1, "B"))
    both = [partir.ManualPartition({"x": tile}, axis) for tile, axis in tiles]
    mesh = Mesh({"A": 3, "B": 2})
    p = partir.partition(fn, mesh, both, args=(*shapes, number, number))  # type: ignore[arg-type]
    assert not p.proof().not_proved


def one_row_each(
    *,
    way: str = "EQ",
    off: int = 1,
    index: str = "c",
    column: str = "j",
    last: int = 1,
    kept: str = "old",
) -> Case:
    """Columns of one of two rows, at unknown places; each device has a row."""
    given = {"x": "2x9xf64", "new": "1x4xf64", "i": "i32", "j": "i32"}

    def update(rows: int, new: str, row: str, column: str) -> str:
        types = f"tensor<{rows}x9xf64>, tensor<1x4xf64>, tensor<i32>, tensor<i32>"
        return (
            f"%r = stablehlo.dynamic_update_slice %x, %{new}, %{row}, %{column}"
            f" : ({types}) -> tensor<{rows}x9xf64>"
        )

    source = function(given, "2x9xf64", update(2, "new", "i", "j"))
    local = function(
        {**given, "x": "1x9xf64"},
        "1x9xf64",
        device("off", off),
        constant("zero", 0, "i32"),
        constant("last", last, "i32"),
        constant("no", "0.0", "1x4xf64"),
        "%k = stablehlo.add %j, %last : tensor<i32>",
        "%c = stablehlo.clamp %zero, %i, %last : tensor<i32>",
        f"%s = stablehlo.subtract %{index}, %off : tensor<i32>",
        "%q = stablehlo.clamp %zero, %s, %zero : tensor<i32>",
        compare("here", way, "s", "q", "i32"),
        f"%old = stablehlo.dynamic_slice %x, %q, %{column}, sizes = [1, 4]"
        " : (tensor<1x9xf64>, tensor<i32>, tensor<i32>) -> tensor<1x4xf64>",
        f"%both = stablehlo.select %here, %new, %{kept} : tensor<i1>, tensor<1x4xf64>",
        update(1, "both", "q", column),
    )
    return Case(source, local, [(("B",),), (), (), ()], (("B",),))


def test_tiles_of_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of values that are too large to be written out."""
    monkeypatch.setattr("partir.verify.proof.written_out", lambda *_: frozenset())
    assert is_proved(one_row_each())


@pytest.mark.parametrize(
    "case",
    [
        one_row_each(way="NE"),
        one_row_each(way="GE"),
        one_row_each(way="LE"),
        one_row_each(off=0),
        one_row_each(off=2),
        one_row_each(index="i"),
        one_row_each(column="k"),
        one_row_each(last=0),
        one_row_each(kept="new"),
        one_row_each(kept="no"),
    ],
)
def test_other_tiles_of_one_row(case: Case) -> None:
    assert not is_proved(case)


def beside_others(row: int = 0, column: int = 1) -> Case:
    """A row of zeros, two of which are replaced; below it are other numbers."""
    given = {"n": "1x2xf64"}
    pad = "%{} = stablehlo.pad %n, %{}, low = {}, high = {}, interior = [0, 0]"
    types = " : (tensor<1x2xf64>, tensor<f64>) -> tensor<{}xf64>"
    source = function(
        given,
        "1x5xf64",
        constant("z", "0.0", "f64"),
        (pad + types).format("r", "z", [0, 1], [0, 2], "1x5"),
    )
    local = function(
        given,
        "1x5xf64",
        constant("other", "1.5", "f64"),
        constant("zeros", "0.0", "2x5xf64"),
        constant("first", 0, "i32"),
        constant("at", column, "i32"),
        (pad + types).format("p", "other", [0, 0], [1, 0], "2x2"),
        "%u = stablehlo.dynamic_update_slice %zeros, %p, %first, %at :"
        " (tensor<2x5xf64>, tensor<2x2xf64>, tensor<i32>, tensor<i32>)"
        " -> tensor<2x5xf64>",
        f"%r = stablehlo.slice %u [{row}:{row + 1}, 0:5]"
        " : (tensor<2x5xf64>) -> tensor<1x5xf64>",
    )
    return Case(source, local, [()])


def test_numbers_of_two_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a row of both has is not known; the others are."""
    monkeypatch.setattr("partir.verify.proof.written_out", lambda *_: frozenset())
    assert is_proved(beside_others())
    assert not is_proved(beside_others(row=1))
    assert not is_proved(beside_others(column=2))
