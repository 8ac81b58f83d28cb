"""Programs that the questions in `more_questions.py` are about: small, never run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir


def fused_projection(x: Array, w: Array) -> Array:
    q, k, v = jnp.split(x @ w, 3, -1)
    return jax.nn.relu(q) * k + v


def until_it_settles(x: Array, w: Array) -> Array:
    def unsettled(state: Any) -> Array:
        before, now = state
        return jnp.max(jnp.abs(now - before)) > 1e-3

    def body(state: Any) -> Any:
        return state[1], jnp.tanh(state[1] @ w)

    return lax.while_loop(unsettled, body, (x, jnp.tanh(x @ w)))[1]


def microbatches(params: Any, batches: Array) -> Any:
    def loss(params: Any, batch: Array) -> Array:
        hidden = jax.nn.relu(batch @ params["up"])
        return jnp.mean((hidden @ params["down"] - batch) ** 2)

    def add(total: Any, batch: Array) -> Any:
        grads = jax.grad(loss)(params, batch)
        return jax.tree.map(jnp.add, total, grads), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    total, _ = lax.scan(add, zeros, batches)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, total)


def token_losses(hidden: Array, table: Array, labels: Array) -> Array:
    logits = hidden @ table.T
    shifted = logits - lax.stop_gradient(logits.max(-1, keepdims=True))
    picked = jnp.take_along_axis(shifted, labels[:, None], -1)[:, 0]
    return jnp.log(jnp.exp(shifted).sum(-1)) - picked


def batch_statistics(x: Array, scale: Array) -> Array:
    mean = x.mean((0, 1, 2))
    variance = jnp.square(x - mean).mean((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale


def grouped_queries(q: Array, k: Array, v: Array) -> Array:
    k, v = (jnp.repeat(each, 4, axis=2) for each in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def sampled(hidden: Array, head: Array) -> Any:
    logits = hidden @ head
    return lax.top_k(logits, 40)


def layer_norm(x: Array, scale: Array, w: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return (
        (centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True))) * scale @ w
    )


def embed_step(table: Array, tokens: Array, targets: Array) -> Array:
    def loss(table: Array) -> Array:
        return jnp.mean((jnp.tanh(table[tokens]) - targets) ** 2)

    return table - 0.1 * jax.grad(loss)(table)


def with_class_token(x: Array, token: Array, w: Array) -> Array:
    first = jnp.broadcast_to(token, (x.shape[0], 1, x.shape[2]))
    return jnp.tanh(jnp.concatenate([first, x], 1) @ w)


def shuffled(x: Array, order: Array) -> Array:
    return jnp.tanh(x[order])


def running_total(x: Array) -> Array:
    return jnp.cumsum(jnp.tanh(x), axis=1)


def clipped_step(params: Any, x: Array) -> Any:
    def loss(params: Any) -> Array:
        return jnp.mean((jax.nn.relu(x @ params["up"]) @ params["down"]) ** 2)

    grads = jax.grad(loss)(params)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, 1.0 / norm)
    return jax.tree.map(lambda p, g: p - 0.1 * scale * g, params, grads)


def one_by_one(x: Array, w: Array) -> Array:
    return lax.map(lambda row: jnp.tanh(row @ w), x)


def blurred(image: Array, kernel: Array) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        image, kernel, (1, 1), "SAME", dimension_numbers=layout
    )


def solved(a: Array, b: Array) -> Array:
    return jnp.linalg.cholesky(a) @ b


def adapted(x: Array, w: Array, a: Array, b: Array) -> Array:
    return jax.nn.relu(x @ w + (x @ a) @ b)


def flat_tokens(x: Array, w: Array) -> Array:
    flat = x.reshape(-1, x.shape[-1])
    return jax.nn.softmax(flat @ w)


def dropped_out(x: Array, w: Array, key: Array) -> Array:
    hidden = jax.nn.relu(x @ w)
    kept = jax.random.bernoulli(key, 0.9, hidden.shape)
    return jnp.where(kept, hidden, 0.0)


def quantised(x: Array, w: Array) -> Array:
    scale = jnp.max(jnp.abs(w), axis=0)
    return (x @ jnp.round(w / scale)) * scale


def distances(x: Array, y: Array) -> Array:
    return jnp.sum((x[:, None] - y[None]) ** 2, -1)


def ranked(scores: Array) -> Array:
    order = jnp.argsort(scores, axis=-1)
    return jnp.take_along_axis(scores, order, -1)


def tower(params: Any, x: Array) -> Array:
    with jax.named_scope("encoder"):
        x = jnp.tanh(x @ params["encoder"])
    with jax.named_scope("decoder"):
        return jnp.tanh(x @ params["decoder"])


def symmetric(x: Array, w: Array) -> Array:
    return (x @ w) + (x @ w).T


def tied_step(w: Array, x: Array) -> Array:
    grads = jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    return w - 0.1 * grads.T.T


def opaque_norm(x: Array, w: Array) -> Array:
    def norm(x: Array) -> Array:
        return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True))

    return partir.opaque(norm, "b s _ -> b s _")(x) @ w


def staged(params: Any, x: Array) -> Array:
    def body(layer: Any, h: Array) -> Array:
        return jnp.tanh(h @ layer["w"])

    return partir.pipelined(body, stages=4, microbatches=8)(params, x)


def one_key_for_all(q: Array, keys: Array, values: Array) -> Array:
    weights = jax.nn.softmax(jnp.einsum("bhd,btd->bht", q, keys))
    return jnp.einsum("bht,btd->bhd", weights, values)


def scanned_step(stack: Array, x: Array) -> Any:
    def loss(stack: Array) -> Array:
        out = lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, stack)[0]
        return jnp.mean(out**2)

    return stack - 0.1 * jax.grad(loss)(stack)


def in_twelve_heads(x: Array, w: Array) -> Array:
    heads = (x @ w).reshape(x.shape[0], 12, 64)
    return jax.nn.softmax(jnp.einsum("thd,shd->hts", heads, heads))


def pooled(image: Array, kernel: Array, head: Array) -> Array:
    features = jax.nn.relu(blurred(image, kernel))
    return features.mean((1, 2)) @ head


def joined_halves(a: Array, b: Array, w: Array) -> Array:
    return jnp.tanh(jnp.concatenate([a, b], 0) @ w)


def masked_mean(x: Array, keep: Array, w: Array) -> Array:
    hidden = jnp.tanh(x @ w) * keep[:, None]
    return hidden.sum(0) / keep.sum()
