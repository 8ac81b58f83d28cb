"""A step of MuZero: mctx searches, the policy learns what it found."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mctx
from jax import Array

from benchmarks.zoo.case import Case, drawn, floats, tactics, training_case

BATCH, WIDTH, ACTIONS = 8, 16, 4
SHAPES = {
    "dynamics": (WIDTH + ACTIONS, WIDTH),
    "policy": (WIDTH, ACTIONS),
    "reward": (WIDTH,),
    "value": (WIDTH,),
}


def _recurrent(params: Any, key: Array, action: Array, state: Array) -> Any:
    moved = jnp.concatenate([state, jax.nn.one_hot(action, ACTIONS)], axis=-1)
    state = jnp.tanh(moved @ params["dynamics"])
    output = mctx.RecurrentFnOutput(
        reward=state @ params["reward"],
        discount=jnp.full(action.shape, 0.9),
        prior_logits=state @ params["policy"],
        value=state @ params["value"],
    )
    return output, state


def gumbel_muzero() -> Case:
    """Search with Gumbel MuZero, then a step of the policy and value."""
    structs = {n: jax.ShapeDtypeStruct(s, jnp.float64) for n, s in SHAPES.items()}

    def loss(params: Any, state: Array, key: Array) -> Array:
        logits, value = state @ params["policy"], state @ params["value"]
        found = mctx.gumbel_muzero_policy(
            params=jax.lax.stop_gradient(params),
            rng_key=key,
            root=mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state),
            recurrent_fn=_recurrent,
            num_simulations=4,
        )
        weights = jax.lax.stop_gradient(found.action_weights)
        reached = jax.lax.stop_gradient(found.search_tree.summary().value)
        policy = jnp.sum(weights * jax.nn.log_softmax(logits), axis=-1)
        return jnp.mean((value - reached) ** 2 - policy)

    batch = floats(0, BATCH, WIDTH), jax.random.PRNGKey(0)
    schedule = tactics({"batch/0": 0}, {"params/dynamics": 1})
    return training_case(loss, drawn(structs), batch, schedule)
