"""Tiny functions lowered, and their steps and values before and after rewrites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from partir.partition.state import State
from partir.rules.nest import Tiling
from partir.spmd.lowering.lower import lower
from partir.spmd.program import Collective, SpmdOp, SpmdProgram
from partir.spmd.rewrites.sweep import Pass, run_pass
from tests.programs import partition, program_of, run_spmd

M2, B4M2, B2M2 = {"M": 2}, {"B": 4, "M": 2}, {"B": 2, "M": 2}
WHOLE: Tiling = ((), ())
ROWS: Tiling = (("M",), ())


@dataclass
class Lowered:
    """A partitioned function before rewriting, with arguments and what it gives."""

    spmd: SpmdProgram
    args: Sequence[Any]
    expected: Sequence[Any]

    def after(self, *passes: Pass) -> list[str]:
        """Steps that these rewrites leave; their values are checked."""
        spmd = self.spmd
        for one in passes:
            made = run_pass(spmd, one)
            assert made.bytes_communicated <= spmd.bytes_communicated
            spmd = made
        assert_same(spmd, self.args, self.expected)
        return steps(spmd)

    @property
    def steps(self) -> list[str]:
        return steps(self.spmd)


def lowered(
    function: Callable[..., Any], *args: Any, to: Any = None, **how: Any
) -> Lowered:
    """A function partitioned as `how` says; results come tiled as `to`, or at home."""
    state = partition(program_of(function, *args), **how)
    return Lowered(at_home(state, to), args, jax.tree.leaves(jax.jit(function)(*args)))


def at_home(state: State, to: Sequence[Tiling] | None = None) -> SpmdProgram:
    results = state.graph.program.results
    return lower(state, to or [state.tilings[port.value] for port in results])


def steps(spmd: SpmdProgram) -> list[str]:
    """Ops and collectives in order, constants and their broadcasts left out."""
    shown = [_shown(spmd, op) for op in spmd.body.ops]
    return [step for step in shown if step not in ("constant", "broadcast_in_dim")]


def _shown(spmd: SpmdProgram, op: SpmdOp) -> str:
    if not isinstance(op, Collective):
        return spmd.program.ops[op.node].signature.name
    dim = f" {op.dim}" if op.dim >= 0 else ""
    return f"{op.kind}{dim} {' '.join(op.axes)}"


def assert_same(
    spmd: SpmdProgram, args: Sequence[Any], expected: Sequence[Any]
) -> None:
    """Every device holds its part of what one device gives."""
    made = run_spmd(spmd, args)
    for got, want in zip(made, expected, strict=True):
        assert got.dtype == want.dtype
        whole = np.asarray(want)
        scale = np.max(np.abs(whole.astype(float)), initial=1)
        for shard in got.addressable_shards:
            np.testing.assert_allclose(
                shard.data, whole[shard.index], rtol=1e-9, atol=1e-12 * scale
            )


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


X, Y, W, V = (floats(seed, 8, 8) for seed in range(4))
CONTRACTED = [("M", {"x": 1, "y": 1})]
