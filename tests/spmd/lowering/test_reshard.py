"""Plans between tilings: run on eight devices, and counted."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
import pytest

from partir.ir.core import Program, Region
from partir.ir.types import TensorType, tensor
from partir.mesh import Mesh
from partir.rules.nest import Tiling
from partir.spmd.lowering.lower import local_type
from partir.spmd.lowering.narrowest import steps_between
from partir.spmd.lowering.reshard import ReshardStep, plan
from partir.spmd.program import SLICE, Block, Cause, Collective, SpmdProgram
from partir.spmd.stablehlo import export
from partir.spmd.stablehlo.export import stablehlo_text
from tests.programs import run_spmd

Pair = tuple[Tiling, Tiling]

CUBE = Mesh({"x": 2, "y": 2, "z": 2})
UNEQUAL = Mesh({"x": 4, "y": 2})
LARGE = Mesh({"x": 2, "y": 16, "z": 4})
NOWHERE = Cause(0, None, None)
X = tensor((16, 3), "i32")


def tilings(mesh: Mesh, rank: int) -> list[Tiling]:
    """Every way to tile `rank` dimensions over axes of the mesh."""
    orders = [o for n in range(len(mesh.names) + 1) for o in permutations(mesh, n)]
    if rank == 1:
        return [(order,) for order in orders]
    return [(o[:cut], o[cut:]) for o in orders for cut in range(len(o) + 1)]


def pairs(mesh: Mesh, rank: int) -> list[Pair]:
    return list(product(tilings(mesh, rank), repeat=2))


# Running


def as_collectives(
    source: Tiling, moves: Sequence[ReshardStep], value: int, first: int
) -> list[Collective]:
    """A plan's steps on `value`; what they make is numbered from `first`."""
    made = []
    for number, move in enumerate(moves, first):
        order = move.after[move.dim] if move.kind == "collective_permute" else ()
        made.append(
            Collective(
                move.kind,
                value,
                number,
                move.axes,
                NOWHERE,
                move.dim,
                move.to_dim,
                order,
            )
        )
        value = number
    return made


def resharding(mesh: Mesh, type_: TensorType, cases: Sequence[Pair]) -> SpmdProgram:
    """An argument for every tiling that is a source, a result for every case."""
    sources = list(dict.fromkeys(source for source, _ in cases))
    types = [local_type(type_, source, mesh) for source in sources]
    ops: list[Collective] = []
    results = []
    for source, target in cases:
        moves = plan(source, target, mesh)
        steps = as_collectives(source, moves, sources.index(source), len(types))
        types += [local_type(type_, move.after, mesh) for move in moves]
        ops += steps
        results.append(steps[-1].result if steps else sources.index(source))
    return SpmdProgram(
        program=Program("reshard", (), (), Region((), (), ()), (), ()),
        mesh=mesh,
        types=tuple(types),
        body=Block(tuple(range(len(sources))), tuple(ops), tuple(results)),
        splats={},
        in_tilings=tuple(sources),
        out_tilings=tuple(target for _, target in cases),
    )


def assert_right(mesh: Mesh, shape: tuple[int, ...], cases: Sequence[Pair]) -> None:
    """Every device holds what the target tiling gives it."""
    value = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    program = resharding(mesh, tensor(shape, "i32"), cases)
    made = run_spmd(program, [value] * len(program.in_tilings))
    for case, result in zip(cases, made, strict=True):
        for shard in result.addressable_shards:
            np.testing.assert_array_equal(
                shard.data, value[shard.index], err_msg=f"{case} by {plan(*case, mesh)}"
            )


@pytest.mark.parametrize("mesh", [CUBE, UNEQUAL], ids=str)
def test_every_pair_on_one_dimension(mesh: Mesh) -> None:
    assert_right(mesh, (16, 3), [((*s, ()), (*t, ())) for s, t in pairs(mesh, 1)])


