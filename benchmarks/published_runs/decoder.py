"""A decoder as published runs train it: scanned, with remat, flash attention, Adam."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.ad_checkpoint import checkpoint_name

import partir

Params = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """What the step computes; `saved` names what the backward pass does not redo."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    gated: bool
    tied: bool
    vocabulary: int
    sequence: int
    batch: int  # of all devices, in one microbatch
    microbatches: int
    weights: str  # dtype that is stored
    activations: str  # dtype that is computed with
    saved: str
    flash: bool
    one_hot: bool = False  # embeddings are looked up by a product
    activation: str = ""  # "relu", or the usual one
    dropout: bool = True  # of attention's weights, where they are in memory
    causal: bool = True  # whether attention leaves out what comes later
    parallel: bool = False  # attention and MLP read the same, and are added up

    @property
    def shared(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.kv_heads


# What checkpoints keep. Offloading keeps it too, in the host's memory.
SAVED: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "keys, values and last": ("key", "value", "down"),
    "projections": ("query", "key", "value"),
    "projections and output": ("query", "key", "value", "out"),
    "projections and attention": ("query", "key", "value", "attended"),
    "projections, attention and last": ("query", "key", "value", "attended", "down"),
    "products": ("query", "key", "value", "out", "gate", "up", "down"),
    "products and attention": tuple(
        "query key value attended out gate up down".split()
    ),
    "every other product": ("query", "value", "attended", "gate", "down"),
}


