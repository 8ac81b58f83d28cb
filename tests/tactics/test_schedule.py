"""Schedules, nested ones, and tactics of users' own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, P

import partir
from partir import ManualPartition, Schedule

pytestmark = pytest.mark.quick


MESH = {"B": 4, "M": 2}


def shape(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, "float32")


def mlp(params: dict[str, Array], x: Array) -> Array:
    return jnp.tanh(x @ params["w1"]) @ params["w2"]


ARGS = ({"w1": shape(16, 16), "w2": shape(16, 16)}, shape(8, 16))
BP = ManualPartition({"x": 0}, axis="B", name="BP")
MP = ManualPartition({"params/w1": 1}, axis="M", name="MP")
Z3 = ManualPartition({"params/*": partir.FIRST_DIVISIBLE_DIM}, axis="B", name="Z3")


@dataclass
class Own:
    """A tactic from a function."""

    act: Callable[[partir.Partition], Any]

    def apply(self, partition: partir.Partition) -> None:
        self.act(partition)


def partition(*tactics: Any) -> partir.Partitioned:
    return partir.partition(mlp, MESH, list(tactics), args=ARGS)


def test_a_step_for_each_tactic() -> None:
    p = partition(BP, MP, Z3)
    assert [step.name for step in p.steps] == ["BP", "MP", "Z3"]
    assert [step.collectives["all_gather"] for step in p.steps] == [0, 0, 2]
    assert p.collectives == p.steps[-1].collectives


def test_no_tactic() -> None:
    p = partition()
    assert [step.name for step in p.steps] == ["no tactic"]
    assert p.in_specs == ({"w1": P(), "w2": P()}, P())


def test_one_tactic_is_a_schedule() -> None:
    p = partir.partition(mlp, MESH, BP, args=ARGS)
    assert p.in_specs[1] == P("B")


def test_a_schedule_is_a_tactic() -> None:
    nested = Schedule([BP, Schedule([MP, Z3])])
    p = partir.partition(mlp, MESH, [nested], args=ARGS)
    assert nested.name == "BP+MP+Z3"
    assert [step.name for step in p.steps] == ["BP", "MP", "Z3"]
    assert p.spmd_text() == partition(BP, MP, Z3).spmd_text()


def test_a_schedule_within_an_own_tactic() -> None:
    p = partition(Own(Schedule([BP, MP, Z3]).apply))
    assert [step.name for step in p.steps] == ["Own"]
    assert p.spmd_text() == partition(BP, MP, Z3).spmd_text()


# Tactics of users' own


def test_own_tactic_sees_and_tiles_values() -> None:
    seen = []

    def act(partition: partir.Partition) -> None:
        for value in partition.values("params/*"):
            seen.append((value.name, value.shape, value.dtype, value.uses))
            partition.tile(value, -1, "M")

    p = partition(Own(act))
    assert seen == [
        ("params/w1", (16, 16), "float32", 1),
        ("params/w2", (16, 16), "float32", 1),
    ]
    assert p.in_specs[0] == {"w1": P(None, "M"), "w2": P(None, "M")}


def test_values_show_their_tiling_and_source() -> None:
    def act(partition: partir.Partition) -> None:
        (x,) = partition.values("x")
        assert (x.tiling, x.local_shape, x.source) == (
            (("B",), ()),
            (2, 16),
            "argument",
        )
        (inner,) = partition.values("%mlp/tanh/0")
        assert "test_schedule.py" in inner.source
        assert repr(x) == "<x: float32[8,16] (('B',), ())>"

    partition(BP, Own(act))


def test_actions_take_patterns() -> None:
    p = partition(Own(lambda partition: partition.tile("params/*", 0, "M")))
    assert p.in_specs[0] == {"w1": P("M"), "w2": P("M")}


def test_an_action_on_several_values_is_all_or_nothing() -> None:
    def act(partition: partir.Partition) -> None:
        with pytest.raises(partir.PartitionError, match="params/b is float32"):
            partition.tile("params/*", 0, "B")

    def fn(params: dict[str, Array]) -> dict[str, Array]:
        return params

    args = ({"a": shape(8), "b": shape(6)},)
    p = partir.partition(fn, MESH, [Own(act)], args=args)
    assert p.in_specs[0] == {"a": P(), "b": P()}
    assert p.steps[0].actions == ()


def test_atomic_at_uses_gathers_what_is_tiled() -> None:
    def act(partition: partir.Partition) -> None:
        partition.atomic("params/w1", "B", at="uses")
        partition.tile("params/w1", 0, "B")

    p = partition(Own(act), BP)
    assert p.in_specs == ({"w1": P("B"), "w2": P()}, P("B"))
    assert p.collectives["all_gather"] == 1


def test_mark_and_undo() -> None:
    def act(partition: partir.Partition) -> None:
        mark = partition.mark()
        partition.tile("x", 0, "B")
        partition.propagate()
        assert partition.values("x")[0].tiling == (("B",), ())
        partition.undo(mark)
        assert partition.values("x")[0].tiling == ((), ())

    p = partition(Own(act))
    assert p.steps[0].actions == ()
    assert p.in_specs == ({"w1": P(), "w2": P()}, P())


def test_collectives_guide_a_tactic() -> None:
    """Try both dimensions of each weight and keep what communicates less."""

    def act(partition: partir.Partition) -> None:
        costs = {}
        for dim in (0, 1):
            mark = partition.mark()
            partition.tile("params/w1", dim, "M")
            partition.propagate()
            costs[dim] = sum(partition.collectives().values())
            partition.undo(mark)
        partition.tile("params/w1", min(costs, key=costs.__getitem__), "M")

    p = partition(BP, Own(act))
    assert p.collectives["all_reduce"] == 1


def test_a_tactic_that_raises_leaves_nothing_behind() -> None:
    def act(partition: partir.Partition) -> None:
        partition.tile("x", 0, "B")
        raise ValueError("on purpose")

    with pytest.raises(
        partir.PartitionError, match=r"raised ValueError: on purpose \(at .*"
    ):
        partition(Own(act))

    def careful(partition: partir.Partition) -> None:
        mark = partition.mark()
        with pytest.raises(ValueError, match="on purpose"):
            act(partition)
        partition.undo(mark)

    assert partition(Own(careful)).in_specs[1] == P()


# Conflicts


def products(x: Array, w: Array) -> Array:
    return x @ w


ROWS_AND_COLUMNS = ManualPartition({"x": 0, "w": 1}, axis="B", name="both")


def conflicting(*tactics: Any) -> partir.Partitioned:
    args = (shape(8, 8), shape(8, 8))
    return partir.partition(products, MESH, [ROWS_AND_COLUMNS, *tactics], args=args)


def test_a_conflict_is_recorded_and_follows_the_first_operand() -> None:
    p = conflicting()
    (conflict,) = p.steps[0].conflicts
    assert conflict.name == "%products/dot_general/0"
    assert conflict.axis == "B"
    assert conflict.rule == "(a, c), (c, b) -> (a, b) sum=c"
    assert conflict.factors == (0, 1)
    assert conflict.evidence == (("x", 0, 0), ("w", 1, 0))
    assert "test_schedule.py" in conflict.source
    assert p.collectives["all_gather"] == 1
    assert p.out_specs == P("B")


@pytest.mark.parametrize(("factor", "want"), [(0, P("B")), (1, P(None, "B"))])
def test_choose_resolves_a_conflict(factor: int, want: Any) -> None:
    def act(partition: partir.Partition) -> None:
        (conflict,) = partition.conflicts()
        partition.choose(conflict, factor, conflict.axis)

    p = conflicting(Own(act))
    assert p.steps[1].conflicts == ()
    assert p.out_specs == want
    assert p.collectives["all_gather"] == 1


def test_choose_by_address() -> None:
    act = Own(lambda partition: partition.choose("%products/dot_general/0", 0, "B"))
    assert conflicting(act).out_specs == P("B")


def test_tiling_the_result_of_a_stuck_op_chooses() -> None:
    columns = ManualPartition({}, axis="B", outputs={"out": 1})
    p = conflicting(columns)
    assert p.out_specs == P(None, "B")
    assert p.collectives["all_gather"] == 1


EXPORTED = [
    name
    for name in partir.__all__
    if isinstance(getattr(partir, name), type)
    and callable(getattr(getattr(partir, name), "apply", None))
]


@pytest.mark.parametrize("name", sorted(set(EXPORTED) - {"Tactic"}))
def test_exported_tactics_are_documented(name: str) -> None:
    docs = Path(__file__).parents[2] / "docs"
    pages = [docs / "schedules.md", docs / "automatic.md"]
    assert any(name in page.read_text(encoding="utf-8") for page in pages)