@pytest.mark.needs_jax("0.10", "StableHLO had no groups by mesh axes before")
def test_groups_that_are_spelled_by_mesh_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for thousands of devices; in the order in which axes are listed."""
    monkeypatch.setattr(export, "DENSE_LIMIT", 0)
    cases: list[Pair] = [((*s, ()), (*t, ())) for s, t in pairs(UNEQUAL, 1)]
    assert "mesh_axis" in stablehlo_text(resharding(UNEQUAL, X, cases))
    assert_right(UNEQUAL, X.shape, cases)


def test_every_step_between_two_dimensions() -> None:
    """Plans are made of steps, so right steps make right plans."""
    steps: dict[Pair, None] = {}
    for source, target in pairs(CUBE, 2):
        for move in plan(source, target, CUBE):
            steps[source, move.after] = None
            source = move.after
    assert all(len(plan(*step)) == 1 for step in steps)
    assert_right(CUBE, (8, 8), list(steps))


def test_pairs_on_two_dimensions() -> None:
    long = [pair for pair in pairs(CUBE, 2) if len(plan(*pair)) > 1]
    assert_right(CUBE, (8, 8), random.Random(0).sample(long, 200))


@pytest.mark.parametrize("sizes", [(20, 8), (8, 20), (13, 20)], ids=str)
def test_short_tiles_stay_in_their_order(sizes: tuple[int, int]) -> None:
    """20 rows over 4 and 2 are 3 + 2 a pair, over 2 and 4 they are 3 + 3 + 3 + 1."""
    for source, target in pairs(UNEQUAL, 2):
        now = source
        for step in steps_between(sizes, source, target, UNEQUAL):
            parts = math.prod(UNEQUAL.axes[axis] for axis in step.axes)
            reordered = step.kind == "collective_permute"
            assert not (reordered and sizes[step.dim] % parts), (source, target)
            now = step.after
        assert now == target


# Counting


def bytes_moved(mesh: Mesh, source: Tiling, moves: Sequence[ReshardStep]) -> int:
    type_ = tensor((1024,) * len(source), "i8")
    types = [local_type(type_, t, mesh) for t in (source, *(m.after for m in moves))]
    empty = Program("count", (), (), Region((), (), ()), (), ())
    block = Block((0,), tuple(as_collectives(source, moves, 0, 1)), ())
    tuples = ((source,), (source,))
    return SpmdProgram(empty, mesh, tuple(types), block, {}, *tuples).bytes_communicated


def gathers(source: Tiling, target: Tiling) -> list[ReshardStep]:
    """Gather all that is not common, dimension by dimension; slices cost nothing."""
    moves = []
    now = source
    for dim, (have, want) in enumerate(zip(source, target, strict=True)):
        common = 0
        while have[common : common + 1] == want[common : common + 1] != ():
            common += 1
        if have[common:]:
            now = (*now[:dim], have[:common], *now[dim + 1 :])
            moves.append(ReshardStep("all_gather", have[common:], dim, -1, now))
    return moves


@pytest.mark.parametrize("mesh", [CUBE, UNEQUAL, LARGE], ids=str)
@pytest.mark.parametrize("rank", [1, 2])
def test_no_plan_moves_more_than_gathering(mesh: Mesh, rank: int) -> None:
    for source, target in pairs(mesh, rank):
        moved = bytes_moved(mesh, source, plan(source, target, mesh))
        gathered = bytes_moved(mesh, source, gathers(source, target))
        assert moved <= gathered, (source, target, plan(source, target, mesh))


@pytest.mark.parametrize("rank", [1, 2])
def test_steps_arrive_and_never_tile_finer_than_either_end(rank: int) -> None:
    """So that sizes that divide at both ends divide in between."""
    for source, target in pairs(CUBE, rank):
        moves = plan(source, target, CUBE)
        assert [source, *(m.after for m in moves)][-1] == target
        for move in moves:
            for dim, axes in enumerate(move.after):
                assert len(axes) <= max(len(source[dim]), len(target[dim]))


def is_prefix(less: Tiling, more: Tiling) -> bool:
    return all(m[: len(a)] == a for a, m in zip(less, more, strict=True))


@pytest.mark.parametrize("rank", [1, 2])
def test_prefixes_take_a_step_per_dimension(rank: int) -> None:
    """Only slices one way, only gathers the other; nothing where nothing changes."""
    for less, more in pairs(CUBE, rank):
        if not is_prefix(less, more):
            continue
        changed = sum(a != b for a, b in zip(less, more, strict=True))
        assert [m.kind for m in plan(less, more)] == [SLICE] * changed
        assert [m.kind for m in plan(more, less)] == ["all_gather"] * changed


@pytest.mark.parametrize(
    ("source", "target", "steps"),
    [
        ("x|", "|x", "all_to_all x"),
        ("xy|", "x|y", "all_to_all y"),
        ("xy|z", "|zxy", "all_to_all xy"),
        ("xy", "yx", "collective_permute xy"),
        ("x", "yx", "all_slice y, collective_permute xy"),
        ("xy", "y", "collective_permute xy, all_gather x"),
        ("x", "y", "all_gather x, all_slice y"),
        ("x|", "|y", "all_slice y, all_gather x"),
        ("x|y", "y|x", "all_gather x, all_to_all y, all_slice x"),
    ],
)
def test_plans(source: str, target: str, steps: str) -> None:
    ends = [tuple(map(tuple, text.split("|"))) for text in (source, target)]
    shown = [f"{move.kind} {''.join(move.axes)}" for move in plan(*ends)]
    assert ", ".join(shown) == steps
