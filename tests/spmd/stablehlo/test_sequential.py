"""The sequential meaning of a partition is the source program's."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import partir
from benchmarks.models import transformer
from benchmarks.models.schedules import schedules_for
from partir.fuzz.meaning.evaluate import evaluate
from partir.ir.core import Program
from partir.mesh import Mesh
from partir.partition.check import check
from partir.partition.graph import Graph
from partir.partition.state import Origin, State
from partir.spmd.stablehlo.sequential import sequential_text
from tests import functions
from tests.functions import ARGUMENTS
from tests.programs import Tactic, partition, program_of, run_text

ONE, TWO, THREE = {"B": 4}, {"B": 4, "M": 2}, {"B": 2, "M": 2, "C": 2}
LAYER = "params/layer_0"

Case = tuple[Callable[..., Any], Mapping[str, int], Sequence[Tactic]]
CASES: list[Case] = [
    (functions.mlp_grad, ONE, [("B", {"x": 0, "y": 0})]),
    (
        functions.mlp_grad,
        TWO,
        [("M", {"params/w1": 1}), ("B", {"x": 0, "y": 0, "params/w2": 1})],
    ),
    (
        functions.mlp_grad,
        THREE,
        [("B", {"x": 0}), ("C", {"x": 0, "params/w2": 0}), ("M", {"params/w1": 1})],
    ),
    (functions.scan_layers, ONE, [("B", {"x": 0})]),
    (functions.scan_layers, TWO, [("B", {"weights": 2}), ("M", {"x": 0})]),
    (functions.scan_layers, THREE, [("C", {"x": 0}), ("B", {"x": 0}), ("M", {"x": 1})]),
    (functions.branches, ONE, [("B", {"x": 0})]),
    (functions.branches, THREE, [("M", {"x": 0}), ("B", {"x": 0}), ("C", {"x": 1})]),
    (functions.scatters, ONE, [("B", {"indices": 0})]),
    (functions.scatters, TWO, [("B", {"updates": 0}), ("M", {"updates": 0})]),
    (
        functions.scatters,
        THREE,
        [("M", {"table": 1}), ("B", {"indices": 0}), ("C", {"updates": 0})],
    ),
    (functions.reductions, ONE, [("B", {"x": 0, "n": 1})]),
    (functions.reductions, TWO, [("M", {"x": 0, "n": 0}), ("B", {"x": 0, "n": 0})]),
    (
        functions.reductions,
        THREE,
        [("B", {"x": 0, "n": 1}), ("M", {"x": 1, "n": 0}), ("C", {"x": 0, "n": 1})],
    ),
    (functions.extremes, TWO, [("B", {"x": 0}), ("M", {"x": 0})]),
    (functions.masked, TWO, [("B", {"q": 0}), ("M", {"k": 0})]),
    (functions.masked, THREE, [("B", {"q": 0}), ("M", {"k": 0}), ("C", {"q": 0})]),
    (functions.moves, ONE, [("B", {"x": 1})]),
    (functions.moves, THREE, [("B", {"x": 1}), ("C", {"x": 0}), ("M", {"x": 1})]),
    # A reshape splits the dimension: the third axis goes to its minor half.
    (functions.moves, THREE, [("M", {"x": 1}), ("C", {"x": 1}), ("B", {"x": 1})]),
    (functions.train_step, ONE, [("B", {"tokens": 0, "targets": 0})]),
    (
        functions.train_step,
        THREE,
        [
            ("B", {"tokens": 0, "targets": 0}),
            ("M", {f"{LAYER}/qkv": 2, f"{LAYER}/w1": 1}),
            ("C", {"tokens": 0, f"{LAYER}/w1": 0, f"{LAYER}/out": 2}),
        ],
    ),
]


def _case_name(case: Case) -> str:
    function, _, tactics = case
    return "-".join([function.__name__, *(axis for axis, _ in tactics)])


def interpreted(text: str, _: Program, args: Sequence[Any]) -> list[np.ndarray]:
    """Run a module op by op: XLA takes six times as long to compile so many loops."""
    return evaluate(text, list(map(np.asarray, jax.tree.leaves(args))))


def assert_same(
    state: State, args: Sequence[Any], expected: Any, run: Any = interpreted
) -> None:
    """Running loop by loop gives what jax gives: exactly, or to nine digits."""
    program = state.graph.program
    made = run(sequential_text(state), program, args)
    wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(expected)]
    for port, got, want in zip(program.results, made, wanted, strict=True):
        assert got.dtype == want.dtype
        if want.dtype != np.float64:
            np.testing.assert_array_equal(got, want, err_msg=port.name)
            continue
        scale = np.max(np.abs(want), initial=0)
        np.testing.assert_allclose(
            got, want, rtol=1e-9, atol=1e-12 * scale, err_msg=port.name
        )


@pytest.mark.parametrize("case", CASES, ids=_case_name)
def test_decided_by_propagation(case: Case, x64: None) -> None:
    function, axes, tactics = case
    args = ARGUMENTS[function]()
    state = partition(program_of(function, *args), axes, tactics)
    assert {axis for nest in state.nests for axis in nest.axes} == set(axes)
    check(state)
    assert_same(state, args, jax.jit(function)(*args))


def entered_at_random(program: Program, mesh: Mesh, seed: int) -> State:
    """Every op in loops over factors drawn by lot, whatever its neighbours do."""
    draw = random.Random(seed)
    state = State(Graph(program), mesh)
    for axis in draw.sample(mesh.names, len(mesh.names)):
        state.epoch += 1
        for node in range(len(state.nests)):
            factors = state.nests[node].factors
            fitting = [i for i, f in enumerate(factors) if f.size % mesh[axis] == 0]
            if fitting and draw.random() < 0.8:
                state.enter(node, draw.choice(fitting), axis, Origin(0))
    return state


SMALL = [function for function in ARGUMENTS if function is not functions.train_step]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("function", SMALL, ids=lambda f: f.__name__)
def test_decided_by_lot(function: Callable[..., Any], seed: int, x64: None) -> None:
    args = ARGUMENTS[function]()
    program = program_of(function, *args)
    state = entered_at_random(program, Mesh(THREE), seed)
    check(state)
    assert_same(state, args, jax.jit(function)(*args), run_text)


@pytest.mark.parametrize("function", [functions.scatters, functions.reductions])
def test_forgotten_mask_is_noticed(
    function: Callable[..., Any], x64: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts once must be masked: without it, the numbers differ."""

    def unmasked(nest: Any, emitter: Any, operands: Any, splats: Any) -> Any:
        return operands

    monkeypatch.setattr("partir.spmd.stablehlo.emit.once_operands", unmasked)
    args = ARGUMENTS[function]()
    dims = {"updates": 0} if function is functions.scatters else {"x": 0}
    state = partition(program_of(function, *args), ONE, [("B", dims)])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_same(state, args, jax.jit(function)(*args))


