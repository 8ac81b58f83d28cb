"""Arguments are kept until the gathered results that take their place are there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import jax
from jax import Array

import partir
from partir.spmd.export_policy import XLA_TPU
from partir.spmd.stablehlo.export import stablehlo_text

B4 = {"B": 4}
P = jax.ShapeDtypeStruct((16384, 4096), "float32")
STATE = partir.ManualPartition(
    {"params": partir.REPLICATED, "state": 0}, axis="B", name="Z2"
)
BARRIER = r'"stablehlo.optimization_barrier"\((%\w+), (%arg\d)\)'


def step(params: Array, state: Array) -> tuple[Array, Array]:
    state = state * 0.9
    return params - state, state


def partitioned(shape: Any = P, **options: Any) -> partir.Partitioned:
    return partir.partition(step, B4, [STATE], args=(shape, shape), **options)


def barriers(done: partir.Partitioned, keeps: bool = True) -> list[tuple[str, str]]:
    policy = replace(XLA_TPU, keeps_arguments=keeps)
    text = stablehlo_text(done.spmd, policy)
    assert not done.proof(text).not_proved
    return re.findall(BARRIER, text)


def test_a_gathered_result_comes_with_the_argument_that_it_succeeds() -> None:
    done = partitioned(donate_argnums=(0, 1))
    ((_, argument),) = barriers(done)
    assert argument == "%arg0"
    assert barriers(done, keeps=False) == []


def test_a_result_that_succeeds_nothing_comes_alone() -> None:
    assert barriers(partitioned(carry={})) == []


def test_a_result_that_is_made_in_its_place_comes_alone() -> None:
    """Where parameters are tiles, nothing is gathered at the end of a step."""
    tiles = partir.ManualPartition({"params": 0, "state": 0}, axis="B", name="Z3")
    options = {"args": (P, P), "donate_argnums": (0, 1)}
    assert barriers(partir.partition(step, B4, [tiles], **options)) == []


def test_small_results_come_alone() -> None:
    """What fits beside the matrix units had better be free to go there."""
    small = jax.ShapeDtypeStruct((512, 512), "float32")
    assert barriers(partitioned(small, donate_argnums=(0, 1))) == []
