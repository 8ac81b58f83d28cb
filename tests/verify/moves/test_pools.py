"""Gradients of pools with padding around them, which has numbers."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

import partir

F32 = jax.ShapeDtypeStruct((8, 9, 4), "float32")
BATCH = partir.ManualPartition({"x": 0}, axis="B")


def pooled(x: Array) -> Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 1), (1, 2, 1), "SAME")


def gradient(x: Array) -> Array:
    found: Array = jax.grad(lambda x: jnp.sum(jnp.sin(pooled(x))))(x)
    return found


@pytest.fixture
def partitioned() -> partir.Partitioned:
    return partir.partition(gradient, {"B": 4}, [BATCH], args=(F32,))


def test_it_is_proved(partitioned: partir.Partitioned) -> None:
    assert "select_and_scatter" in partitioned.stablehlo()
    assert partitioned.verify().proved == ("out",)


CUT = "start_indices = array<i64: 0, {}, 0>, limit_indices = array<i64: 2, {}, 4>"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("dense<0xFF800000>", "dense<0x7F800000>", id="numbers"),
        pytest.param(CUT.format(1, 10), CUT.format(0, 9), id="cut-off"),
    ],
)
def test_another_padding_is_not(
    partitioned: partir.Partitioned, right: str, wrong: str
) -> None:
    before, found, after = partitioned.stablehlo().rpartition(right)
    assert found
    assert partitioned.proof(before + wrong + after).not_proved


def test_devices_know_of_no_normal_form() -> None:
    """A mark says in the source that padding has numbers; XLA pads with zeros."""
    shapes = [jax.ShapeDtypeStruct((n,), "float32") for n in (8, 4)]

    def given(x: Array, g: Array) -> Array:
        window = ((3,), (2,), ((1, 1),))
        _, back = jax.vjp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, *window), x)
        found: Array = back(g)[0]
        return found

    p = partir.partition(given, {"B": 4}, [], args=shapes)
    text, strides = p.stablehlo(), "window_strides = array<i64: 2>"
    padded, made, cut = (
        re.search(rf'(%\w+) = "stablehlo.{op}".*\n', text)
        for op in ("pad", "select_and_scatter", "slice")
    )
    assert padded is not None
    assert made is not None
    assert cut is not None
    marked = (
        text.replace(padded[0], "")
        .replace(cut[0], "")
        .replace(f"({padded[1]}, ", "(%arg0, ")
        .replace(f"({cut[1]})", f"({made[1]})")
        .replace("tensor<10xf32>", "tensor<8xf32>")
        .replace(
            strides, f"{strides}, padding = dense<1> : tensor<1x2xi64>, partir.formed"
        )
    )
    assert not p.proof().not_proved
    assert "normal form" in p.proof(marked).not_proved[0].reason
