"""Several at once: shifts in loops, windows behind splits, tokens before images."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from benchmarks.patterns.pattern import f32, i32, pattern

IMAGE = f32(2, 64, 64, 16)


def _attention(q: Array, k: Array, v: Array) -> Array:
    scores = jnp.einsum("...qd,...kd->...qk", q, k)
    return jnp.einsum("...qk,...kd->...qd", jax.nn.softmax(scores), v)


@pattern(IMAGE, f32(16, 48), tiled={"x": 1})
def shifted_window_attention(x: Array, w: Array) -> Array:
    moved = jnp.roll(x, (-4, -4), (1, 2))
    windows = moved.reshape(2, 8, 8, 8, 8, 16).transpose(0, 1, 3, 2, 4, 5)
    q, k, v = jnp.split(windows.reshape(2, 8, 8, 64, 16) @ w, 3, -1)
    mixed = _attention(q, k, v).reshape(2, 8, 8, 8, 8, 16)
    back = mixed.transpose(0, 1, 3, 2, 4, 5).reshape(2, 64, 64, 16)
    return x + jnp.roll(back, (4, 4), (1, 2))


@pattern(f32(2, 128, 128, 3), f32(8, 8, 3, 32), f32(1, 1, 32), tiled={"x": 1})
def patches_with_a_class_token(x: Array, kernel: Array, token: Array) -> Array:
    dims = ("NHWC", "HWIO", "NHWC")
    patches = lax.conv_general_dilated(
        x, kernel, (8, 8), "VALID", dimension_numbers=dims
    )
    tokens = patches.reshape(2, 256, 32)
    h = jnp.concatenate([jnp.broadcast_to(token, (2, 1, 32)), tokens], 1)
    return _attention(h, h, h)[:, 0]


@pattern(f32(4, 512, 32), f32(4, 1, 32), f32(32, 64), f32(32), tiled={"x": 1})
def gated_state_space(x: Array, taps: Array, w: Array, decay: Array) -> Array:
    h, gate = jnp.split(x @ w, 2, -1)
    h = lax.conv_general_dilated(
        h,
        taps,
        (1,),
        [(3, 0)],
        dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=32,
    )

    def step(left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple:
        return left[0] * right[0], right[0] * left[1] + right[1]

    rates = jnp.broadcast_to(jax.nn.sigmoid(decay), h.shape)
    return lax.associative_scan(step, (rates, h), axis=1)[1] * jax.nn.silu(gate)


@pattern(f32(4, 512, 32), f32(4, 2, 32), f32(4, 32, 32), tiled={"x": 1})
def token_shifts_in_a_scan(x: Array, mix: Array, w: Array) -> Array:
    def layer(h: Array, weights: tuple[Array, Array]) -> tuple[Array, None]:
        shares, product = weights
        before = jnp.pad(h, ((0, 0), (1, 0), (0, 0)))[:, :-1]
        return h + jnp.tanh((h * shares[0] + before * shares[1]) @ product), None

    return lax.scan(layer, x, (mix, w))[0]


@pattern(f32(8, 512, 32), f32(4, 2, 32, 32), f32(32, 64), tiled={"x": 1})
def dilated_stack_with_skips(x: Array, kernels: Array, out: Array) -> Array:
    skips = jnp.zeros_like(x)
    for n in range(4):
        h = lax.conv_general_dilated(
            x,
            kernels[n],
            (1,),
            [(2**n, 0)],
            rhs_dilation=(2**n,),
            dimension_numbers=("NWC", "WIO", "NWC"),
        )
        x, skips = x + jnp.tanh(h), skips + h
    return jax.nn.log_softmax(jax.nn.relu(skips)[:, :-1] @ out)


@pattern(f32(2, 4, 256, 16), f32(2, 4, 256, 16), f32(511, 16), tiled={"q": 2, "k": 2})
def skewed_relative_positions(q: Array, k: Array, positions: Array) -> Array:
    content = jnp.einsum("bhqd,bhkd->bhqk", q, k)
    far = jnp.einsum("bhqd,rd->bhqr", q, positions)
    skewed = jnp.pad(far, ((0, 0), (0, 0), (0, 0), (0, 1))).reshape(2, 4, -1)
    skewed = skewed[..., : 256 * 511].reshape(2, 4, 256, 511)[..., 255:]
    return jax.nn.softmax(content + skewed)


@pattern(f32(4, 128, 64), f32(64, 96), f32(64, 64), tiled={"w": 1, "out": 0})
def few_keys_for_many_queries(x: Array, w: Array, out: Array) -> Array:
    q, k, v = jnp.split(x @ w, [64, 80], -1)
    q = q.reshape(4, 128, 4, 16).transpose(0, 2, 1, 3)
    mixed = _attention(q, k[:, None], v[:, None])
    return mixed.transpose(0, 2, 1, 3).reshape(4, 128, 64) @ out


@pattern(IMAGE, f32(3, 3, 16, 16), f32(3, 3, 32, 16), tiled={"x": 1})
def down_up_and_skip(x: Array, down: Array, merge: Array) -> Array:
    dims = ("NHWC", "HWIO", "NHWC")
    small = jax.nn.relu(
        lax.conv_general_dilated(x, down, (2, 2), "SAME", dimension_numbers=dims)
    )
    large = jnp.repeat(jnp.repeat(small, 2, 1), 2, 2)
    both = jnp.concatenate([x, large], -1)
    return lax.conv_general_dilated(both, merge, (1, 1), "SAME", dimension_numbers=dims)


@pattern(f32(1000, 32), f32(32, 1000), i32(16, 65), tiled={"table": 0, "head": 1})
def uneven_words_in_and_out(table: Array, head: Array, words: Array) -> Array:
    h = jnp.cumsum(table[words[:, :-1]], 1)
    logits = h @ head
    target = jnp.take_along_axis(logits, words[:, 1:, None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - target)


@pattern(f32(8, 512, 32), f32(32, 32), tiled={"x": 1})
def pooled_mixed_and_stretched(x: Array, w: Array) -> Array:
    pooled = x.reshape(8, 128, 4, 32).mean(2)
    mixed = jnp.fft.fft(pooled, axis=1).real @ w
    return x[:, ::-1] * jnp.repeat(mixed, 4, 1)
