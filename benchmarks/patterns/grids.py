"""Grids of differential equations, transforms, matrices."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from benchmarks.patterns.pattern import f32, pattern

GRID = f32(512, 512)
ROWS = {"u": 0}


def neighbours(u: Array) -> Array:
    """The sum of both neighbours along every dimension, periodic."""
    return sum(jnp.roll(u, s, d) for d in range(u.ndim) for s in (1, -1))


@pattern(f32(32, 32, 64), tiled={"u": 2})
def heat_in_three_dimensions(u: Array) -> Array:
    return u + 0.1 * (neighbours(u) - 6 * u)


@pattern(GRID, tiled=ROWS)
def heat_for_four_steps(u: Array) -> Array:
    def step(u: Array, _: None) -> tuple[Array, None]:
        return u + 0.1 * (neighbours(u) - 4 * u), None

    return lax.scan(step, u, None, length=4)[0]


@pattern(GRID, tiled=ROWS)
def fixed_borders(u: Array) -> Array:
    inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return u.at[1:-1, 1:-1].set(inner / 4)


@pattern(GRID, GRID, tiled={"u": 0, "speed": 0})
def upwind_advection(u: Array, speed: Array) -> Array:
    back, ahead = u - jnp.roll(u, 1, 0), jnp.roll(u, -1, 0) - u
    return u - 0.1 * speed * jnp.where(speed > 0, back, ahead)


@pattern(GRID, tiled=ROWS)
def high_order_stencil(u: Array) -> Array:
    weights = {1: 4 / 3, 2: -1 / 12}
    terms = [w * (jnp.roll(u, k, 0) + jnp.roll(u, -k, 0)) for k, w in weights.items()]
    return sum(terms) - 2.5 * u


@pattern(f32(256, 256), f32(256, 129), tiled=ROWS)
def spectral_filter(u: Array, gain: Array) -> Array:
    return jnp.fft.irfft2(jnp.fft.rfft2(u) * gain)


@pattern(f32(512, 64, 8), f32(33, 8), tiled=ROWS)
def transform_of_another_dimension(u: Array, gain: Array) -> Array:
    return jnp.fft.irfft(jnp.fft.rfft(u, axis=1) * gain, axis=1)


@pattern(f32(129, 128), f32(128, 128), tiled={"p": 1, "v": 0})
def staggered_divergence(p: Array, v: Array) -> Array:
    return (p[1:] - p[:-1]) * v.T


@pattern(f32(1024, 32), tiled={"x": 0})
def covariance(x: Array) -> Array:
    centred = x - x.mean(0)
    return centred.T @ centred / 1024


@pattern(f32(256, 256), f32(256), tiled={"a": 0})
def power_iteration(a: Array, v: Array) -> Array:
    def step(_: int, v: Array) -> Array:
        v = a @ v
        return v / jnp.linalg.norm(v)

    for n in range(4):
        v = step(n, v)
    return v


@pattern(f32(256, 16), f32(256, 16), tiled=[{"x": 0}, {"y": 0}])
def kernel_matrix(x: Array, y: Array) -> Array:
    squares = (x**2).sum(-1)[:, None] + (y**2).sum(-1) - 2 * x @ y.T
    return jnp.exp(-squares / 16).mean(1)


@pattern(f32(256, 64), tiled={"x": 0})
def lower_triangle_of_products(x: Array) -> Array:
    return jnp.tril(x @ x.T, -1)


@pattern(f32(512), tiled={"x": 0})
def ranks_by_comparison(x: Array) -> Array:
    return jnp.sum(jnp.tanh(x[:, None] - x[None, :]), -1)


@pattern(f32(64, 512), tiled={"x": 1})
def median_of_a_tiled_dimension(x: Array) -> Array:
    return jnp.median(x, axis=1)


@pattern(f32(64, 512), f32(64, 512), tiled={"x": 1, "payload": 1})
def sorted_with_a_payload(x: Array, payload: Array) -> Array:
    return lax.sort((x, payload), dimension=1, num_keys=1)[1]


@pattern(f32(512, 256), tiled={"x": 1})
def layer_norm_over_tiles(x: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


@pattern(f32(64, 32, 32), tiled={"images": 0})
def mixup_by_roll(images: Array) -> Array:
    return 0.7 * images + 0.3 * jnp.roll(images, 1, 0)
