"""What the search finds runs, and gives what one device gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import pytest

import partir
from benchmarks.models import moe, transformer
from partir.search.problem import Problem
from partir.search.result.decisions import decisions
from partir.tactics.automatic import as_tactic
from tests.e2e.compare import MESH, QUICK, SLOW, TINY, assert_same, transformer_start

pytestmark = pytest.mark.usefixtures("double")

TRANSFORMER = replace(TINY, layers=2)


@pytest.mark.parametrize(("goal", "seed"), [("time", 0), ("memory", 1)])
def test_transformer(goal: str, seed: int) -> None:
    state, batch = transformer_start(TRANSFORMER)
    want = jax.jit(transformer.train_step, compiler_options=QUICK)(*state, *batch)
    auto = partir.AutomaticPartition(("B", "M"), evaluations=60, goal=goal, seed=seed)
    done = partir.partition(
        transformer.train_step,
        MESH,
        [auto],
        args=(*state, *batch),
        device=SLOW,
        compiler_options=QUICK,
    )
    assert auto.found
    assert_same(done.compile()(*done.shard(*state, *batch)), want, zero=1e-12)


def test_experts_that_share_an_axis_with_the_batch() -> None:
    """A tactic of loops and tiles at once, as it is found for experts."""
    config = moe.Config()
    step, args = moe.step_for(config), moe.example_args(config)[0]
    arrays = jax.tree.map(_filled, args)
    want = jax.jit(step, compiler_options=QUICK)(*arrays)
    found = _meeting(step, arrays)
    assert isinstance(found, partir.Choose)
    done = partir.partition(step, MESH, [found], args=arrays, compiler_options=QUICK)
    assert done.collectives["all_to_all"] > 0
    assert_same(done.compile()(*done.shard(*arrays)), want, zero=1e-10)


def _filled(leaf: Any) -> jax.Array:
    key = jax.random.key(sum(leaf.shape))
    if jax.numpy.issubdtype(leaf.dtype, jax.numpy.integer):
        return jax.random.randint(key, leaf.shape, 0, 8, leaf.dtype)
    return jax.random.uniform(key, leaf.shape, "float64") * 0.1 + 0.1


def _meeting(step: Any, arrays: Any) -> Any:
    """The best move that splits inputs and weights along two names at once."""
    start = partir.partition(step, MESH, [], args=arrays, device=SLOW)
    first, count = start.steps[-1], len(start.program.arguments)
    problem = Problem(first.state, ["B"], SLOW, [False] * count)
    moves = [move for move in problem.fixed if move.loops and move.tiles]
    best = max(moves, key=lambda m: problem.outcome(problem.state((m,))).score)
    decision, *_ = decisions(problem, (best,), first.state)
    return as_tactic(start.partition_record, decision)
