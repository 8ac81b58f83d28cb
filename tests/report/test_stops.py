"""What follows a stop, found in the SPMD program, is what Core's state says."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import partir
from benchmarks.fuzz import inner_schedule, random_schedule
from benchmarks.models import graph_network
from partir.partition.state import State
from partir.report.stops import behind_stops, readers_of
from partir.rules.nest import UNDECIDED, WHOLE
from partir.spmd.program import Compute, SpmdProgram

MESH = partir.Mesh({"A": 2, "B": 2, "C": 2})


def by_state(state: State, program: SpmdProgram, axis: str) -> set[int]:
    """Without a loop, and reading something tiled or made by such an op."""
    source, seen = state.graph.program, state.seen[axis]
    live = {op.node for op, _ in program.walk() if isinstance(op, Compute)}
    whole: set[int] = set()
    found = set()
    for node in source.walk():
        op = source.ops[node]
        if state.chosen[axis][node] or node not in live:
            continue
        reads = any(seen[v] >= 0 for v in op.operands) and not asked(state, node, axis)
        if reads or not whole.isdisjoint(op.operands):
            found.add(node)
            whole.update(v for v in op.results if seen[v] != WHOLE)
    return found


def asked(state: State, node: int, axis: str) -> bool:
    """Values kept whole, and nothing else, are in the way."""
    known = state.known(node, axis)
    free = tuple(UNDECIDED if home == WHOLE else home for home in known)
    return known != free and state.nests[node].judge(MESH[axis], free) >= 0


def mixed(x: jax.Array, w: jax.Array) -> jax.Array:
    """Transforms of all dimensions stop the tiling of each."""
    first = jnp.fft.fft2(jnp.tanh(x @ w)).real @ w
    return jnp.cumsum(jnp.fft.fft2(jnp.tanh(first)).real @ w, axis=0) @ w


def test_against_the_state() -> None:
    args = graph_network.example_args()[0]
    square = jax.ShapeDtypeStruct((8, 8), "float32")
    against_the_state(partir.trace(graph_network.train_step, *args), range(3))
    assert against_the_state(partir.trace(mixed, square, square), range(20)) > 50


def against_the_state(program: partir.Program, seeds: range) -> int:
    """How many ops are behind stops, which must be as the state says."""
    found = 0
    for seed in seeds:
        schedule = random_schedule(program, MESH, seed)
        schedule = [*schedule, *inner_schedule(program, MESH, seed)]
        last = partir.partition(program, MESH, schedule).steps[-1]
        readers = readers_of(last.spmd)
        for axis in MESH:
            behind = behind_stops(last.completed, last.spmd, readers, axis)
            assert behind.keys() == by_state(last.completed, last.spmd, axis)
            found += len(behind)
    return found
