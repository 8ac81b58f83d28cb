"""The demo's model: a small decoder-only transformer with Adam, in plain JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

Tree = dict[str, Any]

WIDTH, HEADS, HIDDEN, VOCABULARY, LENGTH, BATCH = 64, 4, 128, 128, 32, 16


def init(layers: int, key: jax.Array) -> tuple[Tree, Tree]:
    """Parameters and Adam's state."""
    shapes = {
        "qkv": (WIDTH, 3, HEADS, WIDTH // HEADS),
        "out": (HEADS, WIDTH // HEADS, WIDTH),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
    }
    keys = iter(jax.random.split(key, 4 * layers + 1))
    scale = 1 / WIDTH**0.5
    params: Tree = {
        "embedding": scale * jax.random.normal(next(keys), (VOCABULARY, WIDTH))
    }
    for number in range(layers):
        layer = {n: scale * jax.random.normal(next(keys), s) for n, s in shapes.items()}
        layer["norm1"] = layer["norm2"] = jnp.ones(WIDTH, layer["up"].dtype)
        params[f"layer_{number}"] = layer
    zeros = jax.tree.map(jnp.zeros_like, params)
    return params, {"mu": zeros, "nu": zeros, "count": jnp.zeros((), jnp.int32)}


def _norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    return scale * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def _attention(layer: Tree, x: jax.Array) -> jax.Array:
    q, k, v = jnp.moveaxis(jnp.einsum("bsd,dthk->bsthk", x, layer["qkv"]), 2, 0)
    scores = jnp.einsum("bshk,bthk->bhst", q, k) / (WIDTH // HEADS) ** 0.5
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    return jnp.einsum("bhst,bthk,hkd->bsd", weights, v, layer["out"])


def _loss(params: Tree, tokens: jax.Array, targets: jax.Array) -> jax.Array:
    x = params["embedding"][tokens]
    for name in sorted(n for n in params if n.startswith("layer_")):
        layer = params[name]
        x = x + _attention(layer, _norm(x, layer["norm1"]))
        hidden = jax.nn.gelu(_norm(x, layer["norm2"]) @ layer["up"])
        x = x + hidden @ layer["down"]
    logits = jnp.einsum("bsd,vd->bsv", x, params["embedding"])
    chosen = jax.nn.one_hot(targets, logits.shape[-1], dtype=logits.dtype)
    losses: jax.Array = jnp.sum(chosen * jax.nn.log_softmax(logits), -1)
    mean: jax.Array = -jnp.mean(losses)
    return mean


def train_step(
    params: Tree, opt_state: Tree, tokens: jax.Array, targets: jax.Array
) -> tuple[Tree, Tree, jax.Array]:
    """One step of Adam on next-token prediction."""
    loss, grads = jax.value_and_grad(_loss)(params, tokens, targets)
    count = opt_state["count"] + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt_state["mu"], grads)
    nu = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, opt_state["nu"], grads)

    def update(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        first = m / (1 - 0.9**count)
        second = v / (1 - 0.99**count)
        new: jax.Array = p - 3e-3 * first / (jnp.sqrt(second) + 1e-8)
        return new

    params = jax.tree.map(update, params, mu, nu)
    return params, {"mu": mu, "nu": nu, "count": count}, loss


def batch(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Tokens and the tokens that follow them."""
    tokens = jax.random.randint(key, (BATCH, LENGTH + 1), 0, VOCABULARY)
    return tokens[:, :-1], tokens[:, 1:]
