"""The MLP as jax users shard it: constraints in the model, a table of shardings.

The same numbers as ``mlp``'s. What is written here and not there is what a schedule
says in its stead: batch over B, hidden layers over M, parameters and the optimiser's
state over B as well (BP+MP+Z3).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from benchmarks.models.training import train_with


def loss_for(mesh: Mesh) -> Any:
    """Mean squared error of a residual MLP, constrained."""

    def keep(value: Array, *spec: Any) -> Array:
        return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, P(*spec)))

    def loss_fn(params: dict[str, Any], x: Array, y: Array) -> Array:
        """Mean squared error of a residual MLP."""
        x = keep(x, "B", None)
        for block in params.values():
            up = keep(block["up"], None, "M")
            down = keep(block["down"], "M", None)
            hidden = keep(jax.nn.relu(x @ up + block["bias"]), "B", "M")
            x = keep(x + hidden @ down, "B", None)
        return jnp.mean((x - y) ** 2)

    return loss_fn


def shardings(mesh: Mesh, args: Any) -> Any:
    """Of the step's arguments; the first two are those of its results."""
    specs = {"up": P("B", "M"), "bias": P("M"), "down": P(("M", "B"), None)}

    def of_parameter(path: Any, _: Any) -> NamedSharding:
        return NamedSharding(mesh, specs.get(getattr(path[-1], "key", ""), P()))

    params, state, *batch = args
    rows = [NamedSharding(mesh, P("B", None)) for _ in batch]
    kept = [jax.tree_util.tree_map_with_path(of_parameter, t) for t in (params, state)]
    return (*kept, *rows)


def step_for(mesh: Mesh) -> Any:
    """The training step."""
    return train_with(loss_for(mesh))
