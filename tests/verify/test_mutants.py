"""One mistake of each kind in a training step: none is proved."""

from __future__ import annotations

from functools import cache
from typing import Any

import benchmarks.mutants.kinds  # noqa: F401  (kinds register themselves)
from benchmarks.models import mlp, suite
from benchmarks.mutants.__main__ import judged
from benchmarks.mutants.edit import KINDS, mutants
from benchmarks.mutants.programs import MESH
from partir.frontend.device_local import read_device_local
from partir.ir.core import Program


@cache
def step() -> tuple[Any, Program]:
    config = mlp.Config(blocks=2, width=8, hidden=4, batch=8)
    args = mlp.example_args(config)[0]
    model = suite.Model("mlp", mlp.train_step, args, mlp.BATCH, mlp.MODEL)
    done = suite.partitioned(model, model.schedules()["BP+MP+Z3"], MESH)
    return done, read_device_local(done.stablehlo())


def test_mistakes_are_found() -> None:
    done, local = step()
    found = {
        kind: [judged(done, mutant) for _, mutant in mutants(local, kind, 1, 3)]
        for kind in KINDS
    }
    assert sum(map(bool, found.values())) >= 15  # others have no place in this step
    assert not [kind for kind, verdicts in found.items() if "proved" in verdicts]


def test_the_program_itself_is_proved() -> None:
    assert judged(*step()) == "proved"
