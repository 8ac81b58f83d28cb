"""Images: convolutions, pooling, resizing, norms; height tiled unless said."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from benchmarks.patterns.pattern import f32, pattern

IMAGE = f32(2, 128, 128, 8)
KERNEL = f32(3, 3, 8, 8)
HEIGHT = {"x": 1}
_DIMS = ("NHWC", "HWIO", "NHWC")


def conv(
    x: Array, w: Array, stride: int = 1, padding: Any = "SAME", **more: Any
) -> Array:
    """A plain convolution over height and width."""
    strides = (stride, stride)
    return lax.conv_general_dilated(
        x, w, strides, padding, dimension_numbers=_DIMS, **more
    )


def normalised(x: Array, dims: tuple[int, ...]) -> Array:
    """Mean nought, variance one."""
    mean = x.mean(dims, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(dims, keepdims=True) + 1e-5)


def doubled(x: Array) -> Array:
    """The nearest neighbour, twice as high and wide."""
    return jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)


@pattern(IMAGE, KERNEL, tiled=HEIGHT)
def dilated_convolution(x: Array, w: Array) -> Array:
    return conv(x, w, rhs_dilation=(4, 4))


@pattern(f32(2, 256, 256, 3), f32(7, 7, 3, 16), tiled=HEIGHT)
def stem_of_a_network(x: Array, w: Array) -> Array:
    x = jax.nn.relu(normalised(conv(x, w, 2), (0, 1, 2)))
    size, strides = (1, 3, 3, 1), (1, 2, 2, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, size, strides, "SAME")


@pattern(f32(2, 64, 64, 8), f32(4, 4, 8, 8), tiled=HEIGHT)
def transposed_convolution(x: Array, w: Array) -> Array:
    return lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=_DIMS)


@pattern(IMAGE, f32(3, 3, 1, 8), f32(8, 16), tiled=HEIGHT)
def separable_convolution(x: Array, w: Array, mix: Array) -> Array:
    return jax.nn.relu(conv(x, w, feature_group_count=8)) @ mix


@pattern(IMAGE, KERNEL, tiled=HEIGHT)
def convolution_without_padding(x: Array, w: Array) -> Array:
    return conv(jax.nn.relu(conv(x, w, padding="VALID")), w, padding="VALID")


@pattern(f32(2, 32, 32, 32, 4), f32(3, 3, 3, 4, 4), tiled=HEIGHT)
def volume_convolution(x: Array, w: Array) -> Array:
    dims = ("NDHWC", "DHWIO", "NDHWC")
    return lax.conv_general_dilated(x, w, (1, 1, 1), "SAME", dimension_numbers=dims)


@pattern(IMAGE, f32(16, 16, 8, 64), tiled=HEIGHT)
def patch_embedding(x: Array, w: Array) -> Array:
    return conv(x, w, 16, "VALID").reshape(2, 64, 64)


@pattern(IMAGE, f32(32, 16), tiled=HEIGHT)
def space_to_depth(x: Array, w: Array) -> Array:
    x = x.reshape(2, 64, 2, 64, 2, 8).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(2, 64, 64, 32) @ w


@pattern(f32(2, 64, 64, 16), f32(3, 3, 16, 32), tiled=HEIGHT)
def pixel_shuffle(x: Array, w: Array) -> Array:
    x = conv(x, w).reshape(2, 64, 64, 2, 2, 8)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(2, 128, 128, 8)


@pattern(f32(2, 64, 64, 8), KERNEL, tiled=HEIGHT)
def doubled_then_convolved(x: Array, w: Array) -> Array:
    return conv(doubled(x), w)


@pattern(f32(2, 64, 64, 8), tiled=HEIGHT)
def bilinear_resize(x: Array) -> Array:
    return jax.image.resize(x, (2, 128, 128, 8), "bilinear")


@pattern(IMAGE, f32(8, 16), tiled=HEIGHT)
def average_pool(x: Array, w: Array) -> Array:
    size = (1, 2, 2, 1)
    return (lax.reduce_window(x, 0.0, lax.add, size, size, "VALID") / 4) @ w


@pattern(IMAGE, KERNEL, f32(3, 3, 16, 8), tiled=HEIGHT)
def down_up_and_across(x: Array, down: Array, up: Array) -> Array:
    low = jax.nn.relu(conv(x, down, 2))
    return conv(jnp.concatenate([doubled(low), x], -1), up)


@pattern(IMAGE, KERNEL, tiled=HEIGHT)
def reflected_borders(x: Array, w: Array) -> Array:
    wide = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
    return conv(wide, w, padding="VALID")


@pattern(IMAGE, KERNEL, tiled=HEIGHT)
def centre_crop(x: Array, w: Array) -> Array:
    return conv(x, w)[:, 16:-16, 16:-16]


@pattern(IMAGE, f32(3, 3, 10, 8), tiled=HEIGHT)
def coordinates_as_channels(x: Array, w: Array) -> Array:
    places = jnp.linspace(-1.0, 1.0, 128)
    rows = jnp.broadcast_to(places[:, None], (2, 128, 128))
    columns = jnp.broadcast_to(places, (2, 128, 128))
    return conv(jnp.concatenate([x, rows[..., None], columns[..., None]], -1), w)


@pattern(IMAGE, f32(2, 1, 1, 1), f32(8, 8), tiled={"x": 2})
def flip_augmentation(x: Array, coin: Array, w: Array) -> Array:
    return jnp.where(coin > 0, x[:, :, ::-1], x) @ w


@pattern(f32(64, 16, 16, 8), KERNEL, tiled={"x": 0})
def batch_norm(x: Array, w: Array) -> Array:
    return jax.nn.relu(normalised(conv(x, w), (0, 1, 2)))


@pattern(f32(4, 16, 16, 64), f32(64, 64), tiled={"x": 3})
def group_norm_of_few_groups(x: Array, w: Array) -> Array:
    groups = x.reshape(4, 16, 16, 4, 16)
    return normalised(groups, (1, 2, 4)).reshape(x.shape) @ w


@pattern(IMAGE, f32(8, 8), tiled=HEIGHT)
def instance_norm(x: Array, w: Array) -> Array:
    return normalised(x, (1, 2)) @ w


@pattern(IMAGE, f32(72, 8), tiled=HEIGHT)
def patches_times_matrix(x: Array, w: Array) -> Array:
    patches = lax.conv_general_dilated_patches(
        x, (3, 3), (1, 1), "SAME", dimension_numbers=_DIMS
    )
    return patches @ w
