"""flax linen: an LSTM through time, then attention."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from benchmarks.zoo.case import Case, drawn, floats, tactics, training_case

BATCH, LENGTH, FEATURES, WIDTH, HEADS = 8, 4, 8, 16, 4


class Recurrent(nn.Module):
    """Two directions, dropout, attention over the outputs."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        there = nn.RNN(nn.OptimizedLSTMCell(WIDTH, param_dtype=jnp.float64))
        back = nn.RNN(nn.GRUCell(WIDTH, param_dtype=jnp.float64))
        x = nn.Bidirectional(there, back, merge_fn=lambda a, b: a + b)(x)
        x = nn.Dropout(0.25, deterministic=False)(x)
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(HEADS)(x, mask=mask)
        return nn.Dense(FEATURES)(nn.LayerNorm()(x))


def lstm_attention() -> Case:
    """The step of a recurrent network with attention."""
    model = Recurrent()
    x = floats(0, BATCH, LENGTH, FEATURES)
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    shapes = jax.eval_shape(lambda: model.init(keys, x))["params"]

    def loss(params: Any, x: Array, key: Array) -> Array:
        made = model.apply({"params": params}, x, rngs={"dropout": key})
        return jnp.mean((made[:, :-1] - x[:, 1:]) ** 2)

    heads = "params/MultiHeadDotProductAttention_0"
    megatron = {f"{heads}/{name}/kernel": 1 for name in ("query", "key", "value")}
    schedule = tactics({"batch/0": 0}, megatron)
    return training_case(loss, drawn(shapes), (x, jax.random.key(2)), schedule)
