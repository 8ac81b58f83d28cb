"""Small problems, each built once from its model and made anew for each search."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

import partir
from benchmarks.models import mlp, transformer
from partir.ir.core import Program
from partir.mesh import Mesh
from partir.partition.graph import Graph
from partir.partition.state import State
from partir.search.problem import Problem
from partir.simulate.device.catalogue import devices


def sgd_step(params: dict[str, Any], x: Any, y: Any) -> Any:
    def loss(params: dict[str, Any]) -> Any:
        hidden = jax.nn.relu(x @ params["up"])
        return jnp.mean((hidden @ params["down"] - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def _sgd() -> Program:
    up = jax.ShapeDtypeStruct((512, 2048), "float32")
    down = jax.ShapeDtypeStruct((2048, 512), "float32")
    x = jax.ShapeDtypeStruct((1024, 512), "float32")
    return partir.trace(sgd_step, {"up": up, "down": down}, x, x)


def _mlp() -> Program:
    args = mlp.example_args(mlp.Config(blocks=4, width=512, hidden=2048))[0]
    return partir.trace(mlp.train_step, *args)


def _transformer() -> Program:
    config = transformer.Config.small(
        layers=3, width=256, head_dim=32, hidden=1024, vocab=1024, sequence=128
    )
    return partir.trace(transformer.train_step, *transformer.example_args(config)[0])


MODELS: dict[str, Callable[[], Program]] = {
    "sgd": _sgd,
    "mlp": _mlp,
    "transformer": _transformer,
}


@functools.cache
def program(name: str) -> Program:
    return MODELS[name]()


def problem(
    name: str,
    axes: Mapping[str, int],
    device: str = "tpu_v3",
    allowed: tuple[str, ...] | None = None,
    **options: Any,
) -> Problem:
    """Nothing decided, parameters and optimizer state donated."""
    source = program(name)
    some = None
    if allowed is not None:
        some = {p.value for p in source.arguments if p.name in allowed}
    return Problem(
        State(Graph(source), Mesh(axes)),
        tuple(axes),
        devices[device],
        [p.name.startswith(("params", "opt_state")) for p in source.arguments],
        allowed=some,
        **options,
    )
