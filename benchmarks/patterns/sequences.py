"""Sequences: shifts, differences, repetitions, scans."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from benchmarks.patterns.pattern import f32, i32, pattern

TOKENS = f32(8, 512, 64)
SEQUENCE = {"x": 1}


def shifted(x: Array, by: int = 1) -> Array:
    """Each position sees the one `by` before it; zeros enter."""
    return jnp.pad(x, ((0, 0), (by, 0), (0, 0)))[:, : x.shape[1]]


@pattern(TOKENS, f32(64), f32(64, 64), tiled=SEQUENCE)
def token_shift(x: Array, mix: Array, w: Array) -> Array:
    return jnp.square(jax.nn.relu((x * mix + shifted(x) * (1 - mix)) @ w))


@pattern(i32(8, 512), f32(256, 64), f32(64, 256), tiled={"tokens": 1})
def teacher_forcing(tokens: Array, table: Array, head: Array) -> Array:
    inputs = jnp.concatenate([jnp.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1)
    logs = jax.nn.log_softmax(jnp.tanh(table[inputs]) @ head)
    return jnp.mean(jnp.take_along_axis(logs, tokens[..., None], -1))


@pattern(TOKENS, f32(4, 64), f32(64, 64), tiled=SEQUENCE)
def short_convolution_by_shifts(x: Array, taps: Array, w: Array) -> Array:
    return jax.nn.silu(sum(shifted(x, n) * taps[n] for n in range(4))) @ w


@pattern(TOKENS, tiled=SEQUENCE)
def second_difference(x: Array) -> Array:
    return jnp.diff(x, n=2, axis=1)


@pattern(TOKENS, tiled=SEQUENCE)
def central_gradient(x: Array) -> Array:
    return jnp.gradient(x, axis=1)


@pattern(TOKENS, TOKENS, tiled={"a": 1, "b": 1})
def interleaved(a: Array, b: Array) -> Array:
    return jnp.stack([a, b], 2).reshape(8, 1024, 64)


@pattern(TOKENS, tiled=SEQUENCE)
def even_and_odd(x: Array) -> tuple[Array, Array]:
    even, odd = x[:, ::2], x[:, 1::2]
    return even + odd, even - odd


@pattern(TOKENS, f32(64, 64), tiled=SEQUENCE)
def repeated(x: Array, w: Array) -> Array:
    return jnp.repeat(x @ w, 2, axis=1)


@pattern(TOKENS, tiled=SEQUENCE)
def twice_over(x: Array) -> Array:
    return jnp.tile(x, (1, 2, 1)) * jnp.arange(1024.0)[:, None]


@pattern(TOKENS, f32(8, 1, 64), tiled=SEQUENCE)
def oldest_leaves(x: Array, new: Array) -> Array:
    return jnp.concatenate([x[:, 1:], new], 1)


@pattern(TOKENS, f32(64, 64), tiled=SEQUENCE)
def last_token(x: Array, w: Array) -> Array:
    return jnp.tanh(x @ w)[:, -1]


@pattern(TOKENS, tiled=SEQUENCE)
def running_maximum(x: Array) -> Array:
    return lax.cummax(x, axis=1)


@pattern(TOKENS, tiled=SEQUENCE)
def sliding_maximum(x: Array) -> Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 5, 1), (1, 1, 1), "SAME")


@pattern(TOKENS, f32(64), tiled=SEQUENCE)
def moving_average_scan(x: Array, decay: Array) -> Array:
    rate = jnp.broadcast_to(jax.nn.sigmoid(decay), x.shape)

    def joined(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return a[0] * b[0], b[0] * a[1] + b[1]

    return lax.associative_scan(joined, (rate, (1 - rate) * x), axis=1)[1]


@pattern(f32(256, 2, 2), f32(256, 2, 1), tiled={"f": 0, "b": 0})
def kalman_scan(f: Array, b: Array) -> Array:
    def joined(p: tuple[Array, Array], q: tuple[Array, Array]) -> tuple[Array, Array]:
        return q[0] @ p[0], q[0] @ p[1] + q[1]

    return lax.associative_scan(joined, (f, b))[1]


@pattern(f32(16, 1024), f32(16, 1024), tiled={"rewards": 1, "values": 1})
def discounted_returns(rewards: Array, values: Array) -> Array:
    def joined(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return a[0] * b[0], b[1] + b[0] * a[1]

    ahead = jnp.pad(values[:, 1:], ((0, 0), (0, 1)))
    errors = rewards + 0.99 * ahead - values
    rates = jnp.full_like(errors, 0.99 * 0.95)
    return lax.associative_scan(joined, (rates, errors), axis=1, reverse=True)[1]


@pattern(TOKENS, tiled=SEQUENCE)
def edges_repeated(x: Array) -> Array:
    wide = jnp.pad(x, ((0, 0), (2, 2), (0, 0)), mode="edge")
    return (wide[:, :-4] + wide[:, 2:-2] + wide[:, 4:]) / 3


@pattern(TOKENS, f32(512), f32(512), f32(512), tiled={"x": 1, "a": 0, "b": 0, "c": 0})
def tridiagonal_product(x: Array, a: Array, b: Array, c: Array) -> Array:
    later = jnp.pad(x[:, 1:], ((0, 0), (0, 1), (0, 0)))
    return a[:, None] * shifted(x) + b[:, None] * x + c[:, None] * later


@pattern(f32(8, 4096), f32(64), tiled={"signal": 1})
def overlapping_frames(signal: Array, window: Array) -> Array:
    frames = [signal[:, n : 4096 - 64 + n + 1 : 32] for n in range(64)]
    return jnp.abs(jnp.fft.rfft(jnp.stack(frames, -1) * window)) ** 2


@pattern(i32(8, 512), TOKENS, tiled={"tokens": 1, "x": 1})
def where_segments_start(tokens: Array, x: Array) -> Array:
    changed = tokens[:, 1:] != tokens[:, :-1]
    starts = jnp.concatenate([jnp.ones((8, 1), bool), changed], 1)
    return jnp.where(starts[..., None], x, 0.5 * x)


@pattern(f32(512, 8, 64), f32(64, 512), f32(128, 512), tiled={"w": 1, "u": 1})
def recurrent_gates(x: Array, w: Array, u: Array) -> Array:
    def cell(
        state: tuple[Array, Array], step: Array
    ) -> tuple[tuple[Array, Array], Array]:
        hidden, memory = state
        i, f, g, o = jnp.split(step @ w + hidden @ u, 4, -1)
        memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
        return (hidden, memory), hidden

    start = jnp.zeros((8, 128))
    return lax.scan(cell, (start, start), x)[1]


@pattern(f32(8, 512, 64), f32(64, 64), tiled=SEQUENCE)
def sinusoids_added(x: Array, w: Array) -> Array:
    rates = 1e4 ** (-jnp.arange(32) / 32)
    angles = jnp.arange(512.0)[:, None] * rates
    return (x + jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)) @ w
