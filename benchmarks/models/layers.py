"""The transformer's parts: norms, attention, the layers of each variant, the loss."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

Attend = Callable[[Array, Array, Array], Array]

NORM_EPSILON = 1e-6
ROTARY_BASE = 10_000.0


def widened(x: Array) -> Array:
    """``x`` in at least float32, for statistics and the loss."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def layer_norm(x: Array, scale: Array, bias: Array) -> Array:
    """LayerNorm over the last dimension."""
    wide = widened(x)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    normal = centred * lax.rsqrt(variance + NORM_EPSILON)
    return normal.astype(x.dtype) * scale + bias


def rms_norm(x: Array, scale: Array) -> Array:
    """RMSNorm over the last dimension."""
    wide = widened(x)
    square = jnp.mean(wide * wide, axis=-1, keepdims=True)
    return (wide * lax.rsqrt(square + NORM_EPSILON)).astype(x.dtype) * scale


def rotary(x: Array) -> Array:
    """Rotate each pair (i, i + k/2) of ``[b, s, h, k]`` by its position's angle."""
    half = x.shape[-1] // 2
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    position = jnp.arange(x.shape[1], dtype=dtype)
    frequency = ROTARY_BASE ** (-jnp.arange(half, dtype=dtype) / half)
    angle = (position[:, None] * frequency)[:, None, :]
    cos, sin = jnp.cos(angle).astype(x.dtype), jnp.sin(angle).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def attend(q: Array, k: Array, v: Array) -> Array:
    """Causal attention on ``[b, s, h, k]``."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    square = (q.shape[1], k.shape[1])
    rows = lax.broadcasted_iota(jnp.int32, square, 0)
    columns = lax.broadcasted_iota(jnp.int32, square, 1)
    scores = jnp.where(rows >= columns, scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(widened(scores), axis=-1).astype(q.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def project(layer: dict[str, Array], y: Array, attend: Attend) -> Array:
    """Attention with one matrix for queries, keys and values, and one out."""
    qkv = jnp.einsum("bsd,dchk->bschk", y, layer["qkv"])
    mixed = attend(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])
    return jnp.einsum("bshk,hkd->bsd", mixed, layer["out"])


def perceive(layer: dict[str, Array], y: Array) -> Array:
    """An MLP with a bias in the middle."""
    hidden = jax.nn.gelu(jnp.einsum("bsd,df->bsf", y, layer["w1"]) + layer["b1"])
    return jnp.einsum("bsf,fd->bsd", hidden, layer["w2"])


def fused_layer(layer: dict[str, Array], x: Array, attend: Attend = attend) -> Array:
    """One layer of the fused variant."""
    x = x + project(layer, layer_norm(x, layer["ln1_scale"], layer["ln1_bias"]), attend)
    return x + perceive(layer, layer_norm(x, layer["ln2_scale"], layer["ln2_bias"]))


def biased_layer(layer: dict[str, Array], x: Array, attend: Attend = attend) -> Array:
    """One layer of the biased variant; norms are computed again, not kept."""
    norm = jax.checkpoint(rms_norm)
    x = x + project(layer, norm(x, layer["norm1"]), attend) + layer["out_bias"]
    return x + perceive(layer, norm(x, layer["norm2"])) + layer["b2"]


def separate_layer(layer: dict[str, Array], x: Array, attend: Attend = attend) -> Array:
    """One layer of the separate variant."""
    y = rms_norm(x, layer["norm1"])
    q, k, v = (jnp.einsum("bsd,dhk->bshk", y, layer[n]) for n in ("wq", "wk", "wv"))
    mixed = attend(rotary(q), rotary(k), v)
    x = x + jnp.einsum("bshk,hkd->bsd", mixed, layer["out"])
    y = rms_norm(x, layer["norm2"])
    gate = jax.nn.silu(jnp.einsum("bsd,df->bsf", y, layer["gate"]))
    hidden = gate * jnp.einsum("bsd,df->bsf", y, layer["up"])
    return x + jnp.einsum("bsf,fd->bsd", hidden, layer["down"])


def apply_layer(layer: dict[str, Array], x: Array, attend: Attend = attend) -> Array:
    """One layer of the variant that has these tensors."""
    if "wq" in layer:
        return separate_layer(layer, x, attend)
    return (biased_layer if "b2" in layer else fused_layer)(layer, x, attend)


def cross_entropy(logits: Array, targets: Array) -> Array:
    """Average over all tokens.

    A single sum over batch, sequence and vocabulary gives the loss, so that a
    tiled batch leaves one reduction of one number.
    """
    log_probs = jax.nn.log_softmax(widened(logits), axis=-1)
    vocab = lax.broadcasted_iota(targets.dtype, log_probs.shape, 2)
    return -jnp.sum(jnp.where(targets[..., None] == vocab, log_probs, 0)) / targets.size
