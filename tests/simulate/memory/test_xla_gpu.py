"""Temporaries beside XLA's on GPUs, where one rule at a time decides.

Figures are those of jax 0.10.2 and jax-cuda12-pjrt 0.10.2, compiled for one H100 with
the options of `benchmarks/compilers.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir

H100 = partir.devices["h100"]
MIB = 2**20

Change = Callable[[partir.DeviceSpec], partir.DeviceSpec]


def fusion(**changes: Any) -> Change:
    return lambda device: replace(
        device, fusion=replace(device.fusion, name="", **changes)
    )


def spec(**changes: Any) -> Change:
    return lambda device: replace(device, **changes)


def perceptron(activation: Callable[[Any], Any]) -> Callable[..., Any]:
    """Gradients of two weights."""

    def loss(x: Any, up: Any, down: Any) -> Any:
        return jnp.sum((activation(x @ up) @ down).astype(jnp.float32) ** 2)

    return jax.grad(loss, argnums=(1, 2))


def softmax(x: Any, up: Any, _: Any) -> Any:
    """Gradient of a weight by what it gives to one class."""

    def loss(up: Any) -> Any:
        scores = (x @ up).astype(jnp.float32)
        return jnp.sum(jax.nn.logsumexp(scores, -1) - scores[:, 0])

    return jax.grad(loss)(up)


def embedded(table: Any, w: Any) -> Any:
    """Gradient of a table that is looked up and multiplied."""

    def loss(table: Any) -> Any:
        rows = table[jnp.arange(0, 8192, 16)]
        return jnp.sum(jnp.tanh(rows @ table.T) ** 2) + jnp.sum(rows @ w)

    return jnp.sort(jax.grad(loss)(table), 0)


def exact_gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=False)


@pytest.mark.parametrize(
    ("step", "dtype", "taken", "without"),
    [
        (perceptron(jnp.tanh), "float32", 304, spec(product_bytes=0)),
        (perceptron(jnp.tanh), "bfloat16", 168, spec(product_bytes=0)),
        (perceptron(jax.nn.sigmoid), "float32", 304, spec(product_bytes=0)),
        (perceptron(jax.nn.softplus), "float32", 432, spec(product_bytes=0)),
        (perceptron(jax.nn.silu), "float32", 384, fusion(roles=())),
        (perceptron(jax.nn.silu), "bfloat16", 192, fusion(roles=())),
        (perceptron(jax.nn.gelu), "float32", 384, spec(over_fused=False)),
        (perceptron(jax.nn.gelu), "bfloat16", 256, fusion(narrow_roles=())),
        (perceptron(exact_gelu), "float32", 512, fusion(prefers_sources=False)),
        (perceptron(exact_gelu), "bfloat16", 256, fusion(prefers_sources=False)),
        (softmax, "bfloat16", 128, fusion(keeps_sources=False)),
    ],
)
def test_a_rule_of_the_compiler_is_what_it_takes(
    step: Callable[..., Any], dtype: str, taken: int, without: Change
) -> None:
    shapes = (8192, 512), (512, 4096), (4096, 512)
    args = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape in shapes)
    done = partir.partition(step, {"B": 1}, [], args=args, device=H100)
    assert done.estimate.temporary_bytes / MIB == pytest.approx(taken, abs=0.5)
    other = done.estimate_on(without(H100)).temporary_bytes / MIB
    assert other != pytest.approx(taken, abs=0.5)


def test_what_is_scattered_is_scattered_into_the_sum() -> None:
    shapes = (8192, 4096), (4096, 512)
    args = tuple(jax.ShapeDtypeStruct(shape, "float32") for shape in shapes)
    done = partir.partition(embedded, {"B": 1}, [], args=args, device=H100)
    assert done.estimate.temporary_bytes == 128 * MIB  # and so by XLA
    apart = fusion(scatters_into_sums=False)(H100)
    assert done.estimate_on(apart).temporary_bytes == 256 * MIB
