"""Completion: what propagation leaves is decided in program order, on a copy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir import ManualPartition
from partir.partition.check import check

MESH = {"X": 4}


def shape(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, np.float32)


def tiled(**dims: int) -> ManualPartition:
    return ManualPartition(dims, axis="X", name="tiles")


def attention(q: Array, k: Array, v: Array) -> Array:
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def block(x: Array, wq: Array, wk: Array, wv: Array, wo: Array) -> Array:
    q, k, v = (jnp.einsum("bld,dhk->blhk", x, w) for w in (wq, wk, wv))
    return x + jnp.einsum("blhk,hkd->bld", attention(q, k, v), wo)


def product(x: Array, w: Array) -> Array:
    return x @ w


WEIGHTS = (shape(16, 2, 8),) * 3 + (shape(2, 8, 16),)


def gathers(p: partir.Partitioned) -> dict[str, int]:
    return {kind: count for kind, count in p.collectives.items() if count}


def test_attention_over_a_tiled_sequence_gathers_keys_and_values() -> None:
    args = (shape(2, 32, 2, 8),) * 3
    p = partir.partition(attention, MESH, [tiled(q=1, k=1, v=1)], args=args)
    assert gathers(p) == {"all_gather": 2}
    assert p.out_specs == jax.P(None, "X")
    assert p.work == pytest.approx(1, rel=0.01)


def test_its_gradients_scatter_them() -> None:
    def loss(x: Array, *weights: Array) -> Array:
        return jnp.sin(block(x, *weights)).sum()

    args = (shape(2, 32, 16), *WEIGHTS)
    p = partir.partition(jax.grad(loss), MESH, [tiled(x=1)], args=args, strict=True)
    counts = gathers(p)
    # Keys and values forward and once more backward, and their gradients.
    assert counts == {"all_gather": 4, "reduce_scatter": 2}
    assert p.out_specs == jax.P(None, "X")


def test_many_layers_are_completed_alike() -> None:
    def stack(x: Array, *weights: Array) -> Array:
        for _ in range(3):
            x = block(x, *weights)
        return x

    args = (shape(2, 32, 16), *WEIGHTS)
    p = partir.partition(stack, MESH, [tiled(x=1)], args=args, strict=True)
    assert gathers(p) == {"all_gather": 2 * 3}


def test_only_a_copy_is_completed() -> None:
    """A later tactic decides what an earlier one left."""
    args = shape(8, 8), shape(8, 8)
    columns = partir.Choose({"%product/dot_general/0": 1}, axis="X", name="columns")
    schedule = [tiled(x=0, w=1), columns]
    p = partir.partition(product, MESH, schedule, args=args)
    first, last = p.steps
    assert first.spmd.out_tilings == ((("X",), ()),)
    assert last.spmd.out_tilings == (((), ("X",)),)
    assert not any(first.state.chosen["X"])
    assert any(first.completed.chosen["X"])
    check(first.completed)
    assert last.completed is last.state


def test_results_in_tiles_go_before_sums() -> None:
    """The first operand asks for a sum, the second for columns."""
    args = shape(8, 16), shape(16, 8)
    p = partir.partition(product, MESH, [tiled(x=1, w=1)], args=args)
    assert p.out_specs == jax.P(None, "X")
    assert gathers(p) == {"all_gather": 1}


def test_what_must_stay_whole_does() -> None:
    class Kept:
        name = "kept"

        def apply(self, partition: partir.Partition) -> None:
            partition.tile("x", 1, "X")
            partition.atomic("out", "X")

    def ordered(x: Array) -> Any:
        return partir.tag(jnp.sort(x, axis=1), "out")

    p = partir.partition(ordered, MESH, [Kept()], args=(shape(8, 8),))
    assert gathers(p) == {"all_gather": 1}


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_op_that_needs_its_dimension_takes_a_detour(axis: int) -> None:
    def ordered(x: Array) -> Array:
        return jnp.sort(x, axis=axis)

    p = partir.partition(ordered, MESH, [tiled(x=1)], args=(shape(8, 8, 8),))
    assert gathers(p) == ({"all_to_all": 1} if axis == 1 else {})
    assert p.replicated_ops == ()


def test_a_detour_goes_where_results_are_wanted() -> None:
    """Of three dimensions that would do, the one that the result has anyhow."""

    def ordered(x: Array, y: Array) -> Array:
        return jnp.sort(x, axis=1) + y

    args = (shape(8, 8, 8, 8),) * 2
    for dim in (0, 2, 3):
        p = partir.partition(ordered, MESH, [tiled(x=1, y=dim)], args=args)
        assert gathers(p) == {"all_to_all": 1}
        assert p.out_specs == jax.P(*[None] * dim, "X")
