"""Attention and what stands around it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from benchmarks.patterns.pattern import f32, i32, pattern

HEADS = f32(2, 512, 4, 16)


def scores(q: Array, k: Array) -> Array:
    """Of every query with every key."""
    return jnp.einsum("...qhd,...khd->...hqk", q, k) / q.shape[-1] ** 0.5


def mixed(weights: Array, v: Array) -> Array:
    """Values by their weights."""
    return jnp.einsum("...hqk,...khd->...qhd", weights, v)


def attend(q: Array, k: Array, v: Array) -> Array:
    """Every query sees every key."""
    return mixed(jax.nn.softmax(scores(q, k)), v)


@pattern(HEADS, HEADS, HEADS, tiled={"q": 1, "k": 1, "v": 1})
def blocks_and_the_block_before(q: Array, k: Array, v: Array) -> Array:
    q, k, v = (a.reshape(2, 16, 32, 4, 16) for a in (q, k, v))

    def with_earlier(a: Array) -> Array:
        earlier = jnp.pad(a[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))
        return jnp.concatenate([earlier, a], 2)

    return attend(q, with_earlier(k), with_earlier(v)).reshape(2, 512, 4, 16)


@pattern(f32(2, 64, 64, 16), f32(16, 48), tiled={"x": 1})
def shifted_windows(x: Array, w: Array) -> Array:
    x = jnp.roll(x, (-4, -4), (1, 2))
    x = x.reshape(2, 8, 8, 8, 8, 16).transpose(0, 1, 3, 2, 4, 5).reshape(2, 64, 64, 16)
    q, k, v = (a.reshape(2, 64, 64, 2, 8) for a in jnp.split(x @ w, 3, -1))
    return attend(q, k, v)


@pattern(f32(2, 4, 256, 512), tiled={"bias": 2})
def relative_shift(bias: Array) -> Array:
    padded = jnp.pad(bias, ((0, 0), (0, 0), (0, 0), (1, 0)))
    return padded.reshape(2, 4, 513, 256)[:, :, 1:].reshape(2, 4, 256, 512)[..., :257]


@pattern(HEADS, HEADS, HEADS, tiled={"q": 1})
def slopes_and_whole_keys(q: Array, k: Array, v: Array) -> Array:
    places = jnp.arange(512)
    distance = places[:, None] - places
    slopes = 2.0 ** -jnp.arange(1, 5)
    found = scores(q, k) - slopes[:, None, None] * distance
    return mixed(jax.nn.softmax(jnp.where(distance >= 0, found, -1e9)), v)


@pattern(f32(4, 256, 256), f32(4, 511), tiled={"scores": 1})
def relative_bias_table(scores: Array, table: Array) -> Array:
    places = jnp.arange(256)
    return jax.nn.softmax(scores + table[:, places[:, None] - places + 255])


@pattern(HEADS, HEADS, HEADS, tiled={"q": 1})
def keys_in_chunks(q: Array, k: Array, v: Array) -> Array:
    def step(carry: tuple[Array, Array, Array], chunk: tuple[Array, Array]):
        top, total, out = carry
        k, v = chunk
        found = scores(q, k)
        new = jnp.maximum(top, found.max(-1))
        weights, old = jnp.exp(found - new[..., None]), jnp.exp(top - new)
        total = total * old + weights.sum(-1)
        out = out * old.swapaxes(1, 2)[..., None] + mixed(weights, v)
        return (new, total, out), None

    chunks = tuple(a.reshape(2, 8, 64, 4, 16).swapaxes(0, 1) for a in (k, v))
    start = (jnp.full((2, 4, 512), -1e9), jnp.zeros((2, 4, 512)), jnp.zeros_like(q))
    (_, total, out), _ = lax.scan(step, start, chunks)
    return out / total.swapaxes(1, 2)[..., None]


@pattern(f32(8, 512, 4, 16), f32(8, 1, 4, 16), i32(), tiled={"cache": 1})
def cache_update(cache: Array, new: Array, at: Array) -> Array:
    cache = lax.dynamic_update_slice(cache, new, (0, at, 0, 0))
    return attend(new, cache, cache)


@pattern(f32(2, 512, 64), f32(64), tiled={"x": 1})
def attention_pooling(x: Array, query: Array) -> Array:
    return jnp.einsum("bl,bld->bd", jax.nn.softmax(x @ query), x)


@pattern(HEADS, HEADS, HEADS, tiled={"q": 1, "k": 1, "v": 1})
def linear_attention_in_chunks(q: Array, k: Array, v: Array) -> Array:
    q, k, v = (a.reshape(2, 16, 32, 4, 16) for a in (jax.nn.elu(q) + 1, k, v))
    outer = jnp.einsum("bnchd,bnche->bnhde", k, v)
    before = jnp.cumsum(outer, 1) - outer
    inner = jnp.where(jnp.tril(jnp.ones((32, 32), bool)), scores(q, k), 0)
    return mixed(inner, v) + jnp.einsum("bnchd,bnhde->bnche", q, before)


@pattern(f32(2, 256, 64), f32(64, 3 * 64), f32(64, 64), tiled=[{"w": 1}])
def fused_projections_by_index(x: Array, w: Array, out: Array) -> Array:
    q, k, v = jnp.moveaxis((x @ w).reshape(2, 256, 3, 8, 8), 2, 0)
    return attend(q, k, v).reshape(2, 256, 64) @ out


@pattern(f32(2, 256, 64), f32(64, 64 + 2 * 16), tiled={"w": 1})
def grouped_queries_from_one_weight(x: Array, w: Array) -> Array:
    q, k, v = jnp.split(x @ w, [64, 80], -1)
    q = q.reshape(2, 256, 8, 8)
    k, v = (jnp.repeat(a.reshape(2, 256, 2, 8), 4, 2) for a in (k, v))
    return attend(q, k, v)


@pattern(f32(2, 256, 8, 16), f32(2, 256, 8, 16), tiled={"q": 2, "k": 2})
def rotary_halves_over_heads(q: Array, k: Array) -> Array:
    angles = jnp.arange(256.0)[:, None] * 1e4 ** (-jnp.arange(8) / 8)
    cos, sin = (jnp.tile(f(angles), 2)[:, None] for f in (jnp.cos, jnp.sin))

    def rotated(x: Array) -> Array:
        half = jnp.concatenate([-x[..., 8:], x[..., :8]], -1)
        return x * cos + half * sin

    return scores(rotated(q), rotated(k))


@pattern(f32(2, 256, 4, 64), tiled={"x": 3})
def rotary_pairs(x: Array) -> Array:
    angles = jnp.arange(256.0)[:, None] * 1e4 ** (-jnp.arange(32) / 32)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    a, b = jnp.moveaxis(x.reshape(2, 256, 4, 32, 2), -1, 0)
    return jnp.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)


@pattern(f32(8, 64, 64), f32(64, 512), f32(256, 64), tiled={"w": 1})
def gate_by_index(x: Array, w: Array, down: Array) -> Array:
    both = (x @ w).reshape(8, 64, 2, 256)
    return (jax.nn.gelu(both[:, :, 0]) * both[:, :, 1]) @ down


@pattern(f32(4, 256, 32), f32(4, 256, 32), f32(32, 32), tiled={"x": 1, "y": 1})
def two_streams_joined(x: Array, y: Array, w: Array) -> tuple[Array, Array]:
    joint = jnp.concatenate([x, y], 1) @ w
    both = attend(*(joint.reshape(4, 512, 2, 16),) * 3).reshape(4, 512, 32)
    return both[:, :256], both[:, 256:]