def _flash_attention(part: int, name: str) -> Any:
    """A kernel that attends to one part in so many of the keys.

    To half of them it is as much work as a causal kernel does.
    """

    def scores_of(q: Array, k: Array) -> Array:
        return jnp.einsum("bsgrd,btgd->bgrst", q, k[:, : k.shape[1] // part])

    def attend(q: Array, k: Array, v: Array) -> Array:
        weights = jax.nn.softmax(scores_of(q, k).astype(jnp.float32)).astype(q.dtype)
        return jnp.einsum("bgrst,btgd->bsgrd", weights, v[:, : v.shape[1] // part])

    def backward(kept: tuple[Array, ...], gradient: Array) -> tuple[Array, ...]:
        """Scores are computed again: five products, as kernels do it."""
        q, k, v = kept
        weights = jax.nn.softmax(scores_of(q, k).astype(jnp.float32))
        of_weights = scores_of(gradient, v)
        of_scores = weights * (
            of_weights - jnp.sum(of_weights * weights, -1, keepdims=True)
        )
        of_scores, weights = of_scores.astype(q.dtype), weights.astype(q.dtype)
        of_q = jnp.einsum("bgrst,btgd->bsgrd", of_scores, k[:, : k.shape[1] // part])
        of_k = jnp.einsum("bgrst,bsgrd->btgd", of_scores, q)
        of_v = jnp.einsum("bgrst,bsgrd->btgd", weights, gradient)
        return of_q, *(jnp.concatenate([g] * part, axis=1) for g in (of_k, of_v))

    made = jax.custom_vjp(attend)
    made.defvjp(lambda q, k, v: (attend(q, k, v), (q, k, v)), backward)
    return partir.opaque(made, "b s g r _, b _ g _, b _ g _ -> b s g r _", name=name)


flash = _flash_attention(2, "flash_attention")
whole_flash = _flash_attention(1, "whole_flash_attention")


def _softmax_of(scores: Array) -> Array:
    places = jnp.arange(scores.shape[-1])
    seen = jnp.arange(scores.shape[-2])[:, None] >= places
    wide = jnp.where(seen, scores.astype(jnp.float32), -1e9)
    return jax.nn.softmax(wide).astype(scores.dtype)


@jax.custom_vjp
def _softmax(scores: Array) -> Array:
    return _softmax_of(scores)


def _softmax_forward(scores: Array) -> tuple[Array, tuple[Array]]:
    made = _softmax_of(scores)
    return made, (made,)


def _softmax_backward(kept: tuple[Array], gradient: Array) -> tuple[Array]:
    (made,) = kept
    wide = made.astype(jnp.float32) * gradient.astype(jnp.float32)
    total = jnp.sum(wide, axis=-1, keepdims=True)
    return ((wide - made.astype(jnp.float32) * total).astype(made.dtype),)


_softmax.defvjp(_softmax_forward, _softmax_backward)
softmax = partir.opaque(_softmax, "b h _ _ -> b h _ _", name="masked_softmax")


def _dropped(weights: Array, kept: Array) -> Array:
    return jnp.where(kept, weights / 0.9, 0).astype(weights.dtype)


dropout = partir.opaque(_dropped, "b h _ _, b h _ _ -> b h _ _", name="dropout")


def unfused(q: Array, k: Array, v: Array, drop: bool = True) -> Array:
    """Attention with scores in memory; softmax and dropout are kernels of their own."""
    heads = q.reshape(*q.shape[:2], -1, q.shape[-1])  # as many as of keys
    weights = softmax(jnp.einsum("bshd,bthd->bhst", heads, k))
    if drop:  # which ones costs nothing to speak of
        weights = dropout(weights, weights > 0)
    mixed = jnp.einsum("bhst,bthd->bshd", weights, v)
    return mixed.reshape(q.shape)


def normalised(x: Array, scale: Array) -> Array:
    """Divided by its root mean square, in float32."""
    wide = x.astype(jnp.float32)
    wide = wide * jax.lax.rsqrt(jnp.mean(wide**2, axis=-1, keepdims=True) + 1e-6)
    return wide.astype(x.dtype) * scale.astype(x.dtype)


_ACTIVATIONS = {"": jax.nn.gelu, "relu": jax.nn.relu}


def layer(config: Config, x: Array, weights: Params) -> Array:
    """One block: attention, then the MLP, or both at once."""
    use = {name: w.astype(config.activations) for name, w in weights.items()}
    x = partir.tag(x, "stream")
    y = normalised(x, use["norm_1"])
    out = _attention(config, y, use)
    if config.parallel:
        return x + (out + _mlp(config, y, use))
    x = partir.tag(x + out, "stream")
    return x + _mlp(config, normalised(x, use["norm_2"]), use)


def _attention(config: Config, y: Array, use: Params) -> Array:
    attend = flash if config.causal else whole_flash
    if not config.flash:
        attend = functools.partial(unfused, drop=config.dropout)
    q = checkpoint_name(jnp.einsum("bsd,dgrh->bsgrh", y, use["query"]), "query")
    k = checkpoint_name(jnp.einsum("bsd,dgh->bsgh", y, use["key"]), "key")
    v = checkpoint_name(jnp.einsum("bsd,dgh->bsgh", y, use["value"]), "value")
    mixed = checkpoint_name(attend(q, k, v), "attended")
    return checkpoint_name(jnp.einsum("bsgrh,grhd->bsd", mixed, use["out"]), "out")


def _mlp(config: Config, y: Array, use: Params) -> Array:
    hidden = checkpoint_name(y @ use["up"], "up")
    if config.gated:
        gate = checkpoint_name(y @ use["gate"], "gate")
        hidden = jax.nn.silu(gate) * hidden
    else:
        hidden = _ACTIVATIONS[config.activation](hidden)
    return checkpoint_name(hidden @ use["down"], "down")


def _embedded(config: Config, table: Array, tokens: Array) -> Array:
    if not config.one_hot:
        return jnp.take(table, tokens, axis=0)
    return jax.nn.one_hot(tokens, len(table), dtype=table.dtype) @ table


def loss_fn(config: Config, params: Params, tokens: Array, labels: Array) -> Array:
    """Mean cross entropy of the next tokens."""
    table = params["embedding"]
    x = _embedded(config, table.astype(config.activations), tokens)

    keep = jax.checkpoint_policies.save_only_these_names(*SAVED[config.saved])
    block = jax.checkpoint(functools.partial(layer, config), policy=keep)
    x, _ = jax.lax.scan(lambda x, w: (block(x, w), None), x, params["layers"])
    x = normalised(partir.tag(x, "stream"), params["norm"])
    head = table.T if config.tied else params["head"]
    logits = (x @ head.astype(config.activations)).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


def step_for(config: Config) -> Callable[..., Any]:
    """A training step with Adam; microbatches are scanned over."""
    gradient = jax.value_and_grad(functools.partial(loss_fn, config))

    def step(
        params: Params, first: Params, second: Params, tokens: Array, labels: Array
    ) -> Any:
        if config.microbatches == 1:
            loss, gradients = gradient(params, tokens[0], labels[0])
        else:
            narrow = jax.tree.map(lambda p: p.astype(config.activations), params)

            def add(sums: Any, batch: Any) -> tuple[Any, None]:
                return jax.tree.map(jnp.add, sums, gradient(narrow, *batch)), None

            wide = functools.partial(jnp.zeros_like, dtype=jnp.float32)
            zeros = (jnp.zeros(()), jax.tree.map(wide, params))
            (loss, gradients), _ = jax.lax.scan(add, zeros, (tokens, labels))
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        square = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, gradients)
        new = jax.tree.map(
            lambda p, m, v: p - 1e-4 * (m / (jnp.sqrt(v) + 1e-8) + 0.1 * p),
            params,
            mean,
            square,
        )
        return new, mean, square, loss

    return step


def example_args(config: Config) -> tuple[Any, ...]:
    """Shapes of the step's arguments."""
    d, h = config.width, config.head_dim
    groups, shared = config.kv_heads, config.shared
    layers = {
        "norm_1": (d,),
        "query": (d, groups, shared, h),
        "key": (d, groups, h),
        "value": (d, groups, h),
        "out": (groups, shared, h, d),
        "up": (d, config.hidden),
        "down": (config.hidden, d),
    }
    if config.gated:
        layers["gate"] = (d, config.hidden)
    if not config.parallel:
        layers["norm_2"] = (d,)

    def weight(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, config.weights)

    params: Params = {
        "embedding": weight((config.vocabulary, d)),
        "norm": weight((d,)),
        "layers": {n: weight((config.layers, *s)) for n, s in layers.items()},
    }
    if not config.tied:
        params["head"] = weight((d, config.vocabulary))
    shape = (config.microbatches, config.batch, config.sequence)
    tokens = jax.ShapeDtypeStruct(shape, "int32")
    return params, params, params, tokens, tokens
