"""Schedules of anything: an answer, or an error that says what is wrong."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import partir
from partir.tactics.apply import apply_tactic
from partir.tactics.schedule import Schedule

X = jax.ShapeDtypeStruct((8, 8), "float32")
ROWS = partir.ManualPartition({"x": 0}, axis="B", name="rows")


def layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


@cache
def program() -> partir.Program:
    return partir.trace(layer, X, X)


def partition(schedule: Any) -> partir.Partitioned:
    return partir.partition(program(), {"B": 4}, schedule)


class Own:
    """A tactic that does what it is told."""

    def __init__(self, act: Any) -> None:
        self.apply = act


class WithoutParameters:
    def apply(self) -> None: ...


class Yields:
    def apply(self, partition: partir.Partition) -> Any:
        yield partition.tile("x", 0, "B")


class Again:
    """Applies itself."""

    def apply(self, partition: partir.Partition) -> None:
        Schedule([self]).apply(partition)


def of_itself() -> Schedule:
    made = Schedule([ROWS])
    object.__setattr__(made, "tactics", (ROWS, made))
    return made


def in_itself() -> list[Any]:
    made: list[Any] = [ROWS]
    made.append(made)
    return made


def of_another() -> Own:
    """Acts on a value of another program."""
    seen: list[Any] = []
    partir.partition(layer, {"B": 4}, [Own(seen.append)], args=(X, X))
    return Own(lambda p: p.tile(seen[0].values("x")[0], 0, "B"))


HARD = {
    "a list in itself": (in_itself, "schedule element 1 is a list"),
    "a schedule in itself": (of_itself, "a schedule is part of itself"),
    "a tactic that applies itself": (lambda: [Again()], "raised RecursionError"),
    "a number": (lambda: [5], "schedule element 0 is 5, which is no tactic"),
    "a class": (lambda: [partir.ManualPartition], "which is no tactic"),
    "text": (lambda: "rows", "a schedule is a list of tactics, got str"),
    "apply that is none": (lambda: [Own(3)], "which is no tactic"),
    "apply without parameters": (lambda: [WithoutParameters()], "raised TypeError"),
    "apply that yields": (lambda: [Yields()], "its apply is a generator"),
    "an error of its own": (lambda: [Own(lambda p: 1 / 0)], "raised ZeroDivisionError"),
    "a value of another program": (lambda: [of_another()], "value of another program"),
    "an object for a value": (
        lambda: [Own(lambda p: p.tile(object(), 0, "B"))],
        "a pattern is text",
    ),
    "text for a dimension": (
        lambda: [Own(lambda p: p.tile("x", "0", "B"))],
        "a dimension is a whole number",
    ),
    "a list for an axis": (
        lambda: [Own(lambda p: p.tile("x", 0, ["B"]))],
        "an axis is a name",
    ),
    "a mark of somebody's own": (
        lambda: [Own(lambda p: p.undo((1, 2, 3)))],
        r"undo takes what mark\(\) gave",
    ),
}


@pytest.mark.parametrize("name", HARD)
def test_refused_with_a_reason(name: str) -> None:
    make, reason = HARD[name]
    with pytest.raises(partir.PartitionError, match=reason):
        partition(make())


def test_a_tactic_that_raises_half_way_is_undone_and_the_next_goes_on() -> None:
    def half(p: partir.Partition) -> None:
        p.tile("w", 1, "B")
        p.propagate()
        raise KeyError("half way")

    def careful(p: partir.Partition) -> None:
        with pytest.raises(partir.PartitionError, match="half way"):
            apply_tactic(p, Own(half))
        p.tile("x", 0, "B")

    assert partition([Own(careful)]).in_specs == partition([ROWS]).in_specs


def test_an_interrupt_is_no_mistake_of_a_tactic() -> None:
    def interrupted(p: partir.Partition) -> None:
        p.tile("x", 0, "B")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        partition([Own(interrupted)])
    assert partition([ROWS]).in_specs[0] == jax.P("B")


# Saved schedules

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = ["tile", "atomic", "choose", "gathered", "skip", "propagate", "undo"]
ACTIONS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS) | ANYTHING,
        "target": st.sampled_from(["x", "w", "out", "%layer/dot_general/0"]) | ANYTHING,
        "axis": st.sampled_from(["B", "C", ""]) | ANYTHING,
    },
    optional={
        "dim": st.integers(-3, 3) | ANYTHING,
        "at": st.sampled_from(["everywhere", "uses", "padded", "keep"]) | ANYTHING,
        "more": ANYTHING,
    },
)
TACTICS = st.fixed_dictionaries(
    {"name": ANYTHING, "actions": st.lists(ACTIONS, max_size=4) | ANYTHING}
)
SAVED = st.fixed_dictionaries(
    {
        "format": st.just("partir schedule 1") | ANYTHING,
        "tactics": st.lists(TACTICS, max_size=3) | ANYTHING,
    }
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SAVED | ANYTHING)
def test_a_saved_schedule_of_anything(tmp_path: Path, data: Any) -> None:
    """It is read and applied, or refused."""
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(data))
    try:
        partition(partir.load_schedule(path)).collectives  # noqa: B018
    except partir.PartirError:
        return


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b'{"format": NaN}'],
    ids=["nothing", "half", "bytes", "a list", "null", "brackets", "nan"],
)
def test_a_corrupt_file_is_no_schedule(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "saved.json"
    path.write_bytes(content)
    with pytest.raises(partir.PartitionError, match="is not a saved schedule"):
        partir.load_schedule(path)