# Every prefix of the published schedules


def tiny(separate: bool) -> transformer.Config:
    return transformer.Config.small(
        layers=1,
        separate=separate,
        dtype="float64",
        batch=4,
        sequence=8,
        width=16,
        heads=4,
        head_dim=4,
        hidden=16,
        vocab=16,
    )


def prefixes(args: Any, separate: bool) -> dict[str, partir.Partitioned]:
    """One schedule for each prefix that occurs, by the names of its tactics."""
    found = {}
    for schedule in schedules_for(separate=separate).values():
        for end in range(1, len(schedule) + 1):
            name = "+".join(tactic.name for tactic in schedule[:end])
            if name not in found:
                found[name] = partir.partition(
                    transformer.train_step,
                    TWO,
                    schedule[:end],
                    args=args,
                    donate_argnums=(0, 1),
                )
    return found


@pytest.mark.parametrize("separate", [False, True], ids=["fused", "separate"])
@pytest.mark.usefixtures("x64")
def test_sequential_meaning_of_every_prefix(separate: bool) -> None:
    config = tiny(separate)
    key = jax.random.key(0)
    args = (*transformer.init(config, key), *transformer.example_batch(config, key))
    expected = jax.tree.leaves(jax.jit(transformer.train_step)(*args))
    found = prefixes(args, separate)
    assert {"BP", "MP", "BP+MP", "BP+MP+Z2", "BP+MP+Z3"} <= set(found)
    for name, partitioned in found.items():
        state = partitioned.steps[-1].state
        check(state)
        made = interpreted(sequential_text(state), partitioned.program, args)
        for have, want in zip(made, expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12, err_msg=name)
