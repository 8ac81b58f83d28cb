"""Small training steps with every kind of structure that costs differ by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import partir

f32 = jax.ShapeDtypeStruct

BATCH = partir.ManualPartition({"x": 0}, axis="B", name="BP")
MODEL = partir.ManualPartition({"params/up": 1}, axis="M", name="MP")
STACKED = partir.ManualPartition({"params/up": 2}, axis="M", name="MP")
SHARDED = partir.ManualPartition(
    {"params/**": partir.FIRST_DIVISIBLE_DIM}, axis="B", name="Z3"
)
MESH = {"B": 4, "M": 2}


def block(params: dict[str, Any], x: Any) -> Any:
    return x + jax.nn.gelu(x @ params["up"]) @ params["down"]


def step(params: dict[str, Any], x: Any) -> Any:
    def loss(params: dict[str, Any]) -> Any:
        y = block(params, x)
        y = y - y.mean(-1, keepdims=True)
        return jnp.mean(jax.nn.softmax(y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def args(width: int = 64, hidden: int = 256, batch: int = 128) -> tuple[Any, ...]:
    params = {
        "up": f32((width, hidden), "float32"),
        "down": f32((hidden, width), "float32"),
    }
    return params, f32((batch, width), "float32")


def looped(count: int) -> Callable[..., Any]:
    def run(params: dict[str, Any], x: Any) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, x: block(params, x), x)

    return run


def partitioned(
    fn: Any = step, schedule: Any = (BATCH, MODEL), mesh: Any = None, **options: Any
) -> partir.Partitioned:
    options.setdefault("args", args())
    options.setdefault("device", "tpu_v5e")
    return partir.partition(fn, mesh or MESH, schedule, **options)
