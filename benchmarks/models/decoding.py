"""Decoding with the transformer, a cache of keys and values, multi-query attention.

All heads share one key and one value per token, so that the cache has no dimension of
heads. The prompt passes through the model at once and gives the first token; a loop
makes the others, one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir
from benchmarks.models.layers import layer_norm
from benchmarks.models.training import structs


@dataclass(frozen=True)
class Config:
    """Sizes; ``tokens`` are made in all."""

    layers: int = 2
    width: int = 16
    heads: int = 4
    head_dim: int = 4
    hidden: int = 32
    vocab: int = 16
    prompt: int = 4
    tokens: int = 4
    batch: int = 16
    dtype: str = "float32"

    @classmethod
    def full(cls, **changes: Any) -> Config:
        """T32's sizes; to be traced, not to be run."""
        full = cls(
            layers=32,
            width=4096,
            heads=32,
            head_dim=128,
            hidden=10240,
            vocab=32768,
            prompt=512,
            tokens=1536,
            batch=64,
            dtype="bfloat16",
        )
        return replace(full, **changes)


def param_shapes(config: Config) -> dict[str, Any]:
    """The embedding, and ten tensors per layer."""
    d, h, k, f = config.width, config.heads, config.head_dim, config.hidden
    layer = {
        "norm1": {"scale": (d,), "bias": (d,)},
        "q": (d, h, k),
        "kv": (d, 2, k),
        "out": (h, k, d),
        "norm2": {"scale": (d,), "bias": (d,)},
        "w1": (d, f),
        "b1": (f,),
        "w2": (f, d),
    }
    layers = {f"layer_{number}": dict(layer) for number in range(config.layers)}
    return {"embedding": (config.vocab, d), **layers}


def project(layer: dict[str, Any], x: Array) -> tuple[Array, Array, Array]:
    """Queries ``[b, s, h, k]``, keys and values ``[b, s, k]``."""
    y = partir.tag(layer_norm(x, **layer["norm1"]), "normed")
    q = jnp.einsum("bsd,dhk->bshk", y, layer["q"]) * layer["q"].shape[-1] ** -0.5
    kv = jnp.einsum("bsd,dck->bsck", y, layer["kv"])
    return q, kv[:, :, 0], kv[:, :, 1]


def attend(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """Every head looks at the same keys."""
    scores = jnp.einsum("bqhd,bkd->bhqk", q, k)
    scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    wide = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
    weights = jax.nn.softmax(wide, axis=-1).astype(q.dtype)
    return jnp.einsum("bhqk,bkd->bqhd", weights, v)


def finish(layer: dict[str, Any], x: Array, mixed: Array) -> Array:
    """What follows attention in a layer."""
    x = x + jnp.einsum("bshk,hkd->bsd", mixed, layer["out"])
    y = layer_norm(x, **layer["norm2"])
    hidden = jax.nn.gelu(jnp.einsum("bsd,df->bsf", y, layer["w1"]) + layer["b1"])
    return x + jnp.einsum("bsf,fd->bsd", hidden, layer["w2"])


def choose_token(params: dict[str, Any], x: Array) -> Array:
    """The likeliest token after the last position."""
    logits = jnp.einsum("bd,vd->bv", x[:, -1], params["embedding"])
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


Cache = list[tuple[Array, Array]]


def read_prompt(
    params: dict[str, Any], prompt: Array, length: int
) -> tuple[Array, Cache]:
    """The first token, and keys and values of the prompt with room for ``length``."""
    x, cache = params["embedding"][prompt], []
    size = prompt.shape[1]
    mask = jnp.tril(jnp.ones((size, size), bool))
    room = ((0, 0), (0, length - size), (0, 0))
    for number in range(len(params) - 1):
        layer = params[f"layer_{number}"]
        q, k, v = project(layer, x)
        x = finish(layer, x, attend(q, k, v, mask))
        cache.append((jnp.pad(k, room), jnp.pad(v, room)))
    return choose_token(params, x), cache


def decode_one(
    params: dict[str, Any], token: Array, cache: Cache, position: Array
) -> tuple[Array, Cache]:
    """The next token, and the cache with this one's keys and values."""
    x, grown = params["embedding"][token[:, None]], []
    mask = jnp.arange(cache[0][0].shape[1]) <= position
    for number, (keys, values) in enumerate(cache):
        layer = params[f"layer_{number}"]
        q, k, v = project(layer, x)
        keys = partir.tag(_write(keys, k, position), "cache")
        values = partir.tag(_write(values, v, position), "cache")
        x = finish(layer, x, attend(q, keys, values, mask))
        grown.append((keys, values))
    return choose_token(params, x), grown


def _write(cache: Array, new: Array, position: Array) -> Array:
    return lax.dynamic_update_slice(cache, new, (0, position, 0))


def step_for(config: Config) -> Any:
    """A function of parameters and prompt that gives all tokens, ``[tokens, b]``."""

    def decode(params: dict[str, Any], prompt: Array) -> Array:
        size = prompt.shape[1]
        first, cache = read_prompt(params, prompt, size + config.tokens)

        def body(carry: Any, position: Array) -> Any:
            token, cache = decode_one(params, *carry, position)
            return (token, cache), token

        positions = jnp.arange(size, size + config.tokens - 1)
        _, others = lax.scan(body, (first, cache), positions)
        return jnp.concatenate([first[None], others])

    return decode


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of parameters and prompt, as ``(args, kwargs)``; no arrays."""
    config = config or Config()
    params = structs(param_shapes(config), config.dtype)
    prompt = jax.ShapeDtypeStruct((config.batch, config.prompt), jnp.int32)
    return (params, prompt), {}


class MultiQuery:
    """Attention over the batch instead of over heads, while decoding.

    With heads over M every device would hold the whole cache. Split along the batch it
    is held once; queries change from heads to batch, and what was mixed back again.
    """

    name = "MQ"
    axis = "M"

    def apply(self, partition: partir.Partition) -> None:
        """Cache by batch, projections by heads; between them an all-to-all."""
        partition.atomic("normed", self.axis)
        partition.tile("cache", 0, self.axis)
        for name in ("q", "out"):
            for value in partition.values(f"params/*/{name}"):
                partition.tile(value, int(name == "q"), self.axis)
        partition.propagate(self.axis)
        for op in partition.conflicts():  # batch or heads: the prompt's by heads
            partition.choose(op, op.factors[-1], self.axis)


BP = partir.ManualPartition({"prompt": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"params/*/q": 1, "params/*/w1": 1}, axis="M", name="MP")
MQ = MultiQuery()
BP_M = partir.ManualPartition({"prompt": 0}, axis="M", name="BP(M)")
SCHEDULES = {
    "BP": [BP],
    "BP+BP(M)": [BP, BP_M],
    "MP": [MP],
    "BP+MP": [BP, MP],
    "BP+MQ+MP": [BP, MQ, MP],
}
