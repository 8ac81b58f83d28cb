"""Look-ups where table and indices are tiled: each device its tile, or its indices."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import Array

import partir

pytestmark = pytest.mark.usefixtures("x64")

TABLE_FIRST = [
    partir.ManualPartition({"table": 0}, axis="X", name="table"),
    partir.ManualPartition({"at": 0}, axis="X", name="indices"),
]


def looked_up(table: Array, at: Array) -> Array:
    return table.at[at].get(mode="fill", fill_value=7) * 2


def added(table: Array, at: Array) -> Array:
    return jax.grad(lambda t: ((t[at] - 1) ** 3).sum())(table)


def largest(table: Array, at: Array) -> Array:
    return table.at[at].max(table[at] + 1)


def sample(rows: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    table = rng.integers(-9, 9, (rows, 3)).astype(float)
    return table, rng.integers(-rows - 2, rows + 2, count)  # some lie outside


def in_a_loop(table: Array, at: Array) -> Array:
    """A table that a loop carries, and indices of its steps."""

    def step(state: Array, now: Array) -> tuple[Array, None]:
        return state.at[now].add(state[now]), None

    return jax.lax.scan(step, table, at.reshape(2, -1).swapaxes(0, 1))[0]


@pytest.mark.parametrize(("size", "rows", "count"), [(3, 6, 48), (5, 20, 10)])
def test_numbers(size: int, rows: int, count: int) -> None:
    """More indices than rows, or fewer: one way or the other."""

    def all_of_them(table: Array, at: Array) -> list[Array]:
        return [f(table, at) for f in (looked_up, added, largest, in_a_loop)]

    args = sample(rows, count)
    done = partir.partition(all_of_them, {"X": size}, TABLE_FIRST, args=args)
    for found, wanted in zip(
        done.compile()(*args), jax.jit(all_of_them)(*args), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def bytes_sent(rows: int, count: int) -> dict[str, int]:
    args = sample(rows, count)
    done = partir.partition(looked_up, {"X": 4}, TABLE_FIRST, args=args)
    return {kind: n for kind, n in done.collectives.items() if n}


@pytest.mark.identity("tiled")
def test_a_small_table_is_gathered_for_many_indices() -> None:
    assert bytes_sent(8, 64) == {"all_gather": 1}


@pytest.mark.identity("tiled")
def test_few_indices_are_looked_up_by_all() -> None:
    assert bytes_sent(64, 4) == {"all_gather": 1, "reduce_scatter": 1}


def test_updates_are_added_where_they_lie() -> None:
    args = sample(8, 64)
    done = partir.partition(added, {"X": 4}, TABLE_FIRST, args=args)
    counts = {kind: n for kind, n in done.collectives.items() if n}
    assert counts == {"all_gather": 1, "all_reduce": 1}  # of rows, not of updates
    assert done.work < 1.5
