"""Preparations for compilers: what stands before a collective, and what behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import pytest
from jax import Array

import partir
from partir.spmd.export_policy import PLAIN, XLA_TPU
from partir.spmd.preparations.gathered_results import gather_results
from partir.spmd.preparations.major_scatters import (
    order_before_sums,
    scatter_major_dimensions,
)
from partir.spmd.preparations.prepare import prepared
from partir.spmd.rewrites.sweep import collectives_of
from partir.spmd.rewrites.table import scatter_reduced_slices
from tests.programs import Tactic
from tests.spmd.lowered import B4M2, M2, W, X, Y, lowered

pytestmark = pytest.mark.usefixtures("x64")


# scatter_major_dimensions


def gradient(x: Array, y: Array) -> Array:
    """A weight's gradient, as jax writes it: made transposed."""
    return jnp.transpose(jnp.einsum("bi,bo->oi", x, y))


def scattered(dim: int) -> Sequence[Tactic]:
    return [("M", {"x": 0, "y": 0, "result0": dim})]


@pytest.mark.identity("moved")
def test_what_is_made_transposed_is_scattered_in_order() -> None:
    case = lowered(gradient, X, Y, axes=M2, tactics=scattered(0))
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", "reduce_scatter 1 M", "transpose"]
    made = case.after(scatter_reduced_slices, scatter_major_dimensions)
    assert made == ["dot_general", "transpose", "reduce_scatter 0 M"]


def test_a_scattered_dimension_does_not_become_a_minor_one() -> None:
    case = lowered(gradient, X, Y, axes=M2, tactics=scattered(1))
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", "reduce_scatter 0 M", "transpose"]
    assert case.after(scatter_reduced_slices, scatter_major_dimensions) == made


@pytest.mark.identity("moved")
def test_what_is_made_transposed_is_reduced_in_order() -> None:
    case = lowered(gradient, X, Y, axes=M2, tactics=[("M", {"x": 0, "y": 0})])
    assert case.steps == ["dot_general", "all_reduce M", "transpose"]
    made = case.after(order_before_sums)
    assert made == ["dot_general", "transpose", "all_reduce M"]


def test_a_scatter_that_is_read_twice_stays() -> None:
    def twice(x: Array, y: Array) -> tuple[Array, Array]:
        made = jnp.einsum("bi,bo->oi", x, y)
        return made, made.T

    case = lowered(twice, X, Y, axes=M2, tactics=scattered(1))
    assert "transpose" in case.steps
    made = case.after(scatter_reduced_slices)
    assert case.after(scatter_reduced_slices, scatter_major_dimensions) == made


# gather_results


def updated(p: Array, m: Array) -> Array:
    """A parameter that is whole and an update that is not."""
    return p - 0.1 * m


STATE: Mapping[str, Any] = {
    "axes": M2,
    "tactics": [("M", {"m": 0})],
    "whole": {"p": "M", "result0": "M"},
}


@pytest.mark.identity("again")
def test_a_result_is_made_of_tiles_and_gathered() -> None:
    case = lowered(updated, X, W, **STATE)
    assert case.steps == ["multiply", "all_gather 0 M", "subtract"]
    made = case.after(gather_results)
    assert made == ["multiply", "all_slice 0 M", "subtract", "all_gather 0 M"]


@pytest.mark.identity("again")
def test_a_gather_sinks_below_several_ops() -> None:
    def rounded(p: Array, m: Array) -> Array:
        return jnp.sqrt(jnp.abs(p - m)).T

    case = lowered(rounded, X, W, **STATE)
    assert case.steps[0] == "all_gather 0 M"
    moves = ["all_slice 0 M", "subtract", "abs", "sqrt", "transpose", "all_gather 1 M"]
    assert case.after(gather_results) == moves


def test_what_would_be_gathered_in_a_wider_type_stays() -> None:
    def widened(p: Array, m: Array) -> Array:
        return p - m.astype(jnp.float64)

    m = W.astype(jnp.float32)
    case = lowered(widened, X, m, **STATE, gathered={"m": "M"})
    assert case.steps == ["all_gather 0 M", "convert", "subtract"]
    assert case.after(gather_results) == case.steps


def test_what_is_read_again_is_gathered_as_it_was() -> None:
    def used(p: Array, m: Array) -> tuple[Array, Array]:
        new = p - m
        return new, new @ new

    case = lowered(used, X, W, **STATE)
    assert case.after(gather_results) == case.steps


# Policies


KINDS = ('.transpose"', "reduce_scatter", "all_gather", ".subtract")


def test_collectives_keep_the_values_that_they_make() -> None:
    case = lowered(gradient, X, Y, axes=B4M2, tactics=scattered(0))
    assert prepared(case.spmd, PLAIN) is case.spmd
    before = {op.result for op in collectives_of(case.spmd.body.ops)}
    made = prepared(case.spmd, XLA_TPU)
    after = {
        op.result for op in collectives_of(made.body.ops) if op.kind != "all_slice"
    }
    assert after <= before


def test_for_tpus_both_are_done_and_proved() -> None:
    def step(p: Array, m: Array, x: Array, y: Array) -> tuple[Array, Array]:
        m = 0.9 * m + gradient(x, y)
        return p - m, m

    arguments = (X, W, X, Y)
    tactics = [
        partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP"),
        partir.ManualPartition({"m": 0, "p": partir.REPLICATED}, axis="B", name="Z2"),
    ]
    texts = {}
    for device in ("h100", "tpu_v5e"):
        done = partir.partition(step, {"B": 4}, tactics, args=arguments, device=device)
        assert done.verify().proved
        assert done.estimate.alive_at_peak
        texts[device] = [
            line.split('"')[1].removeprefix("stablehlo.")
            for line in done.stablehlo().splitlines()
            if any(kind in line for kind in KINDS)
        ]
    assert texts["h100"] == ["reduce_scatter", "transpose", "subtract", "all_gather"]
    assert texts["tpu_v5e"] == ["transpose", "reduce_scatter", "subtract", "all_gather"]
