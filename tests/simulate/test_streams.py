"""Collectives beside computation: across iterations of loops, and part by part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir

LAYERS, WIDTH = 12, 2048
TPU = replace(partir.devices["tpu_v5e"], overlap_cost=0.0)


def layers(weights: Any, x: Any) -> Any:
    """Products of a loop, whose weights are gathered one after another."""
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]


def estimate(rows: int, device: partir.DeviceSpec = TPU) -> Any:
    weights = jax.ShapeDtypeStruct((LAYERS, WIDTH, WIDTH), "bfloat16")
    x = jax.ShapeDtypeStruct((rows, WIDTH), "bfloat16")
    tactics = [
        partir.ManualPartition({"x": 0}, axis="B"),
        partir.ManualPartition({"weights": 1}, axis="B"),
    ]
    mesh = partir.Mesh({"B": 8})
    made = partir.partition(layers, mesh, tactics, args=(weights, x))
    assert made.collectives["all_gather"] == LAYERS
    return made.estimate_on(device)


def test_weights_of_the_next_iteration_are_gathered_during_this_one() -> None:
    found = estimate(rows=2**17)
    assert found.compute_seconds > 2 * found.communication_seconds
    # Only the first iteration has nothing to gather behind.
    first = found.communication_seconds / LAYERS
    assert found.seconds == pytest.approx(found.compute_seconds + first, rel=0.02)


def test_what_can_not_be_hidden_counts() -> None:
    found = estimate(rows=2**11)
    assert found.compute_seconds < found.communication_seconds / 2
    assert found.communication_seconds <= found.seconds
    assert found.seconds < found.communication_seconds + found.compute_seconds


def test_nothing_is_hidden_where_collectives_do_not_overlap() -> None:
    found = estimate(rows=2**17, device=replace(TPU, overlap=False))
    total = found.compute_seconds + found.communication_seconds
    assert found.seconds == pytest.approx(total)


def two_products(x: Any, up: Any, down: Any) -> Any:
    return (x @ up) @ down


def of_products(in_parts: bool) -> Any:
    x = jax.ShapeDtypeStruct((2**14, WIDTH), "bfloat16")
    w = jax.ShapeDtypeStruct((WIDTH, WIDTH), "bfloat16")
    tactics = [
        partir.ManualPartition({"up": 1}, axis="M"),
        partir.ManualPartition({"x": 0}, axis="M", outputs={"out": 0}),
    ]
    made = partir.partition(
        two_products, partir.Mesh({"M": 8}), tactics, args=(x, w, w)
    )
    assert made.collectives["all_gather"] == made.collectives["reduce_scatter"] == 1
    return made.estimate_on(replace(TPU, products_in_parts=in_parts))


def test_products_go_on_beside_what_is_gathered_and_scattered() -> None:
    whole, parts = of_products(False), of_products(True)
    assert whole.compute_seconds == parts.compute_seconds
    total = whole.compute_seconds + whole.communication_seconds
    assert whole.seconds == pytest.approx(total)
    longest = max(parts.compute_seconds, parts.communication_seconds)
    assert parts.seconds == pytest.approx(longest, rel=0.05)
