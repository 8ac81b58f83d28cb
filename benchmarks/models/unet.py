"""A diffusion UNet and its training step: predict the noise added to an image, Adam.

Three levels with three residual blocks each on the way down and four on the way up (9
and 12), each halving the resolution, skip connections between them, self-attention in
the middle, group norm, and a timestep embedding that every block reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir
from benchmarks.models.training import train_with, training_args


@dataclass(frozen=True)
class Config:
    """Sizes; level ``i`` has ``width * factors[i]`` channels."""

    width: int = 8
    factors: tuple[int, ...] = (1, 2)
    blocks: int = 1
    heads: int = 2
    groups: int = 4
    image: int = 4
    channels: int = 3
    batch: int = 8
    compute_dtype: str | None = None

    @classmethod
    def full(cls, batch: int = 1024) -> Config:
        """The published structure; to be traced, not to be run."""
        return cls(
            width=256,
            factors=(1, 2, 4),
            blocks=3,
            heads=16,
            groups=32,
            image=64,
            batch=batch,
            compute_dtype="bfloat16",
        )


# Parameters


def _linear(d_in: int, d_out: int) -> dict[str, Any]:
    return {"w": (d_in, d_out), "b": (d_out,)}


def _conv(d_in: int, d_out: int, size: int = 3) -> dict[str, Any]:
    return {"w": (size, size, d_in, d_out), "b": (d_out,)}


def _norm(d: int) -> dict[str, Any]:
    return {"scale": (d,), "bias": (d,)}


def _block(d_in: int, d_out: int, time: int) -> dict[str, Any]:
    shapes = {
        "norm1": _norm(d_in),
        "conv1": _conv(d_in, d_out),
        "time": _linear(time, d_out),
        "norm2": _norm(d_out),
        "conv2": _conv(d_out, d_out),
    }
    return shapes if d_in == d_out else shapes | {"skip": _conv(d_in, d_out, 1)}


def _attention(d: int, heads: int) -> dict[str, Any]:
    each = {"w": (d, heads, d // heads), "b": (heads, d // heads)}
    out = {"w": (heads, d // heads, d), "b": (d,)}
    return {"norm": _norm(d), "q": each, "k": each, "v": each, "out": out}


def param_shapes(config: Config) -> dict[str, Any]:
    """All parameters, in the order in which they are used."""
    w, time = config.width, 4 * config.width
    widths = [w * factor for factor in config.factors]
    shapes = {
        "time1": _linear(w, time),
        "time2": _linear(time, time),
        "in": _conv(config.channels, w),
    }
    kept, d = [w], w
    for level, width in enumerate(widths):
        for number in range(config.blocks):
            shapes[f"down_{level}_{number}"] = _block(d, width, time)
            kept.append(d := width)
        if level + 1 < len(widths):
            shapes[f"down_{level}"] = _conv(d, d)
            kept.append(d)
    shapes["middle_0"] = _block(d, d, time)
    shapes["middle_attention"] = _attention(d, config.heads)
    shapes["middle_1"] = _block(d, d, time)
    for level, width in reversed(list(enumerate(widths))):
        for number in range(config.blocks + 1):
            shapes[f"up_{level}_{number}"] = _block(d + kept.pop(), width, time)
            d = width
        if level:
            shapes[f"up_{level}"] = _conv(d, d)
    return shapes | {"norm": _norm(d), "out": _conv(d, config.channels)}


# Model


def linear(layer: dict[str, Array], x: Array) -> Array:
    """A matrix and a bias."""
    return x @ layer["w"] + layer["b"]


def conv(layer: dict[str, Array], x: Array, stride: int = 1) -> Array:
    """Convolution of ``[b, h, w, c]``, edges padded."""
    kinds = ("NHWC", "HWIO", "NHWC")
    strides = (stride, stride)
    made = lax.conv_general_dilated(
        x, layer["w"], strides, "SAME", dimension_numbers=kinds
    )
    return made + layer["b"]


def group_norm(layer: dict[str, Array], x: Array, groups: int) -> Array:
    """Zero mean and unit variance over the pixels and channels of each group."""
    b, h, w, c = x.shape
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    wide = wide.reshape(b, h, w, groups, c // groups)
    centred = wide - jnp.mean(wide, axis=(1, 2, 4), keepdims=True)
    variance = jnp.mean(centred * centred, axis=(1, 2, 4), keepdims=True)
    normal = (centred * lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return normal.astype(x.dtype) * layer["scale"] + layer["bias"]


def residual(params: dict[str, Any], x: Array, time: Array, groups: int) -> Array:
    """Two convolutions, the timestep added between them."""
    y = conv(params["conv1"], jax.nn.silu(group_norm(params["norm1"], x, groups)))
    y = y + linear(params["time"], jax.nn.silu(time))[:, None, None, :]
    y = conv(params["conv2"], jax.nn.silu(group_norm(params["norm2"], y, groups)))
    return y + (conv(params["skip"], x) if "skip" in params else x)


def attention(params: dict[str, Any], x: Array, groups: int) -> Array:
    """Self-attention of all pixels."""
    b, h, w, c = x.shape
    y = group_norm(params["norm"], x, groups).reshape(b, h * w, c)

    def project(layer: dict[str, Array]) -> Array:
        return jnp.einsum("bsd,dhk->bshk", y, layer["w"]) + layer["b"]

    q, k, v = (project(params[name]) for name in ("q", "k", "v"))
    scores = jnp.einsum("bqhk,bshk->bhqs", q, k) * q.shape[-1] ** -0.5
    mixed = jnp.einsum("bhqs,bshk->bqhk", jax.nn.softmax(scores, axis=-1), v)
    made = jnp.einsum("bshk,hkd->bsd", mixed, params["out"]["w"]) + params["out"]["b"]
    return x + made.reshape(x.shape)


def embed(steps: Array, width: int, dtype: Any) -> Array:
    """Sines and cosines of the timestep, as positions are embedded."""
    wide = jnp.promote_types(dtype, jnp.float32)
    frequency = jnp.exp(-math.log(1e4) * jnp.arange(width // 2, dtype=wide) / width * 2)
    angle = steps[:, None].astype(wide) * frequency
    return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=-1).astype(dtype)


def upsample(x: Array) -> Array:
    """Twice the resolution, by repetition."""
    b, h, w, c = x.shape
    return jnp.broadcast_to(x[:, :, None, :, None], (b, h, 2, w, 2, c)).reshape(
        b, 2 * h, 2 * w, c
    )


def _named(params: dict[str, Any], kind: str, level: int) -> Iterator[Any]:
    number = 0
    while (name := f"{kind}_{level}_{number}") in params:
        yield params[name]
        number += 1


def predict(config: Config, params: dict[str, Any], x: Array, steps: Array) -> Array:
    """The noise in noisy images ``x`` ``[b, h, w, c]`` at their timesteps."""
    groups, levels = config.groups, range(len(config.factors))
    time = linear(params["time1"], embed(steps, config.width, x.dtype))
    time = linear(params["time2"], jax.nn.silu(time))
    x = conv(params["in"], x)
    kept = [x]
    for level in levels:
        for block in _named(params, "down", level):
            kept.append(x := residual(block, x, time, groups))
        if level < levels[-1]:
            kept.append(x := conv(params[f"down_{level}"], x, stride=2))
    x = residual(params["middle_0"], x, time, groups)
    x = attention(params["middle_attention"], x, groups)
    x = residual(params["middle_1"], x, time, groups)
    for level in reversed(levels):
        for block in _named(params, "up", level):
            x = residual(block, jnp.concatenate([x, kept.pop()], axis=-1), time, groups)
        if level:
            x = conv(params[f"up_{level}"], upsample(x))
    x = jax.nn.silu(group_norm(params["norm"], x, groups))
    return conv(params["out"], x)


def step_for(config: Config) -> Any:
    """The training step: mean squared error of the predicted noise."""

    def loss_fn(
        params: dict[str, Any], images: Array, noise: Array, steps: Array
    ) -> Array:
        made = predict(config, params, images, steps)
        wide = jnp.promote_types(made.dtype, jnp.float32)
        return jnp.mean((made.astype(wide) - noise.astype(wide)) ** 2)

    return train_with(loss_fn, config.compute_dtype)


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of the step's arguments, as ``(args, kwargs)``; no arrays."""
    config = config or Config()
    size = (config.batch, config.image, config.image, config.channels)
    images = jax.ShapeDtypeStruct(size, jnp.float32)
    steps = jax.ShapeDtypeStruct((config.batch,), jnp.int32)
    return training_args(param_shapes(config), images, images, steps), {}


# Every tensor is sharded, vectors too.
_FIRST = partir.FIRST_DIVISIBLE_DIM
BP = partir.ManualPartition({"batch/*": 0}, axis="B", name="BP")
Z2 = partir.ManualPartition(
    {"params/**": partir.REPLICATED, "opt_state/**": _FIRST}, axis="B", name="Z2"
)
Z3 = partir.ManualPartition(
    {"params/**": _FIRST, "opt_state/**": _FIRST}, axis="B", name="Z3"
)
MP = partir.ManualPartition(
    {
        "params/*/conv1/w": 3,
        "params/middle_attention/q/w": 1,
        "params/middle_attention/k/w": 1,
        "params/middle_attention/v/w": 1,
    },
    axis="M",
    name="MP",
)
BP_M = partir.ManualPartition({"batch/*": 0}, axis="M", name="BP(M)")
SCHEDULES = {
    "BP": [BP],
    "BP+Z2": [BP, Z2],
    "BP+BP(M)+Z2": [BP, BP_M, Z2],
    "BP+Z3": [BP, Z3],
    "MP": [MP],
    "BP+MP": [BP, MP],
    "BP+MP+Z3": [BP, MP, Z3],
}
