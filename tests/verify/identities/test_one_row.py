"""Sums over devices of which one has a row; all others have what counts nothing."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import partir

SCORES = jax.ShapeDtypeStruct((16, 256), "float32")
Wide = Callable[[Array], Array]


def first(scores: Array) -> Array:
    return jnp.pad(jnp.sin(scores[:, :1]), ((0, 0), (0, 255)))


def second(scores: Array) -> Array:
    return jnp.pad(jnp.sin(scores[:, :1]), ((0, 0), (1, 254)))


def first_beside_ones(scores: Array) -> Array:
    return jnp.pad(jnp.sin(scores[:, :1]), ((0, 0), (0, 255)), constant_values=1.0)


def tiled(wide: Wide, times: float = 1.0) -> partir.Partitioned:
    def both(scores: Array) -> tuple[Array, Array]:
        return times * jnp.sum(-wide(scores), 1), wide(scores) * scores

    columns = partir.ManualPartition({"scores": 1}, axis="B")
    return partir.partition(both, {"B": 8}, [columns], args=(SCORES,))


@pytest.mark.parametrize("wide", [first, second])
def test_the_only_row_is_what_devices_add_up(wide: Wide) -> None:
    p = tiled(wide)
    assert p.collectives["all_reduce"] > 1
    found = p.verify()
    assert found.proved
    assert not found.written_out


def test_other_sums_are_not() -> None:
    p = tiled(first)
    for wrong in (tiled(first_beside_ones), tiled(first, 2.0)):
        assert "out/0" in [one.result for one in p.proof(wrong.stablehlo()).not_proved]


def test_pairs_of_a_query_beside_a_queue_are_proved() -> None:
    def loss(query: Array, queue: Array) -> Array:
        alike = jnp.sum(query * query, -1, keepdims=True)
        scores = jnp.concatenate([alike, query @ queue.T], 1)
        return -jnp.mean(jax.nn.log_softmax(scores)[:, 0])

    args = [jax.ShapeDtypeStruct((rows, 32), "float32") for rows in (16, 256)]
    rows = partir.ManualPartition({"queue": 0}, axis="B")
    p = partir.partition(jax.grad(loss, (0, 1)), {"B": 8}, [rows], args=args)
    assert not p.verify().not_proved
