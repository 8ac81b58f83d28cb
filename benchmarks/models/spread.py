"""Models unlike each other, to compare the simulator with XLA on: small and plain.

Convolutions with batch normalisation, Fourier mixing, embedding tables, a recurrent
network, and a language model whose layers are rematerialised, or scanned over with
gradients accumulated over microbatches.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir
from benchmarks.models.training import adam, train_with, training_args

Params = dict[str, Any]
f32 = jnp.float32


def _struct(*shape: int, dtype: Any = f32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _model(names: dict[str, int]) -> partir.ManualPartition:
    tiles = {f"params/{name}": dim for name, dim in names.items()}
    return partir.ManualPartition(tiles, axis="M", name="MP")


BATCH = partir.ManualPartition({"batch/*": 0}, axis="B", name="BP")
MICROBATCH = partir.ManualPartition({"x": 1, "y": 1}, axis="B", name="BP")


def cross_entropy(logits: Array, labels: Array) -> Array:
    """Mean over all labels."""
    logs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(logs, labels[..., None], -1))


# Convolutions


def _convolve(x: Array, kernel: Array, stride: int = 1) -> Array:
    dims = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=dims
    )


def _batch_norm(x: Array) -> Array:
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5)


def convolutional_loss(params: Params, x: Array, y: Array) -> Array:
    """Residual blocks, a stride, an average, a classifier."""
    x = jax.nn.relu(_batch_norm(_convolve(x, params["stem"])))
    for block in params["blocks"].values():
        inner = jax.nn.relu(_batch_norm(_convolve(x, block["up"])))
        x = jax.nn.relu(x + _batch_norm(_convolve(inner, block["down"])))
    x = jax.nn.relu(_convolve(x, params["stride"], 2))
    return cross_entropy(x.mean((1, 2)) @ params["head"], y)


def convolutional() -> tuple[Any, tuple[Any, ...], Any, Any]:
    """Step, arguments, batch and model parallelism."""
    block = {"up": (3, 3, 32, 32), "down": (3, 3, 32, 32)}
    shapes = {
        "stem": (3, 3, 3, 32),
        "blocks": {str(n): block for n in range(2)},
        "stride": (3, 3, 32, 64),
        "head": (64, 16),
    }
    batch = _struct(32, 32, 32, 3), _struct(32, dtype=jnp.int32)
    args = training_args(shapes, *batch)
    return train_with(convolutional_loss), args, BATCH, _model({"blocks/*/up": 3})


# Fourier transforms


def fourier_loss(params: Params, x: Array, y: Array) -> Array:
    """Tokens and channels mixed by a Fourier transform, then an MLP."""
    for layer in params.values():
        x = x + jnp.fft.fft2(x.astype(jnp.complex64)).real
        x = x - x.mean(-1, keepdims=True)
        x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
    return jnp.mean((x - y) ** 2)


def fourier() -> tuple[Any, tuple[Any, ...], Any, Any]:
    """Step, arguments, batch and model parallelism."""
    shapes = {str(n): {"up": (128, 512), "down": (512, 128)} for n in range(2)}
    x = _struct(16, 64, 128)
    args = training_args(shapes, x, x)
    return train_with(fourier_loss), args, BATCH, _model({"*/up": 1})


# Embedding tables


def recommender_loss(params: Params, dense: Array, ids: Array, y: Array) -> Array:
    """Rows of tables and dense features, all pairs of them, an MLP."""
    first = jax.nn.relu(dense @ params["bottom"]["up"]) @ params["bottom"]["down"]
    rows = [table[ids[:, n]] for n, table in enumerate(params["tables"].values())]
    all_of = jnp.stack([first, *rows], 1)
    pairs = jnp.einsum("bnd,bmd->bnm", all_of, all_of).reshape(len(dense), -1)
    joined = jnp.concatenate([first, pairs], -1)
    logits = (jax.nn.relu(joined @ params["top"]["up"]) @ params["top"]["down"])[:, 0]
    return jnp.mean(jax.nn.softplus(logits) - y * logits)


def recommender() -> tuple[Any, tuple[Any, ...], Any, Any]:
    """Step, arguments, batch and model parallelism."""
    shapes = {
        "bottom": {"up": (16, 128), "down": (128, 32)},
        "tables": {str(n): (8192, 32) for n in range(4)},
        "top": {"up": (57, 256), "down": (256, 1)},
    }
    ids = _struct(512, 4, dtype=jnp.int32)
    args = training_args(shapes, _struct(512, 16), ids, _struct(512))
    names = {"tables/*": 1, "bottom/up": 1, "top/up": 1}
    return train_with(recommender_loss), args, BATCH, _model(names)


# A recurrent network


def recurrent_loss(params: Params, x: Array, y: Array) -> Array:
    """Gated recurrent units over time."""

    def cell(state: Array, x: Array) -> tuple[Array, Array]:
        gate = jax.nn.sigmoid(x @ params["gate_in"] + state @ params["gate"])
        new = jnp.tanh(x @ params["new_in"] + (gate * state) @ params["new"])
        state = gate * state + (1 - gate) * new
        return state, state

    start = jnp.zeros((len(x), params["gate"].shape[0]), x.dtype)
    _, states = lax.scan(cell, start, x.swapaxes(0, 1))
    return jnp.mean((states.swapaxes(0, 1) @ params["out"] - y) ** 2)


def recurrent() -> tuple[Any, tuple[Any, ...], Any, Any]:
    """Step, arguments, batch and model parallelism."""
    ins, states = (64, 256), (256, 256)
    shapes = {"gate_in": ins, "new_in": ins, "gate": states, "new": states}
    args = training_args(
        {**shapes, "out": (256, 64)}, _struct(64, 32, 64), _struct(64, 32, 64)
    )
    return train_with(recurrent_loss), args, BATCH, _model({"out": 0})


# A language model


def _layer(layer: Params, x: Array) -> Array:
    heads = (*x.shape[:2], 4, -1)
    normal = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    q, k, v = ((normal @ layer[n]).reshape(heads) for n in ("wq", "wk", "wv"))
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ layer["wo"]
    return x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]


def _layer_shapes(*stack: int) -> dict[str, tuple[int, ...]]:
    square = {name: (*stack, 128, 128) for name in ("wq", "wk", "wv", "wo")}
    return {**square, "up": (*stack, 128, 512), "down": (*stack, 512, 128)}


_SPLIT = ("wq", "wk", "wv", "up")


def remat_loss(params: Params, x: Array, y: Array) -> Array:
    """Layers that are computed again in the backward pass."""
    h = params["table"][x]
    for layer in params["layers"].values():
        h = jax.checkpoint(_layer)(layer, h)
    return cross_entropy(h @ params["table"].T, y)


def remat() -> tuple[Any, tuple[Any, ...], Any, Any]:
    """Step, arguments, batch and model parallelism."""
    layers = {str(n): _layer_shapes() for n in range(3)}
    tokens = _struct(16, 64, dtype=jnp.int32)
    args = training_args({"table": (512, 128), "layers": layers}, tokens, tokens)
    names = {f"layers/*/{name}": 1 for name in _SPLIT}
    return train_with(remat_loss), args, BATCH, _model(names)


def scanned_loss(params: Params, x: Array, y: Array) -> Array:
    """Layers in a loop."""
    body = jax.checkpoint(lambda h, layer: (_layer(layer, h), None))
    h, _ = lax.scan(body, params["table"][x], params["layers"])
    return cross_entropy(h @ params["table"].T, y)


def accumulated_step(params: Params, opt_state: Any, x: Array, y: Array) -> Any:
    """Gradients of microbatches added up, then Adam."""

    def add(total: Params, batch: tuple[Array, Array]) -> tuple[Params, Array]:
        loss, grads = jax.value_and_grad(scanned_loss)(params, *batch)
        return jax.tree.map(jnp.add, total, grads), loss

    grads, losses = lax.scan(add, jax.tree.map(jnp.zeros_like, params), (x, y))
    return *adam(params, grads, opt_state), jnp.mean(losses)


def accumulated() -> tuple[Any, tuple[Any, ...], Any, Any]:
    """Step, arguments, batch and model parallelism."""
    tokens = _struct(4, 16, 64, dtype=jnp.int32)
    shapes = {"table": (512, 128), "layers": _layer_shapes(3)}
    args = training_args(shapes, tokens, tokens)
    names = {f"layers/{name}": 2 for name in _SPLIT}
    return accumulated_step, args, MICROBATCH, _model(names)


MODELS = {
    "convolutional": (convolutional, False),
    "fourier": (fourier, False),
    "recommender": (recommender, False),
    "recurrent": (recurrent, True),
    "remat": (remat, False),
    "accumulated": (accumulated, True),
}
"""Models, and whether they have loops."""
