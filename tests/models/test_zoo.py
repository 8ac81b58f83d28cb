"""Models as their authors wrote them: partitioned, on eight devices, as on one.

`python -m benchmarks.fuzz --zoo` tries more random schedules.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest

import partir
from benchmarks.fuzz import random_schedule
from benchmarks.zoo import CASES, Case
from partir.partition.check import check
from tests.e2e.compare import MESH, assert_same

CUBE = partir.Mesh({"A": 2, "B": 2, "C": 2})
SEED = 1

pytestmark = pytest.mark.usefixtures("x64")


@functools.cache
def case(name: str) -> tuple[Case, Any]:
    """A model, and what its step gives on one device."""
    made = CASES[name]()
    return made, jax.jit(made.step)(*made.args)


def assert_as_on_one_device(
    name: str, mesh: partir.Mesh, schedule: Sequence[Any]
) -> partir.Partitioned:
    model, expected = case(name)
    record = partir.partition(model.step, mesh, schedule, args=model.args)
    for step in record.steps:
        check(step.state)
    host = jax.tree.map(on_host, model.args)
    assert_same(record.compile()(*host), expected)
    return record


def on_host(leaf: Any) -> Any:
    key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return leaf if key else np.asarray(leaf)


@pytest.mark.parametrize("name", CASES)
def test_by_hand(name: str) -> None:
    model, _ = case(name)
    record = assert_as_on_one_device(name, MESH, model.schedule)
    assert not record.replicated_ops
    assert record.collectives["all_reduce"]
    for spec in jax.tree.leaves(record.in_specs[2:3]):
        assert "B" in spec or not spec


@pytest.mark.parametrize("name", CASES)
def test_at_random(name: str) -> None:
    model, _ = case(name)
    program = partir.trace(model.step, *model.args)
    assert_as_on_one_device(name, CUBE, random_schedule(program, CUBE, SEED))
