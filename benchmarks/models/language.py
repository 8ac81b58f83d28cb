"""Language models unlike each other, in both regimes, for mending the simulator by.

Encoders with LayerNorm behind residuals, decoders with rotary positions and gates,
layers side by side, an encoder with a decoder that attends to it; with large
vocabularies, in float32 or, with parameters kept in float32, in bfloat16. Products cast
their own weights, as packages do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir
from benchmarks.models.layers import rotary
from benchmarks.models.schedules import Z3
from benchmarks.models.training import structs, train_with, training_state

Params = dict[str, Any]

BATCH = partir.ManualPartition({"batch/*": 0}, axis="B", name="BP")


@dataclass(frozen=True)
class Config:
    """What a model is made of, and its sizes.

    Args:
        after: norms stand behind residuals, not before products.
        gated: RMSNorm, rotary positions, gated MLPs and no biases; else LayerNorm,
            learned positions, GELU and biases.
        beside: attention and MLP read the same and are added up.
        decoder: layers of a decoder that attends to what these layers make.
        causal: a token sees those before it.
        tied: logits are made with the embedding; else with a matrix of their own.
    """

    after: bool = False
    gated: bool = False
    beside: bool = False
    decoder: bool = False
    causal: bool = True
    tied: bool = True
    dtype: str = "float32"
    layers: int = 2
    width: int = 128
    head_dim: int = 32
    vocab: int = 4096
    sequence: int = 256
    rows: int = 16


# Parameters


def _linear(config: Config, ins: int, outs: int) -> dict[str, tuple[int, ...]]:
    return {"w": (ins, outs)} if config.gated else {"w": (ins, outs), "b": (outs,)}


def _norm(config: Config) -> dict[str, tuple[int, ...]]:
    scale: dict[str, tuple[int, ...]] = {"scale": (config.width,)}
    return scale if config.gated else {**scale, "bias": (config.width,)}


def _layer(config: Config, attends: int) -> Params:
    width = config.width
    square = _linear(config, width, width)
    layer: Params = {
        f"attention{n}": {name: square for name in ("q", "k", "v", "o")}
        for n in range(attends)
    }
    layer |= {f"norm{n}": _norm(config) for n in range(attends + 1)}
    layer["up"] = _linear(config, width, 4 * width)
    layer["down"] = _linear(config, 4 * width, width)
    if config.gated:
        layer["gate"] = _linear(config, width, 4 * width)
    return layer


def param_shapes(config: Config) -> Params:
    """Of all parameters."""
    width, layers = config.width, range(config.layers)
    shapes: Params = {"embedding": (config.vocab, width), "norm": _norm(config)}
    shapes["layers"] = {str(n): _layer(config, 1) for n in layers}
    if not config.gated:
        shapes["positions"] = (config.sequence, width)
    if config.decoder:
        shapes["decoder"] = {str(n): _layer(config, 2) for n in layers}
    if not config.tied:
        shapes["head"] = (width, config.vocab)
    return shapes


# Parts


def _apply(linear: Params, x: Array) -> Array:
    y = x @ linear["w"].astype(x.dtype)
    return y + linear["b"].astype(x.dtype) if "b" in linear else y


def _normed(norm: Params, x: Array) -> Array:
    wide = x.astype(jnp.float32)
    if "bias" not in norm:
        wide *= lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)
        return norm["scale"].astype(x.dtype) * wide.astype(x.dtype)
    mean = wide.mean(-1, keepdims=True)
    variance = (wide * wide).mean(-1, keepdims=True) - mean * mean
    scale = lax.rsqrt(variance + 1e-6) * norm["scale"]
    return ((wide - mean) * scale + norm["bias"]).astype(x.dtype)


def _attended(config: Config, layer: Params, x: Array, other: Array) -> Array:
    heads = (*x.shape[:1], -1, config.width // config.head_dim, config.head_dim)
    q, k, v = (
        _apply(layer[n], y).reshape(heads)
        for n, y in (("q", x), ("k", other), ("v", other))
    )
    if config.gated:
        q, k = rotary(q), rotary(k)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q * config.head_dim**-0.5, k)
    if config.causal and x is other:
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        least = jnp.finfo(x.dtype).min
        scores = scores + jnp.where(seen, 0.0, least).astype(x.dtype)
    weights = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return _apply(layer["o"], mixed.reshape(x.shape))


def _perceived(layer: Params, x: Array) -> Array:
    hidden = _apply(layer["up"], x)
    if "gate" in layer:
        hidden = jax.nn.silu(_apply(layer["gate"], x)) * hidden
    else:
        hidden = jax.nn.gelu(hidden)
    return _apply(layer["down"], hidden)


def _layered(
    config: Config, layer: Params, x: Array, other: Array | None = None
) -> Array:
    parts = [lambda y: _attended(config, layer["attention0"], y, y)]
    if other is not None:
        parts.append(lambda y: _attended(config, layer["attention1"], y, other))
    parts.append(lambda y: _perceived(layer, y))
    if config.beside:
        normed = _normed(layer["norm0"], x)
        return x + sum(part(normed) for part in parts)
    for n, part in enumerate(parts):
        norm = layer[f"norm{n}"]
        x = _normed(norm, x + part(x)) if config.after else x + part(_normed(norm, x))
    return x


def _embedded(config: Config, params: Params, ids: Array) -> Array:
    x = params["embedding"].astype(config.dtype)[ids]
    if "positions" in params:
        x = x + params["positions"].astype(config.dtype)
    return x


def loss_for(config: Config) -> Any:
    """Cross-entropy of tokens, averaged over all of them."""

    def loss(params: Params, ids: Array, labels: Array) -> Array:
        x = _embedded(config, params, ids)
        around = replace(config, causal=config.causal and not config.decoder)
        for layer in params["layers"].values():
            x = _layered(around, layer, x)
        other = _normed(params["norm"], x)
        if config.decoder:
            x = _embedded(config, params, ids)
            for layer in params["decoder"].values():
                x = _layered(config, layer, x, other)
        x = _normed(params["norm"], x)
        table = params["embedding"].T if config.tied else params["head"]
        logits = (x @ table.astype(x.dtype)).astype(jnp.float32)
        logs = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(logs, labels[..., None], -1))

    return loss


# Models

_KINDS = {
    "encoder": Config(after=True, causal=False),
    "decoder": Config(),
    "gated decoder": Config(gated=True, tied=False),
    "side by side": Config(beside=True, tied=False),
    "encoder-decoder": Config(decoder=True, layers=1),
}
_REGIMES = {"": {}, ", heavy": {"width": 384, "rows": 8, "sequence": 64}}
_TYPES = {"": {}, ", bf16": {"dtype": "bfloat16"}}


def configs() -> Iterator[tuple[str, Config]]:
    """All kinds, in both regimes (weights larger than activations: heavy) and types."""
    for kind, config in _KINDS.items():
        for regime, sizes in _REGIMES.items():
            for kind_of_number, dtype in _TYPES.items():
                name = f"{kind}{regime}{kind_of_number}"
                yield name, replace(config, **sizes, **dtype)  # type: ignore[arg-type]


def train_step(config: Config) -> tuple[Any, tuple[Any, ...]]:
    """A training step with its arguments."""
    ids = jax.ShapeDtypeStruct((config.rows, config.sequence), jnp.int32)
    state = training_state(structs(param_shapes(config)))
    return train_with(loss_for(config)), (*state, ids, ids)


SCHEDULES = {"BP": [BATCH], "BP+Z3": [BATCH, Z3]}
