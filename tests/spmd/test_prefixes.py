"""Every prefix of every schedule: Core's sequential meaning is the source program's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import partir
from benchmarks.models import transformer
from benchmarks.models.schedules import schedules_for
from partir.partition.check import check
from partir.spmd.sequential import sequential_text
from tests.programs import run_text

MESH = {"B": 4, "M": 2}


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
                    MESH,
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
        made = run_text(sequential_text(state), partitioned.program, args)
        for have, want in zip(made, expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12, err_msg=name)
