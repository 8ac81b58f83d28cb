"""What digits can't count: windows, shifts, short tiles, look-ups; and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import partir
from partir.verify.classes.classes import Classes
from partir.verify.classes.mentions import split_dims
from partir.verify.classes.rows import (
    BAG,
    DROPPED,
    FIRST_MADE,
    GARBAGE,
    MadeRows,
    RowTable,
    as_digits,
    fill,
)
from partir.verify.classes.terms import FREE, ClassTerm, Use
from partir.verify.identities.reduction import in_digits
from partir.verify.layouts.picks import pick
from partir.verify.layouts.pins import at

pytestmark = pytest.mark.quick

MESH = {"B": 4}


def shape(*sizes: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def convolved(x: jax.Array, w: jax.Array) -> jax.Array:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


def pooled(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 2), "SAME")


def summed(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID").sum(0)


def joined(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.concatenate([y, x * 2, y - 1], 1)


def doubled_and_back(x: jax.Array, w: jax.Array) -> jax.Array:
    """The gradient sums rows that a convolution has made."""

    def loss(x: jax.Array) -> jax.Array:
        large = jnp.repeat(jnp.repeat(jnp.sin(x), 2, 1), 2, 2)
        return jnp.sum(jnp.cos(convolved(large, w)))

    return jax.grad(loss)(x).sum((1, 2))


def framed(x: jax.Array, w: jax.Array) -> jax.Array:
    """The gradient of a window sums every fourth of the rows that frames have."""

    def loss(w: jax.Array) -> jax.Array:
        frames = jnp.stack([x[:, n : 29 + n : 2] for n in range(4)], -1)
        return jnp.sum(jnp.sin(frames * w))

    found: jax.Array = jax.grad(loss)(w)
    return found


def sloped(x: jax.Array) -> jax.Array:
    """One row less another, on one device: the source reads each of them by itself."""
    found: jax.Array = jax.grad(lambda x: jnp.sum(jnp.sin(jnp.gradient(x, axis=1))))(x)
    return found


def two_sums(x: jax.Array) -> jax.Array:
    """Summed together, over devices."""
    return jnp.stack([jnp.sum(x * x, 0), jnp.sum(jnp.sin(x), 0)])


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, int]]] = {
    "shift": (lambda x: x[:, 1:] - x[:, :-1], (shape(2, 16),), {"x": 1}),
    "roll": (lambda x: jnp.roll(x, 3, 1) * x, (shape(2, 16),), {"x": 1}),
    "reverse": (lambda x: x[:, ::-1] + x, (shape(2, 16),), {"x": 1}),
    "padding": (
        lambda x: jnp.pad(x, ((0, 0), (2, 2)), constant_values=3.0),
        (shape(2, 16),),
        {"x": 1},
    ),
    "joined": (joined, (shape(2, 16), shape(2, 4)), {"x": 1}),
    "joined, each on devices of its own": (
        lambda x, y: jnp.concatenate([jnp.sin(x), y], 1),
        (shape(32, 8), shape(32, 8)),
        {"x": 1, "y": 1},
    ),
    "convolution": (convolved, (shape(1, 16, 4, 2), shape(3, 3, 2, 2)), {"x": 1}),
    "doubled and back": (
        doubled_and_back,
        (shape(4, 1, 1, 2), shape(3, 3, 2, 2)),
        {"x": 0},
    ),
    "frames": (framed, (shape(2, 32), shape(4)), {"x": 1}),
    "differences": (sloped, (shape(2, 16),), {"x": 1}),
    "two sums": (two_sums, (shape(16, 4),), {"x": 0}),
    "pooling": (pooled, (shape(2, 16),), {"x": 1}),
    "sums of windows": (summed, (shape(8, 16),), {"x": 1}),
    "short tiles": (lambda x: jnp.sum(jnp.sin(x[:13]), 0), (shape(16, 2),), {"x": 0}),
    "look-up": (
        lambda t, i: t[i] * 2,
        (shape(16, 4), shape(6, dtype="int32")),
        {"t": 0},
    ),
    "known places": (
        lambda t, u: t.at[jnp.arange(6) * 5 % 16].add(u) * t,
        (shape(16, 4), shape(6, 4)),
        {"t": 0},
    ),
    "scatter": (
        lambda t, i, u: jnp.zeros_like(t).at[i].add(u) + t,
        (shape(16, 4), shape(6, dtype="int32"), shape(6, 4)),
        {"t": 0},
    ),
}


LOCAL = ("scatter", "known places", "doubled and back")  # without collectives


def partitioned(name: str) -> Any:
    fn, args, tiles = CASES[name]
    tactic = partir.ManualPartition(tiles, "B")
    return partir.partition(fn, MESH, [tactic], args=args)


@pytest.mark.parametrize("name", CASES)
def test_rows_are_proved(name: str) -> None:
    p = partitioned(name)
    assert sum(p.collectives.values()) or name in LOCAL  # it is not all gathered
    assert not p.verify().not_proved


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("shift", "stablehlo.collective_permute", None),
        ("look-up", "direction EQ>", "direction NE>"),
        ("look-up", "dense<15> : tensor<i32>", "dense<14> : tensor<i32>"),
        ("look-up", "dense<3> : tensor<i32>", "dense<2> : tensor<i32>"),
        ("scatter", "dense<4> : tensor<i32>", "dense<5> : tensor<i32>"),
        ("known places", "dense<4> : tensor<i32>", "dense<5> : tensor<i32>"),
        ("short tiles", "direction LT>", "direction LE>"),
        ("sums of windows", "stablehlo.add", "stablehlo.maximum"),
        ("joined, each on devices of its own", "direction LT>", "direction GE>"),
        ("two sums", "stablehlo.sine", "stablehlo.cosine"),
        ("frames", "direction LT>", "direction LE>"),
        ("frames", "stablehlo.cosine", "stablehlo.sine"),
        ("differences", "stablehlo.subtract", "stablehlo.add"),
        ("differences", "direction EQ>", "direction NE>"),
        ("padding", "dense<3.000000e+00>", "dense<2.000000e+00>"),
    ],
)
def test_mistakes_in_rows_are_found(name: str, old: str, new: str | None) -> None:
    p = partitioned(name)
    text = p.stablehlo()
    if new is None:  # every device gets its own rows
        at = text.index("source_target_pairs = ")
        end = text.index(":", at)
        pairs = "source_target_pairs = dense<[[0, 0], [1, 1], [2, 2]]> "
        wrong = text[:at] + pairs + text[end:]
    else:
        assert old in text
        wrong = new.join(text.rsplit(old, 1))
    assert p.proof(wrong).not_proved


def test_tuples_and_bags_have_one_number_each() -> None:
    made = MadeRows()
    columns = np.array([[1, 1], [1, 2], [2, GARBAGE], [1, 2], [2, 1]])
    rows = made.tuples(columns)
    assert rows[0] == 1
    assert rows[2] == GARBAGE
    assert rows[1] == rows[3] >= FIRST_MADE
    assert rows[4] not in (rows[1], GARBAGE)
    assert made.columns(rows[[0, 1]], 2).tolist() == [[1, 1], [1, 2]]
    bags = made.bags(np.array([[2, 0], [0, 2], [1, DROPPED], [1, GARBAGE]]))
    assert bags[0] == bags[1] != bags[2]
    assert bags[3] == GARBAGE
    whole = made.union(np.array([[bags[0], bags[2]]]))
    assert made.complete(whole, 3)
    assert not made.complete(bags[:1], 3)


def test_digits_are_found_where_rows_are_some() -> None:
    rows = np.arange(12).reshape(3, 4)
    assert as_digits(rows, (3, 4), 12) == [4, 1]
    assert as_digits(rows.T.copy(), (4, 3), 12) == [1, 4]
    assert as_digits(rows[:, ::-1].copy(), (3, 4), 12) is None
    assert as_digits(rows, (3, 4), BAG) is None


def test_tables_are_compared_by_content() -> None:
    rows = np.array([0, 1, GARBAGE, fill(7)])
    assert RowTable(rows, 4) == RowTable(rows.copy(), 4)
    assert RowTable(rows, 4) != RowTable(rows, 5)
    assert len({RowTable(rows, 4), RowTable(rows.copy(), 4)}) == 1


def lowest(x: jax.Array, i: jax.Array, u: jax.Array) -> jax.Array:
    return x.at[i].min(u)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_minimum_is_scattered_from_tiles(dtype: str) -> None:
    """What was there counts on the first device alone, what is scattered on its own."""
    args = (shape(7, dtype=dtype), shape(8, dtype="int32"), shape(8, dtype=dtype))
    tactic = partir.ManualPartition({"u": 0}, "B")
    p = partir.partition(lowest, MESH, [tactic], args=args)
    text = p.stablehlo()
    assert p.collectives["all_reduce"] == 1
    assert not p.proof().not_proved
    everywhere = text.replace("direction EQ>", "direction GE>")  # a minimum: right, too
    assert not p.proof(everywhere).not_proved
    nowhere = text.replace("direction EQ>", "direction LT>")
    assert p.proof(nowhere).not_proved
    largest = text.replace('"stablehlo.minimum"', '"stablehlo.maximum"', 1)
    assert p.proof(largest).not_proved


def test_rows_of_an_operand_are_told_apart_only_if_they_can_be() -> None:
    places, devices = np.meshgrid(np.arange(3), np.arange(2), indexing="ij")
    columns = np.stack([devices, places], -1)
    split = split_dims((("v",), ("v",)), {"v": columns}, (2, 3))
    assert split is not None
    assert len(split.bound) == len(split.kept) == 1
    more = split_dims((("v",), ("v",)), {"v": columns}, (4, 3))
    assert more is None  # there are rows that no device has
    diagonal = np.stack([devices, (places + devices) % 3], -1)
    assert split_dims((("v",), ("v",)), {"v": diagonal}, (2, 3)) is None
    twice = np.stack([devices, devices], -1)  # one sum, not two
    assert split_dims((("v",), ("v",)), {"v": twice}, (2, 3)) is None
    some = np.stack([devices + 1, places], -1)
    assert split_dims((("v",), ("v",)), {"v": some}, (2, 3)) is None


def test_rows_of_one_dimension_are_picked_before_or_after_one_of_another() -> None:
    classes = Classes()
    x = classes.of(ClassTerm("argument", 0, (), (), (), new=(BAG, 4), dtype="f32"))
    number = classes.rows.pick(np.array([FIRST_MADE + 1, FIRST_MADE + 2]))
    assert number is not None
    later, places = at(classes, pick(classes, x, 0, number), {1: 3})
    first, _ = at(classes, x, {1: 3})
    assert later == pick(classes, first, 0, number)
    assert places == {0: 0}
    other, _ = at(classes, x, {1: 2})
    assert later != pick(classes, other, 0, number)


def test_bags_are_digits_if_they_have_all_rows_of_one() -> None:
    classes = Classes()
    x = classes.of(ClassTerm("argument", 0, (), (), (), new=(12,), dtype="f32"))
    use = Use({"v": BAG}, {"v": FREE})

    def found(bags: list[list[int]]) -> Any:
        rows = classes.rows.bags(np.array(bags))
        return in_digits(classes, ([(x, (("v",),))], use, {"v": rows}))

    minor = found([[1, 4, 7, 10], [0, 3, 6, 9], [1, 4, 7, 10]])
    assert minor is not None
    assert minor[0] == [(x, ((("bound", "v"), "v"),))]
    assert minor[1].sizes == {"v": 3, ("bound", "v"): 4}
    assert minor[2]["v"].tolist() == [1, 0, 1]
    major = found([[8, 9, 10, 11], [0, 1, 2, 3]])
    assert major is not None
    assert major[0] == [(x, (("v", ("bound", "v")),))]
    assert major[2]["v"].tolist() == [2, 0]
    for wrong in (
        [[1, 2, 3, 4]],  # from the middle of one to that of the next
        [[0, 3, 6, 10]],
        [[0, 3, 6, DROPPED]],
        [[0, 0, 3, 3]],
        [[0, 4, 8, 12]],  # one that is not there
        [[0, 3, 6, GARBAGE]],
    ):
        assert found(wrong) is None
