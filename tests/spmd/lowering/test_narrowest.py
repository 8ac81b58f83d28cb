"""Moves at the narrowest point: operands or results, whichever is less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from partir.spmd.program import Collective, Compute, SpmdProgram
from partir.spmd.rewrites.table import rewrite
from tests.spmd.lowered import M2, WHOLE, Lowered, assert_same, floats, lowered

pytestmark = pytest.mark.usefixtures("x64")

COLUMNS = ((), ("M",))
V = floats(5, 8)


def moved(case: Lowered) -> list[str]:
    """Collectives and the shapes that they give, after all rewrites; values checked."""
    spmd = rewrite(case.spmd)
    assert_same(spmd, case.args, case.expected)
    return shown(spmd)


def shown(spmd: SpmdProgram) -> list[str]:
    return [
        f"{op.kind} {'x'.join(map(str, spmd.types[op.result].shape))}"
        for op in spmd.body.ops
        if isinstance(op, Collective)
    ]


@pytest.mark.identity("again")
def test_what_is_repeated_is_gathered_before() -> None:
    def repeat(x: Array) -> Array:
        return jnp.broadcast_to(x, (6, 8))

    case = lowered(repeat, V, axes=M2, tactics=[("M", {"x": 0})], to=[WHOLE])
    assert moved(case) == ["all_gather 8"]


@pytest.mark.identity("again")
def test_a_chain_is_made_again_from_its_narrowest_value() -> None:
    def chain(x: Array) -> Array:
        wide = -x.astype(jnp.float64)
        return jnp.broadcast_to(wide[:, None], (8, 6)).T

    narrow = V.astype(np.float32)
    case = lowered(chain, narrow, axes=M2, tactics=[("M", {"x": 0})], to=[WHOLE])
    assert moved(case) == ["all_gather 8"]
    gather = next(op for op in rewrite(case.spmd).body.ops if type(op) is Collective)
    assert case.spmd.types[gather.operand].dtype == "f32"


@pytest.mark.identity("again")
def test_another_tiling_of_what_is_repeated_is_made_of_what_is_narrow() -> None:
    def repeat(x: Array) -> Array:
        return jnp.broadcast_to(x[:, None], (8, 6))

    case = lowered(repeat, V, axes=M2, tactics=[("M", {"x": 0})], to=[COLUMNS])
    assert moved(case) == ["all_gather 8"] or moved(case) == ["all_gather 8x1"]


@pytest.mark.identity("again")
def test_numbers_that_count_are_made_where_they_are_read() -> None:
    def places(x: Array) -> Array:
        return lax.iota(jnp.int32, 8) + x.astype(jnp.int32)

    case = lowered(places, V, axes=M2, tactics=[("M", {"x": 0})], to=[((),)])
    assert moved(case) == ["all_gather 8"]


def test_nothing_costly_is_made_again() -> None:
    def costly(x: Array) -> Array:
        return jnp.broadcast_to(jnp.tanh(x), (6, 8))

    case = lowered(costly, V, axes=M2, tactics=[("M", {"x": 0})], to=[WHOLE])
    assert moved(case) == ["all_gather 8"]
    (gather,) = (op for op in case.spmd.body.ops if type(op) is Collective)
    (maker,) = (op for op in case.spmd.body.ops if gather.operand in op.results)
    assert isinstance(maker, Compute)
    assert maker.nest.signature.name == "tanh"


PATTERNS: dict[str, tuple[Callable[..., Any], tuple[int, ...], int]] = {
    "pairwise sums": (lambda x, y: x[:, None] + y[None], (64,), 500),
    "distances": (lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1), (16, 4), 500),
    "scores": (lambda x, y: jax.nn.log_softmax(x @ y.T, 0), (16, 4), 2000),
}


@pytest.mark.identity("again")
@pytest.mark.parametrize("name", PATTERNS)
def test_pairs_of_rows_move_rows_and_not_pairs(name: str) -> None:
    """Forward and gradients, rows of both tiled; bytes stay far below the pairs'."""
    function, shape, most = PATTERNS[name]

    def both(x: Array, y: Array) -> Any:
        def loss(x: Array, y: Array) -> Array:
            return jnp.sum(jnp.sin(function(x, y)))

        return jax.value_and_grad(loss, (0, 1))(x, y)

    args = floats(1, *shape), floats(2, *shape)
    rows = partir.ManualPartition({"x": 0, "y": 0}, axis="X")
    grads = partir.ManualPartition({}, axis="X", outputs={"out/1/*": 0})
    record = partir.partition(both, {"X": 4}, [rows, grads], args=args)
    got, want = record.compile()(*args), jax.jit(both)(*args)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), got, want)
    assert record.bytes_communicated < most * 8


DEEP = 600  # ops, more than Python would go down one by one


def _deep(x: Array) -> Array:
    for _ in range(DEEP // 2):
        x = -jnp.abs(x)
    return x


def test_chains_of_many_ops() -> None:
    """Looked through without recursion, where values move and where sums wait."""

    def gathered(x: Array) -> Array:
        return jnp.sort(_deep(x))

    def accumulated(x: Array) -> Array:
        zeros = jnp.zeros(x.shape[1])
        return lax.fori_loop(0, 3, lambda _, sums: sums + negated(x.sum(0)), zeros)

    def negated(x: Array) -> Array:
        for _ in range(DEEP):
            x = -x
        return x

    rows = partir.ManualPartition({"x": 0}, axis="X")
    record = partir.partition(gathered, {"X": 4}, [rows], args=(V,))
    assert record.collectives["all_gather"] == sum(record.collectives.values()) == 1
    summed = partir.partition(accumulated, {"X": 4}, [rows], args=(floats(1, 8, 4),))
    assert summed.collectives["all_reduce"] >= 1
