"""Look-ups in tiles of any length, at any or at known places; wrong ones beside."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.mesh import Mesh
from tests.verify.modules import (
    Case,
    all_reduce,
    compare,
    constant,
    device,
    function,
    is_proved,
    unary,
)

pytestmark = pytest.mark.quick

INDEX = "3x1xi32"
KNOWN = "[[2], [9], [-1]]"


def gather(name: str, rows: int, index: str) -> str:
    return f"""%{name} = "stablehlo.gather"(%x, %{index}) {{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1>, indices_are_sorted = false}}
    : (tensor<{rows}xf64>, tensor<{INDEX}>) -> tensor<3xf64>"""


def looked_up(
    rows: int,
    known: bool,
    *,
    off: int | None = None,
    last: int | None = None,
    mask: str = "EQ",
    zero: str = "0.0",
    index: str = KNOWN,
    op: str = "add",
) -> Case:
    """``x[i]`` where i is in a tile of x, of which the last may be short, summed."""
    tile = -(-rows // 2)
    given = {"x": f"{rows}xf64", "i": INDEX}
    which = "k" if known else "i"
    source = function(
        given, "3xf64", constant("k", KNOWN, INDEX), gather("r", rows, which)
    )
    local = function(
        {**given, "x": f"{tile}xf64"},
        "3xf64",
        constant("k", index, INDEX),
        device("off", tile if off is None else off),
        unary("offs", "broadcast_in_dim|, dims = []", "off", "i32", INDEX),
        constant("zero", 0, INDEX),
        constant("last", rows - 1 if last is None else last, INDEX),
        constant("end", tile - 1, INDEX),
        f"%c = stablehlo.clamp %zero, %{which}, %last : tensor<{INDEX}>",
        f"%l = stablehlo.subtract %c, %offs : tensor<{INDEX}>",
        f"%j = stablehlo.clamp %zero, %l, %end : tensor<{INDEX}>",
        compare("is", mask, "l", "j", INDEX),
        unary("m", "reshape", "is", "3x1xi1", "3xi1"),
        gather("g", tile, "j"),
        constant("nothing", zero, "3xf64"),
        "%s = stablehlo.select %m, %g, %nothing : tensor<3xi1>, tensor<3xf64>",
        all_reduce("r", "s", op, "3xf64"),
    )
    return Case(source, local, [(("B",),), ()])


ROWS = {"even": 8, "short": 7, "of one row": 2}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_each_index_is_looked_up_where_its_row_is(rows: int, known: bool) -> None:
    assert is_proved(looked_up(rows, known))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_wrong_look_ups(rows: int, known: bool) -> None:
    tile = -(-rows // 2)
    wrong = {
        "tiles": looked_up(rows, known, off=tile + 1),
        "the first tile twice": looked_up(rows, known, off=0),
        "a mask the other way": looked_up(rows, known, mask="NE"),
        "all of both": looked_up(rows, known, mask="GE"),
        "a number beside": looked_up(rows, known, zero="1.0"),
        "the largest of both": looked_up(rows, known, op="maximum"),
        "another end": looked_up(rows, known, last=rows - 2),
        "an end behind the end": looked_up(rows, known, last=2 * tile),
    }
    assert [name for name, case in wrong.items() if is_proved(case)] == []


@pytest.mark.parametrize("index", ["[[2], [9], [1]]", "[[2], [0], [9]]"])
def test_other_places(index: str) -> None:
    assert not is_proved(looked_up(8, True, index=index))


def test_what_is_behind_the_end_is_not_looked_up() -> None:
    """Index 7 is in the second tile of seven rows, where nothing is."""
    assert not is_proved(looked_up(7, False, last=7))
    assert not is_proved(looked_up(7, True, last=7))


def ordered(x: jax.Array, i: jax.Array) -> jax.Array:
    """Columns of known rows, in dimensions of their own."""
    return x[:, jnp.array([[3, 0], [5, 5], [1, 4]])] * 2


def turned(x: jax.Array, i: jax.Array) -> jax.Array:
    """Rows from the last to the first."""
    return jnp.take(x[:, ::-1], i, axis=1, mode="clip")


def one_of_all(x: jax.Array, i: jax.Array) -> jax.Array:
    return jax.lax.dynamic_slice_in_dim(x, i[0], 1, 1)


@pytest.mark.parametrize("fn", [ordered, turned, one_of_all])
@pytest.mark.parametrize(("columns", "size"), [(6, 2), (7, 2), (6, 6)])
def test_look_ups_in_columns(
    fn: Callable[..., jax.Array], columns: int, size: int
) -> None:
    """Even tiles, short ones, and tiles of one column."""
    shapes = (
        jax.ShapeDtypeStruct((4, columns), "float32"),
        jax.ShapeDtypeStruct((5,), "int32"),
    )
    tactic = partir.ManualPartition({"x": partir.padded(1)}, "B")
    p = partir.partition(fn, Mesh({"B": size}), [tactic], args=shapes)
    assert not p.proof().not_proved


def in_a_row(
    tile: str = "2x6xf64",
    tiling: tuple[tuple[str, ...], ...] = (("B",),),
    off: int = 12,
    mask: str = "EQ",
    turned: bool = False,
) -> Case:
    """``x.reshape(-1)[i]``: the tile of a dimension that counts two of the value."""
    inner = looked_up(24, known=False, off=off, mask=mask)
    flat = "%x = stablehlo.reshape %w : (tensor<{}>) -> tensor<{}xf64>"
    source = inner.source.replace("%x: tensor<24xf64>", "%w: tensor<4x6xf64>")
    local = inner.local.replace("%x: tensor<12xf64>", f"%w: tensor<{tile}>")
    lines = flat.format(tile, 12)
    if turned:
        lines = (
            f"%t = stablehlo.transpose %w, dims = [1, 0] : (tensor<{tile}>)"
            " -> tensor<6x2xf64>\n  " + flat.replace("%w", "%t").format("6x2xf64", 12)
        )

    def begun(text: str, first: str) -> str:
        head, brace, rest = text.partition("{\n")
        return f"{head}{brace}  {first}\n{rest}"

    source, local = begun(source, flat.format("4x6xf64", 24)), begun(local, lines)
    return Case(source, local, [tiling, ()])


@pytest.mark.parametrize("alone", [False, True])
def test_rows_of_several_dimensions(
    alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of values that are too large to be written out."""
    if alone:
        monkeypatch.setattr("partir.verify.proof.written_out", lambda *_: frozenset())
    assert is_proved(in_a_row())
    wrong = {
        "tiles": in_a_row(off=6),
        "the first tile twice": in_a_row(off=0),
        "a mask the other way": in_a_row(mask="NE"),
        "tiles of the inner dimension": in_a_row("4x3xf64", ((), ("B",))),
        "in another order": in_a_row(turned=True),
    }
    assert [name for name, case in wrong.items() if is_proved(case)] == []
