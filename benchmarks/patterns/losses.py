"""Losses, vocabularies, classes, contrasts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from benchmarks.patterns.pattern import f32, i32, pattern


def cross_entropy(logits: Array, labels: Array) -> Array:
    """Of each label."""
    picked = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
    return jax.nn.logsumexp(logits, -1) - picked


@pattern(f32(8, 16, 64), f32(50304, 64), i32(8, 16), tiled={"table": 0})
def odd_vocabulary_in_a_padded_table(h: Array, table: Array, labels: Array) -> Array:
    return cross_entropy((h @ table.T)[..., :50257], labels).mean()


@pattern(f32(4, 256, 32), f32(32, 512), i32(4, 256), tiled={"h": 1, "labels": 1})
def shifted_loss_with_a_mask(h: Array, w: Array, labels: Array) -> Array:
    losses = cross_entropy((h @ w)[:, :-1], labels[:, 1:])
    mask = labels[:, 1:] != 0
    return jnp.sum(losses * mask) / jnp.sum(mask)


@pattern(f32(64, 32), f32(32, 4096), tiled={"w": 1})
def best_logits(h: Array, w: Array) -> Array:
    return lax.top_k(h @ w, 8)[0]


@pattern(f32(16, 4, 2048), tiled={"logits": 2})
def beam_step(logits: Array) -> tuple[Array, Array]:
    flat = jax.nn.log_softmax(logits).reshape(16, 4 * 2048)
    return jnp.max(flat, -1), jnp.argmax(flat, -1) // 2048


@pattern(f32(32, 4096), tiled={"logits": 1})
def nucleus(logits: Array) -> Array:
    chances = -jnp.sort(-jax.nn.softmax(logits), -1)
    before = jnp.cumsum(chances, -1) - chances
    return jnp.sum(jnp.where(before < 0.9, chances, 0), -1)


@pattern(f32(128, 1024), i32(128), tiled={"logits": 1})
def smoothed_labels(logits: Array, labels: Array) -> Array:
    wanted = jax.nn.one_hot(labels, 1024) * 0.9 + 0.1 / 1024
    return -jnp.mean(jnp.sum(wanted * jax.nn.log_softmax(logits), -1))


@pattern(f32(128, 1024), i32(128), tiled={"logits": 1})
def accuracy_and_penalty(logits: Array, labels: Array) -> tuple[Array, Array]:
    right = jnp.mean(jnp.argmax(logits, -1) == labels)
    return right, jnp.mean(jax.nn.logsumexp(logits, -1) ** 2)


@pattern(f32(512, 16), f32(256, 16), tiled={"x": 0})
def nearest_neighbour(x: Array, points: Array) -> Array:
    squares = (x**2).sum(-1)[:, None] - 2 * x @ points.T + (points**2).sum(-1)
    return points[jnp.argmin(squares, -1)]


@pattern(f32(512, 16), f32(256, 16), tiled={"codes": 0})
def vector_quantisation(x: Array, codes: Array) -> Array:
    squares = -2 * x @ codes.T + (codes**2).sum(-1)
    chosen = codes[jnp.argmin(squares, -1)]
    loss = jnp.mean((lax.stop_gradient(chosen) - x) ** 2)
    return x + lax.stop_gradient(chosen - x), loss


@pattern(f32(4096, 32), i32(256), tiled={"table": 0})
def one_hot_product(table: Array, labels: Array) -> Array:
    return jax.nn.one_hot(labels, 4096) @ table


@pattern(f32(256, 32), f32(256, 32), tiled={"a": 0, "b": 0})
def two_views_of_a_batch(a: Array, b: Array) -> Array:
    both = jnp.concatenate([a, b])
    both = both / jnp.linalg.norm(both, axis=-1, keepdims=True)
    alike = both @ both.T / 0.1 - 1e9 * jnp.eye(512)
    other = jnp.roll(jnp.arange(512), 256)
    return cross_entropy(alike, other).mean()


@pattern(f32(256, 32), f32(256, 32), tiled=[{"a": 0, "b": 0}])
def pairs_by_sigmoid(a: Array, b: Array) -> Array:
    signs = 2 * jnp.eye(256) - 1
    return -jnp.mean(jax.nn.log_sigmoid(signs * (a @ b.T)))


@pattern(f32(128, 32), f32(128, 32), f32(128, 32), tiled={"x": 0, "y": 0, "z": 0})
def triplets_by_roll(x: Array, y: Array, z: Array) -> Array:
    far = jnp.sum((x - jnp.roll(z, 16, 0)) ** 2, -1)
    return jnp.mean(jax.nn.relu(jnp.sum((x - y) ** 2, -1) - far + 1))


@pattern(f32(1024, 8), i32(1024), tiled={"x": 0, "bins": 0})
def histogram(x: Array, bins: Array) -> Array:
    return jax.ops.segment_sum(x, bins, 64)


@pattern(f32(1024), i32(1024), tiled={"scores": 0, "nodes": 0})
def softmax_by_segment(scores: Array, nodes: Array) -> Array:
    top = jax.ops.segment_max(scores, nodes, 64)
    powers = jnp.exp(scores - lax.stop_gradient(top)[nodes])
    return powers / jax.ops.segment_sum(powers, nodes, 64)[nodes]


@pattern(f32(512, 64), i32(512, 8), tiled={"x": 0, "at": 0})
def entries_of_tiled_rows(x: Array, at: Array) -> Array:
    return jnp.take_along_axis(x, at, 1)
