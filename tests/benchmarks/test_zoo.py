"""Models as their authors wrote them: partitioned, on eight devices, as on one.

`python -m benchmarks.fuzz zoo:all` tries more random schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import jax
import pytest

import partir
from benchmarks.fuzz import random_schedule
from benchmarks.zoo import CASES, Case
from partir.partition.check import check
from tests.e2e.compare import MESH, assert_same

CUBE = partir.Mesh({"A": 2, "B": 2, "C": 2})
SEED = 1
NOISE = 1e-16  # of gradients that vanish: a key's bias moves no attention weight

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize("name", CASES)
def test_as_on_one_device(name: str) -> None:
    """By hand, then at random."""
    case = CASES[name]()
    expected = jax.jit(case.step)(*case.args)
    record = run(case, MESH, case.schedule, expected)
    assert {op.kind for op in record.replicated_ops} == case.whole
    assert record.collectives["all_reduce"]
    drawn = random_schedule(record.program, CUBE, SEED)
    run(case, CUBE, drawn, expected, verify="off")  # not all of these are proved


def run(
    case: Case,
    mesh: partir.Mesh,
    schedule: Sequence[Any],
    expected: Any,
    verify: Literal["on", "off"] = "on",
) -> partir.Partitioned:
    record = partir.partition(case.step, mesh, schedule, args=case.args, verify=verify)
    for step in record.steps:
        check(step.state)
    assert_same(record.compile()(*case.args), expected, NOISE, case.limit)
    return record
