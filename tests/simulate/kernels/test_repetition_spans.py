"""Where repetitions stand in the whole, against the whole itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import pytest

import partir
from partir.partition.graph import Graph
from partir.partition.state import State
from partir.search.problem import Problem
from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.spmd.export_policy import XLA_CPU
from partir.spmd.stages import lower_state
from tests.simulate import models

LAYERS = 6
# A folded program does not see that products wait for those of earlier repetitions.
_FREE = replace(XLA_CPU, name="", orders_products=False)
CPU = replace(partir.devices["cpu"], export=_FREE)


def step(params: list[Any], x: Any) -> Any:
    """Layers with a weight that is prepared apart from the chain of activations."""
    y = jnp.tanh(x)
    for w in params:
        y = jnp.tanh(y @ jnp.exp(jnp.exp(w) @ w))
    return y @ x.T


def levels(block: Kernels) -> list[tuple[Kernel, int]]:
    """One more than the level of the last that a kernel waits for."""
    found: dict[int, int] = {}
    each = []
    for kernel in block.kernels:
        level = 1 + max((found.get(v, 0) for v in kernel.reads), default=0)
        found.update(dict.fromkeys(kernel.writes, level))
        each.append((kernel, level))
    return each


def built() -> tuple[Problem, State]:
    w = models.f32((64, 64), "float32")
    program = partir.trace(step, [w] * LAYERS, models.f32((32, 64), "float32"))
    start = State(Graph(program), partir.Mesh({"B": 1}))
    return Problem(start, ("B",), CPU, [False] * len(program.arguments)), start


def test_levels_are_those_of_the_whole() -> None:
    problem, start = built()
    folded = problem.estimate(problem.start)
    counts, spans = folded._kernels.counts, folded._kernels.spans
    whole = partir.Estimate(lower_state(start), CPU)
    known = {k.op.node: level for k, level in levels(whole._kernels)}  # type: ignore[union-attr]
    compared = 0
    for kernel, count, span in zip(folded._kernels.kernels, counts, spans, strict=True):
        members = problem.folded.node_members(kernel.op.node)  # type: ignore[union-attr]
        if count > 1 and len(members) == count and all(m in known for m in members):
            own = sorted(known[m] for m in members)
            assert (span[0], int(span[1])) == (own[0], own[-1])
            compared += 1
    assert compared > 3


def test_all_weights_are_prepared_at_the_start() -> None:
    problem, start = built()
    folded = problem.estimate(problem.start)
    pairs = zip(folded._kernels.kernels, folded._kernels.spans, strict=True)
    assert sum(span == (1, 1.5) for _, span in pairs) > 0
    whole = partir.Estimate(lower_state(start), CPU)
    assert folded.peak_bytes == pytest.approx(whole.peak_bytes, rel=0.02)
    assert folded.seconds == pytest.approx(whole.seconds, rel=0.02)


def test_in_program_order_spans_are_op_numbers() -> None:
    problem, _ = built()
    problem.device = partir.devices["tpu_v5e"]
    folded = problem.estimate(problem.start)
    spans, times = folded._kernels.spans, problem.folded.times
    nodes = [kernel.op.node for kernel in folded._kernels.kernels]  # type: ignore[union-attr]
    assert list(spans) == [times.spans[node] for node in nodes]
