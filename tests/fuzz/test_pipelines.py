"""Pipelines of random shapes under random schedules, as on one device."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import partir
from partir.fuzz.case import Case, Trial
from partir.fuzz.edit import source_text
from partir.fuzz.schedules import random_schedule
from partir.mesh import Mesh

SHAPES = [
    # stages, layers of each, microbatches, times round, mesh
    (3, 1, 4, 1, {"S": 3}),
    (5, 1, 2, 1, {"S": 5}),
    (6, 2, 3, 1, {"S": 6}),
    (3, 2, 3, 2, {"S": 3, "B": 2}),
    (4, 1, 4, 1, {"S": 2, "B": 2, "M": 2}),
]


def body(w: Array, x: Array) -> Array:
    return x + jnp.tanh(x @ w)


def program(stages: int, each: int, microbatches: int, repeats: int) -> partir.Program:
    layers = partir.pipelined(body, stages, microbatches, repeats=repeats)

    def both(w: Array, x: Array) -> Any:
        return jax.value_and_grad(lambda *given: layers(*given).sum(), (0, 1))(w, x)

    stack = (stages * each,) if repeats == 1 else (repeats, stages * each)
    w = jax.ShapeDtypeStruct((*stack, 4, 4), "float32")
    x = jax.ShapeDtypeStruct((2 * microbatches, 4), "float32")
    return partir.load(jax.jit(both).lower(w, x).as_text())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_schedules_agree(shape: tuple[Any, ...]) -> None:
    *sizes, axes = shape
    source, mesh = program(*sizes), Mesh(axes)
    (stacked, _), dim = source.arguments, int(sizes[-1] > 1)
    stages = partir.ManualPartition({stacked.name: dim}, axis="S", name="stages")
    lots = random_schedule(random.Random(str(shape)))
    drawn = partir.partition(source, mesh, [stages, *lots])
    assert drawn.steps[0].collectives["collective_permute"]
    tactics = tuple(
        (step.name, tuple(a for a in step.actions if a.kind != "skip"))
        for step in drawn.steps
    )
    case = Case(source_text(source), mesh, tactics, ("plain",) * 2, 0, ())
    assert Trial(case, on_devices=False).run() is None
