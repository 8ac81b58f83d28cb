"""Decoding loops with a cache of keys and values, tiled on heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from tests.e2e.compare import MESH, assert_same

BATCH, STEPS, VOCAB, WIDTH, HEADS, LAYERS = 8, 6, 16, 8, 4, 2
HEAD = WIDTH // HEADS
BP = partir.ManualPartition({"tokens": 0}, axis="B", name="BP")
HEADS_OVER_M = partir.ManualPartition(
    {"params/*/qkv": 2, "cache": 3}, axis="M", name="MP"
)

pytestmark = pytest.mark.usefixtures("double")


def decode_one(params: Any, token: Array, cache: Array, step: Any) -> Any:
    """One token through all layers; the cache is [layer, k or v, batch, head, …]."""
    x = params["embedding"][token]
    for number in range(LAYERS):
        layer = params[f"layer_{number}"]
        q, k, v = jnp.einsum("bd,cdhk->cbhk", x, layer["qkv"])
        new = jnp.stack([k, v])[None, :, :, :, None]
        cache = lax.dynamic_update_slice(cache, new, (number, 0, 0, 0, step, 0))
        keys, values = cache[number]
        scores = jnp.einsum("bhk,bhsk->bhs", q, keys)
        scores = jnp.where(jnp.arange(STEPS) <= step, scores, -1e30)
        mixed = jnp.einsum("bhs,bhsk->bhk", jax.nn.softmax(scores), values)
        x = x + jnp.einsum("bhk,hkd->bd", mixed, layer["o"])
    return jnp.argmax(x @ params["embedding"].T, axis=-1).astype(token.dtype), cache


def by_scan(params: Any, tokens: Array, cache: Array) -> Any:
    def body(carry: Any, step: Array) -> Any:
        token, cache = decode_one(params, *carry, step)
        return (token, cache), token

    (_, cache), made = lax.scan(body, (tokens, cache), jnp.arange(STEPS))
    return made, cache


def by_fori(params: Any, tokens: Array, cache: Array) -> Any:
    def body(step: Any, carry: Any) -> Any:
        token, cache, made = carry
        token, cache = decode_one(params, token, cache, step)
        return token, cache, lax.dynamic_update_slice(made, token[None], (step, 0))

    made = jnp.zeros((STEPS, BATCH), tokens.dtype)
    _, cache, made = lax.fori_loop(0, STEPS, body, (tokens, cache, made))
    return made, cache


def by_while(params: Any, tokens: Array, cache: Array) -> Any:
    """Stops early once every sequence has ended: the number of trips is unknown."""

    def body(carry: Any) -> Any:
        step, token, cache, made, ended = carry
        token, cache = decode_one(params, token, cache, step)
        made = lax.dynamic_update_slice(made, token[None], (step, 0))
        return step + 1, token, cache, made, ended | (token == 0)

    def going(carry: Any) -> Array:
        return (carry[0] < STEPS) & ~jnp.all(carry[4])

    made = jnp.zeros((STEPS, BATCH), tokens.dtype)
    start = (0, tokens, cache, made, jnp.zeros(BATCH, bool))
    _, _, cache, made, _ = lax.while_loop(going, body, start)
    return made, cache


def example() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    layers = {
        f"layer_{n}": {
            "qkv": rng.normal(size=(3, WIDTH, HEADS, HEAD)),
            "o": rng.normal(size=(HEADS, HEAD, WIDTH)),
        }
        for n in range(LAYERS)
    }
    params = {"embedding": rng.normal(size=(VOCAB, WIDTH)), **layers}
    cache = np.zeros((LAYERS, 2, BATCH, HEADS, STEPS, HEAD))
    return params, rng.integers(0, VOCAB, BATCH, np.int32), cache


@pytest.mark.parametrize("decode", [by_scan, by_fori, by_while])
def test_one_reduction_per_layer_and_token(decode: Callable[..., Any]) -> None:
    args = example()
    record = partir.partition(decode, MESH, [BP, HEADS_OVER_M], args=args)
    params, _, cache = record.in_specs
    assert cache == record.out_specs[1] == jax.P(None, None, "B", "M")
    assert params["layer_1"] == {"qkv": jax.P(None, None, "M"), "o": jax.P("M")}
    assert record.out_specs[0] == jax.P(None, "B")
    trips = 1 if decode is by_while else STEPS
    assert len(record.unknown_trip_counts) == (decode is by_while)
    assert record.steps[0].collectives["all_reduce"] == (decode is by_while)
    counts = record.collectives
    assert counts["all_reduce"] == trips * LAYERS + (decode is by_while)
    assert sum(counts.values()) == counts["all_reduce"]
    assert not record.replicated_ops
    assert_same(record.compile()(*args), jax.jit(decode)(*args))
