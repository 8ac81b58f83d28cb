"""The largest of rows that are made of tiles' largest, and what is one change away."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from partir.ir.core import Signature
from partir.ir.types import tensor
from partir.verify.elements.alone import evaluated, new_ops
from partir.verify.elements.rings import ring_of
from tests.verify.elements.test_partitions import Change, is_equal, normal

pytestmark = pytest.mark.usefixtures("x64")
LEAST = -128
FROM_THREE = "start_indices = array<i64: 3>, limit_indices = array<i64: 6>"
FROM_TWO = "start_indices = array<i64: 2>, limit_indices = array<i64: 5>"


def largest(x: Array) -> Any:
    """Of eight rows from the second one on: devices have three, three and two."""
    return lax.top_k(x[1:9], 3)


def largest_of_integers(x: Array) -> Any:
    """The least integer is among them, and stands behind the end as well."""
    return lax.top_k(x[:8], 7)


def looked_up(x: Array) -> Array:
    """By where they are, counted in another type and from elsewhere."""
    where = lax.top_k(x[:8], 4)[1].astype(jnp.int64) + 3
    return jnp.take(jnp.arange(20.0) ** 2, where)


def whole(count: int, dtype: Any = np.float32) -> np.ndarray:
    return (normal(count) * 100).astype(dtype)


CHANGES: dict[str, Change] = {
    "behind the end, what is no number and positive": ("0xFFFFFFFF", "0x7FFFFFFF"),
    "behind the end, an infinity": ("0xFFFFFFFF", "0xFF800000"),
    "behind the end, more than the least": ("dense<-128>", "dense<-127>"),
    "one row too many": ("dense<8> : tensor<i32>", "dense<9> : tensor<i32>"),
    "one row too few": ("dense<8> : tensor<i32>", "dense<7> : tensor<i32>"),
    "of a tile, others": (FROM_THREE, FROM_TWO),
    "counted backwards": ("stablehlo.add", "stablehlo.subtract"),
    "another place": ("dense<3> : tensor<i64>", "dense<2> : tensor<i64>"),
}
PROGRAMS: dict[str, tuple[Callable[..., Any], np.ndarray, Sequence[int]]] = {
    "of a part": (largest, whole(9), (0, 1, 3, 4, 5, 6)),
    "all but one": (largest_of_integers, whole(9, np.int8), (2, 3, 4, 5, 6)),
    "looked up": (looked_up, whole(9), (0, 3, 4, 5, 6, 7)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_short_tiles(name: str) -> None:
    function, x, changes = PROGRAMS[name]
    assert is_equal(function, {"x": x}, None)
    every = [*CHANGES]
    for number in changes:
        assert not is_equal(function, {"x": x}, CHANGES[every[number]]), every[number]


def top_k(ops: Any, row: Sequence[Any], count: int) -> list[list[Any]]:
    types = tensor((count,), "i8"), tensor((count,), "i32")
    attrs = {"k": f"{count} : i64"}
    signature = Signature.of("chlo.top_k", attrs, (tensor((len(row),), "i8"),), types)
    return evaluated(ops, signature, [[*row]])


def order(row: Sequence[int], count: int) -> list[int]:
    """Where the largest are, as it is meant."""
    return sorted(range(len(row)), key=lambda place: (-row[place], place))[:count]


@pytest.mark.parametrize("seed", range(40))
def test_equal_formulas_are_equal_numbers(seed: int) -> None:
    """Rows of tiles' largest, of all lengths: what is taken for the whole's is that."""
    rnd, ops = random.Random(seed), new_ops()
    size, count = rnd.randint(2, 7), rnd.randint(1, 4)
    least = ring_of("i8").number(LEAST)
    point = ops.algebra.point
    unknown = [(point.unknown("argument", n), 0) for n in range(size)]
    cuts = sorted(rnd.sample(range(size + 1), rnd.randint(0, min(3, size))))
    tiles = [range(a, b) for a, b in itertools.pairwise([0, *cuts, size])]
    kept = [rnd.randint(0, len(t) + 1) for t in tiles]
    behind = rnd.randint(0, 2)

    row: list[Any] = []
    for tile, few in zip(tiles, kept, strict=True):
        padded = [*(unknown[n] for n in tile), *[least] * behind]
        row += top_k(ops, padded, min(few, len(padded)))[0]
    count = min(count, len(row), size)
    made, want = top_k(ops, row, count), top_k(ops, unknown, count)
    for _ in range(60):
        numbers = [rnd.choice((LEAST, LEAST + 1, 3)) for _ in range(size)]
        known: list[int] = []
        for tile, few in zip(tiles, kept, strict=True):
            padded = [*(numbers[n] for n in tile), *[LEAST] * behind]
            known += [padded[n] for n in order(padded, min(few, len(padded)))]
        found = [order(known, count), order(numbers, count)]
        for rank in range(count):
            if made[0][rank] == want[0][rank]:
                assert known[found[0][rank]] == numbers[found[1][rank]]
            if made[1][rank] == want[1][rank]:
                assert found[0][rank] == found[1][rank]


def test_enough_of_each_are_the_whole() -> None:
    """And one too few are not, nor are all in another order."""
    ops = new_ops()
    x = [(ops.algebra.point.unknown("argument", n), 0) for n in range(6)]
    want = top_k(ops, x, 2)[0]
    first, second = top_k(ops, x[:3], 2)[0], top_k(ops, x[3:], 3)[0]
    assert top_k(ops, [*first, *second], 2)[0] == want
    assert top_k(ops, [*first, *second[:2]], 2)[0] == want
    assert top_k(ops, [*first, second[0]], 2)[0] != want
    assert top_k(ops, [*second, *first], 2)[0] != want
    assert top_k(ops, [first[1], first[0], *second], 2)[0] != want
    assert top_k(ops, [*first, *second], 3)[0] != top_k(ops, x, 3)[0]
