"""Tokens to experts, nodes to edges."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from benchmarks.patterns.pattern import f32, i32, pattern

TOKENS, GATE, EXPERTS = f32(512, 32), f32(32, 8), f32(8, 32, 32)


@pattern(TOKENS, GATE, EXPERTS, tiled=[{"x": 0}, {"experts": 0}])
def groups_dispatched_by_einsum(x: Array, gate: Array, experts: Array) -> Array:
    x = x.reshape(8, 64, 32)
    chances = jax.nn.softmax(x @ gate)
    best, chosen = lax.top_k(chances, 2)
    picked = jax.nn.one_hot(chosen, 8).reshape(8, 128, 8)
    place = (jnp.cumsum(picked, 1) * picked - 1).astype(jnp.int32)
    slots = jax.nn.one_hot(place, 32).reshape(8, 64, 2, 8, 32)
    combine = jnp.einsum("gsk,gskec->gsec", best, slots)
    inputs = jnp.einsum("gsec,gsd->egcd", lax.stop_gradient(combine > 0) * 1.0, x)
    outputs = jax.nn.relu(jnp.einsum("egcd,edf->egcf", inputs, experts))
    return jnp.einsum("gsec,egcf->gsf", combine, outputs)


@pattern(TOKENS, GATE, EXPERTS, tiled={"x": 0})
def slots_filled_by_scatter(x: Array, gate: Array, experts: Array) -> Array:
    chances = jax.nn.softmax(x @ gate)
    chosen = jnp.argmax(chances, -1)
    picked = jax.nn.one_hot(chosen, 8, dtype=jnp.int32)
    place = jnp.sum(jnp.cumsum(picked, 0) * picked, -1) - 1
    slots = jnp.zeros((8, 128, 32)).at[chosen, place].add(x, mode="drop")
    outputs = jnp.einsum("ecd,edf->ecf", slots, experts)
    best = jnp.take_along_axis(chances, chosen[:, None], -1)
    return outputs.at[chosen, place].get(mode="fill", fill_value=0) * best


@pattern(TOKENS, GATE, EXPERTS, tiled=[{"x": 0}, {"experts": 0}])
def experts_choose_tokens(x: Array, gate: Array, experts: Array) -> Array:
    chances = jax.nn.softmax(x @ gate)
    weights, tokens = lax.top_k(chances.T, 64)
    outputs = jnp.einsum("ecd,edf->ecf", x[tokens], experts) * weights[..., None]
    return jnp.zeros_like(x).at[tokens].add(outputs)


@pattern(TOKENS, GATE, EXPERTS, tiled={"experts": 0})
def every_expert_computes_all(x: Array, gate: Array, experts: Array) -> Array:
    outputs = jax.nn.relu(jnp.einsum("td,edf->etf", x, experts))
    return jnp.einsum("te,etf->tf", jax.nn.softmax(x @ gate), outputs)


@pattern(
    f32(256, 16),
    i32(1024),
    i32(1024),
    f32(32, 16),
    tiled={"senders": 0, "receivers": 0},
)
def messages_along_edges(x: Array, senders: Array, receivers: Array, w: Array) -> Array:
    ends = jnp.concatenate([x[senders], x[receivers]], -1)
    return jax.ops.segment_sum(jax.nn.relu(ends @ w), receivers, 256)


@pattern(
    f32(256, 16), i32(1024), i32(1024), tiled=[{"x": 0}, {"senders": 0, "receivers": 0}]
)
def messages_of_tiled_nodes(x: Array, senders: Array, receivers: Array) -> Array:
    best = jax.ops.segment_max(jnp.tanh(x)[senders], receivers, 256)
    return jnp.where(jnp.isfinite(best), best, 0)  # nobody sends to some
