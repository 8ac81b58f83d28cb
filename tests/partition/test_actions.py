"""The result of a tactic depends on the set of its actions, not on their order."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

import partir
from benchmarks.models import transformer
from partir.errors import PartitionError
from partir.partition.actions import Partition
from partir.tactics.apply import apply_schedule, apply_tactic
from partir.tactics.schedule import Schedule

MESH = partir.Mesh({"A": 2, "B": 2, "C": 2})
Wish = tuple[str, int, str]


@dataclass(frozen=True)
class Wishes:
    """A tactic that tiles by a list of wishes; with `lenient`, refused ones go."""

    wishes: tuple[Wish, ...]
    lenient: bool = False

    def apply(self, partition: Partition) -> None:
        for wish in self.wishes:
            try:
                partition.tile(*wish)
            except PartitionError:
                if not self.lenient:
                    raise


@pytest.fixture(scope="module")
def program() -> partir.Program:
    config = transformer.Config.small(layers=2)
    args, kwargs = transformer.example_args(config)
    return partir.trace(transformer.train_step, *args, **kwargs)


def random_wishes(program: partir.Program, rng: random.Random) -> list[Wish]:
    """Arguments, dimensions and axes at random, several axes on some dimensions."""
    ports = [p for p in program.arguments if p.rank]
    wishes = []
    for port in rng.sample(ports, 12):
        dim = rng.randrange(port.rank)
        for axis in rng.sample(MESH.names, rng.choice([1, 1, 2, 3])):
            wishes.append((port.name, dim, axis))
    return wishes


def accepted(program: partir.Program, wishes: list[Wish]) -> tuple[Wish, ...]:
    """Those wishes that can be had together."""
    partition = Partition(program, MESH)
    taken = []
    for wish in wishes:
        try:
            partition.tile(*wish)
        except PartitionError:
            continue
        taken.append(wish)
    return tuple(taken)


def outcome(program: partir.Program, tactics: list[Wishes]) -> object:
    *_, last = apply_schedule(Schedule(tactics), Partition(program, MESH))
    state = last.state
    return state.tilings, [nest.loops for nest in state.nests], state.conflicts


@pytest.mark.parametrize("seed", range(20))
def test_shuffled_actions_give_the_same_partition(
    program: partir.Program, seed: int
) -> None:
    rng = random.Random(seed)
    wishes = accepted(program, random_wishes(program, rng))
    assert len(wishes) > 5
    expected = outcome(program, [Wishes(wishes)])
    for _ in range(3):
        shuffled = rng.sample(wishes, len(wishes))
        assert outcome(program, [Wishes(tuple(shuffled))]) == expected


@pytest.mark.parametrize("seed", range(10))
def test_a_later_tactic_undoes_nothing(program: partir.Program, seed: int) -> None:
    rng = random.Random(100 + seed)
    first = accepted(program, random_wishes(program, rng))
    second = tuple(random_wishes(program, rng))
    tactics = [Wishes(first), Wishes(second, lenient=True)]
    before, after = apply_schedule(Schedule(tactics), Partition(program, MESH))
    for old, new in zip(before.state.tilings, after.state.tilings, strict=True):
        assert all(n[: len(o)] == o for o, n in zip(old, new, strict=True))
    for old_nest, new_nest in zip(before.state.nests, after.state.nests, strict=True):
        assert new_nest.loops[: len(old_nest.loops)] == old_nest.loops


def test_undo_returns_to_the_mark(program: partir.Program) -> None:
    partition = Partition(program, MESH)
    partition.tile("tokens", 0, "A")
    partition.propagate()
    mark = partition.mark()
    before = list(partition.state.tilings), list(partition.state.nests)
    partition.tile("params/layer_0/w1", 1, "B")
    partition.propagate()
    assert partition.state.tilings != before[0]
    partition.undo(mark)
    assert (partition.state.tilings, partition.state.nests) == before
    assert len(partition.actions) == 1


def test_a_tactic_that_raises_leaves_nothing_behind(program: partir.Program) -> None:
    partition = Partition(program, MESH)
    bad = Wishes((("tokens", 0, "A"), ("params/layer_0/w1", 7, "B")))
    with pytest.raises(PartitionError, match="out of range"):
        apply_tactic(partition, bad)
    assert not any(any(tiling) for tiling in partition.state.tilings)
    assert partition.actions == []
