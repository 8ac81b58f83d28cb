"""What a search may decide, and in which order it is offered."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir
from partir.partition.graph import Graph
from partir.partition.state import State
from partir.search.problem import Problem
from partir.simulate.device.catalogue import devices

DIMS = ("NHWC", "HWIO", "NHWC")


def image(batch: int) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    shapes = (batch, 256, 256, 64), (3, 3, 64, 64)
    x, w = (jax.ShapeDtypeStruct(shape, "float32") for shape in shapes)
    return x, w


def convolved(x: Array, w: Array) -> Array:
    y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=DIMS)
    return jnp.sum(y * y)


def problem(*args: Any) -> Problem:
    state = State(Graph(partir.trace(convolved, *args)), partir.Mesh({"X": 8}))
    return Problem(state, ("X",), devices["tpu_v3"], [False, False])


def test_names_that_windows_make_are_offered_last() -> None:
    offered = problem(*image(8)).fixed
    late = [move.late for move in offered]
    assert late == sorted(late)
    early, spatial = (
        {dim for move in offered if move.late is late for v, dim in move.tiles if not v}
        for late in (False, True)
    )
    assert spatial == {1, 2}
    assert early == {0, 3}  # batch and channels


def test_they_are_taken_where_nothing_else_helps() -> None:
    auto = partir.AutomaticPartition("X", evaluations=30)
    args = image(1)
    done = partir.partition(convolved, {"X": 8}, [auto], args=args, device="tpu_v3")
    assert "X" in tuple(done.in_specs[0])[1:3]
