"""Adam for any tree of parameters, and the training step of any loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

Params = Any
OptState = dict[str, Any]

LEARNING_RATE = 1e-3
BETA1, BETA2, EPSILON = 0.9, 0.95, 1e-8


def init_optimizer(params: Params) -> OptState:
    """Adam's state before the first step."""
    return {
        "mu": jax.tree.map(jnp.zeros_like, params),
        "nu": jax.tree.map(jnp.zeros_like, params),
        "count": jnp.zeros((), jnp.int32),
    }


def adam(params: Params, grads: Params, state: OptState) -> tuple[Params, OptState]:
    """One step of Adam with bias correction; reads each gradient elementwise."""
    count = state["count"] + 1
    steps = count.astype(jnp.float32)
    unbias1, unbias2 = 1 - BETA1**steps, 1 - BETA2**steps
    mu = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, state["mu"], grads)
    nu = jax.tree.map(lambda n, g: BETA2 * n + (1 - BETA2) * g * g, state["nu"], grads)

    def update(p: Array, m: Array, n: Array) -> Array:
        return p - LEARNING_RATE * (m / unbias1) / (jnp.sqrt(n / unbias2) + EPSILON)

    params = jax.tree.map(update, params, mu, nu)
    return params, {"mu": mu, "nu": nu, "count": count}


def cast(tree: Any, dtype: DTypeLike | None) -> Any:
    """Floating-point leaves in another format; all as they are if there is none."""
    if dtype is None:
        return tree
    return jax.tree.map(
        lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree
    )


def train_with(
    loss_fn: Callable[..., Array], compute_dtype: DTypeLike | None = None
) -> Callable[..., Any]:
    """The training step of ``loss_fn(params, *batch)`` with Adam.

    With ``compute_dtype``, the loss sees parameters and batch in that format; gradients
    and the optimiser keep the parameters' own (mixed precision).
    """

    def computed(params: Params, *batch: Array) -> Array:
        return loss_fn(cast(params, compute_dtype), *cast(batch, compute_dtype))

    def train_step(params: Params, opt_state: OptState, *batch: Array) -> Any:
        loss, grads = jax.value_and_grad(computed)(params, *batch)
        params, opt_state = adam(params, grads, opt_state)
        return params, opt_state, loss

    return train_step


def structs(shapes: dict[str, Any], dtype: DTypeLike = jnp.float32) -> dict[str, Any]:
    """A tree of shapes as ``jax.ShapeDtypeStruct``s."""
    return {
        name: structs(shape, dtype)
        if isinstance(shape, dict)
        else jax.ShapeDtypeStruct(shape, dtype)
        for name, shape in shapes.items()
    }


def training_args(shapes: dict[str, Any], *batch: Any) -> tuple[Any, ...]:
    """Shapes of a training step's arguments."""
    return *training_state(structs(shapes)), *batch


def training_state(params: Any) -> tuple[Any, Any]:
    """Shapes of parameters with those of the optimiser's state."""
    return params, jax.eval_shape(init_optimizer, params)
