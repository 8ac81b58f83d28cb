"""Sums over repetitions whose terms alone are in memory, against the whole program."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax.numpy as jnp
import pytest

import partir
from partir.partition.graph import Graph
from partir.partition.state import State
from partir.search.problem import Problem
from partir.simulate.device.fusion_policy import FusionPolicy
from partir.simulate.estimate import Estimate
from partir.spmd.stages import lower_state
from tests.simulate import models

LAYERS = 12


def residual(params: list[Any], x: Any) -> Any:
    """A sum that only cheap ops read, so that nobody needs it in memory."""
    y = jnp.tanh(x)
    for w in params:
        y = y + jnp.maximum(y, 0) @ w
    return jnp.tanh(y)


def normalised(params: list[Any], x: Any) -> Any:
    """A sum that a reduction reads as well as others."""
    y = jnp.tanh(x)
    for w in params:
        y = y + (y - y.mean(-1, keepdims=True)) @ w
    return jnp.tanh(y)


@cache
def started(step: Any) -> State:
    w, x = models.f32((16, 16), "float32"), models.f32((4096, 16), "float32")
    program = partir.trace(step, [w] * LAYERS, x)
    return State(Graph(program), partir.Mesh({"B": 1}))


def estimates(step: Any, policy: FusionPolicy) -> tuple[Estimate, Estimate]:
    device = replace(partir.devices["tpu_v3"], fusion=policy)
    start = started(step)
    given = [False] * len(start.graph.program.arguments)
    problem = Problem(start, ("B",), device, given)
    return problem.estimate(problem.start), Estimate(lower_state(start), device, given)


@pytest.mark.parametrize("most", [1, 2, 5, 8, 20])
def test_terms_in_memory_are_those_of_the_whole(most: int) -> None:
    folded, whole = estimates(residual, FusionPolicy(most_kernels=most))
    assert folded.peak_bytes == pytest.approx(whole.peak_bytes, rel=0.01)
    ((term, _),) = set(folded._kernels.terms.values())
    assert term == most


def test_more_is_in_memory_if_more_kernels_compute_the_sum() -> None:
    few, many = (
        estimates(residual, FusionPolicy(most_kernels=most))[0].temporary_bytes
        for most in (2, 8)
    )
    assert many > 2 * few


def test_what_a_reduction_reads_too_is_written() -> None:
    folded, whole = estimates(normalised, FusionPolicy())
    assert not folded._kernels.terms
    assert folded.peak_bytes == pytest.approx(whole.peak_bytes, rel=0.01)
