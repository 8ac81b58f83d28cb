"""A bounded run of the random-schedule fuzzer; `benchmarks.fuzz` does long ones."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import partir
from benchmarks.fuzz import difference, random_schedule
from partir.partition.check import check
from tests import functions

MESH = partir.Mesh({"A": 2, "B": 2, "C": 2})
FUNCTIONS = [
    functions.mlp_grad,
    functions.scan_layers,
    functions.branches,
    functions.scatters,
    functions.masked,
    functions.moves,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.usefixtures("x64")
def test_random_schedules_agree_with_one_device(function: Any) -> None:
    args = functions.ARGUMENTS[function]()
    expected = jax.tree.leaves(jax.jit(function)(*args))
    program = partir.trace(function, *args)
    host = jax.tree.map(np.asarray, args)
    for seed in range(4):
        schedule = random_schedule(program, MESH, seed)
        record = partir.partition(  # it is compared: no proof
            function, MESH, schedule, args=args, verify="off"
        )
        for step in record.steps:
            check(step.state)
        made = jax.tree.leaves(record.compile()(*host))
        assert difference(made, expected) < 1e-9, f"seed {seed}"
