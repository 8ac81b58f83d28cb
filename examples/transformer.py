"""A transformer with stacked layers and Adam: one schedule for training and evaluation.

What there is to see:

- the layers are stacked and scanned over, and `FIRST_DIVISIBLE_DIM` passes over that
  dimension, in Adam's state too;
- the residual stream is reached by a tag;
- `partir.optional` lets the same schedule serve the evaluation step, which has no
  optimiser state, and the trained parameters are passed to it as they lie.

From a clone, after `make setup`:

    .venv/bin/python examples/transformer.py
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir

LAYERS, WIDTH, HEADS, HIDDEN = 4, 64, 4, 256
VOCABULARY, LENGTH, BATCH = 128, 32, 16

Tree = dict[str, Any]


# The model


def init(key: Array) -> tuple[Tree, Tree]:
    """Parameters, each layer's stacked along dimension 0, and Adam's state."""
    shapes = {
        "qkv": (LAYERS, WIDTH, 3, HEADS, WIDTH // HEADS),
        "out": (LAYERS, HEADS, WIDTH // HEADS, WIDTH),
        "up": (LAYERS, WIDTH, HIDDEN),
        "down": (LAYERS, HIDDEN, WIDTH),
    }
    keys = jax.random.split(key, len(shapes) + 1)
    layers = {
        name: jax.random.normal(k, shape) / WIDTH**0.5
        for k, (name, shape) in zip(keys[1:], shapes.items(), strict=True)
    }
    layers |= {name: jnp.ones((LAYERS, WIDTH)) for name in ("norm1", "norm2")}
    embedding = jax.random.normal(keys[0], (VOCABULARY, WIDTH)) / WIDTH**0.5
    params = {"embedding": embedding, "layers": layers}
    zeros = jax.tree.map(jnp.zeros_like, params)
    return params, {"mu": zeros, "nu": zeros, "count": jnp.zeros((), jnp.int32)}


def norm(x: Array, scale: Array) -> Array:
    """Root mean square normalisation."""
    return scale * x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def attention(layer: Tree, x: Array) -> Array:
    """Causal self-attention."""
    q, k, v = jnp.moveaxis(jnp.einsum("bsd,dthk->bsthk", x, layer["qkv"]), 2, 0)
    scores = jnp.einsum("bshk,bthk->bhst", q, k) / (WIDTH // HEADS) ** 0.5
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    return jnp.einsum("bhst,bthk,hkd->bsd", weights, v, layer["out"])


def block(x: Array, layer: Tree) -> tuple[Array, None]:
    """One layer, as `lax.scan` takes it."""
    x = partir.tag(x, "residual")
    x = x + attention(layer, norm(x, layer["norm1"]))
    hidden = jax.nn.gelu(norm(x, layer["norm2"]) @ layer["up"])
    return x + hidden @ layer["down"], None


def loss_fn(params: Tree, tokens: Array, targets: Array) -> Array:
    """Mean cross-entropy of the next token."""
    x = params["embedding"][tokens]
    x, _ = lax.scan(jax.checkpoint(block), x, params["layers"])
    logits = jnp.einsum("bsd,vd->bsv", x, params["embedding"])
    chosen = jax.nn.one_hot(targets, VOCABULARY, dtype=logits.dtype)
    return -jnp.mean(jnp.sum(chosen * jax.nn.log_softmax(logits), -1))


def train_step(params: Tree, opt_state: Tree, tokens: Array, targets: Array) -> Any:
    """One step of Adam: new parameters, new state, loss."""
    loss, grads = jax.value_and_grad(loss_fn)(params, tokens, targets)
    count = opt_state["count"] + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt_state["mu"], grads)
    nu = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, opt_state["nu"], grads)

    def update(p: Array, m: Array, v: Array) -> Array:
        corrected = jnp.sqrt(v / (1 - 0.99**count)) + 1e-8
        return p - 3e-3 * m / (1 - 0.9**count) / corrected

    params = jax.tree.map(update, params, mu, nu)
    return params, {"mu": mu, "nu": nu, "count": count}, loss


# How it is split


def matrices(name: str, shape: tuple[int, ...], dtype: str) -> Any:
    """Stacked matrices, and the embedding; scales and counters stay whole."""
    whole = len(shape) < 2 or "norm" in name
    return partir.UNKNOWN if whole else partir.FIRST_DIVISIBLE_DIM


BP = partir.ManualPartition(
    {"tokens": 0, "targets": 0, "residual": 0}, axis="B", name="BP"
)
MP = partir.ManualPartition(
    {"params/layers/qkv": 3, "params/layers/up": 2}, axis="M", name="MP"
)
Z3 = partir.ManualPartition(
    {"params/**": matrices, partir.optional("opt_state/**"): matrices},
    axis="B",
    name="Z3",
)

schedule = [BP, MP, Z3]
donate_argnums = (0, 1)


def example_args() -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of the arguments: nothing is allocated."""
    tokens = jax.ShapeDtypeStruct((BATCH, LENGTH), "int32")
    return (*jax.eval_shape(init, jax.random.key(0)), tokens, tokens), {}


# Running it


def main() -> None:
    """Train a few steps, then evaluate with the same schedule."""
    jax.config.update("jax_num_cpu_devices", 8)
    mesh = partir.Mesh({"B": 4, "M": 2})
    step = partir.jit(train_step, mesh, schedule, donate_argnums=donate_argnums)
    evaluate = partir.jit(loss_fn, mesh, schedule)

    args, _ = example_args()
    partitioned = step.partitioned(*args)
    print(partitioned)
    skipped = [a for a in partitioned.steps[-1].actions if a.kind == "skip"]
    print("left alone by Z3:", ", ".join(action.target for action in skipped) or "none")
    specs = partitioned.in_specs
    print("params/layers/up is", specs[0]["layers"]["up"])
    print("opt_state/mu/layers/up is", specs[1]["mu"]["layers"]["up"])

    shardings = partitioned.in_shardings()[:2]
    params, opt_state = jax.jit(init, out_shardings=shardings)(jax.random.key(0))
    text = jax.random.randint(jax.random.key(1), (BATCH, LENGTH + 1), 0, VOCABULARY)
    tokens, targets = text[:, :-1], text[:, 1:]
    for number in range(3):
        params, opt_state, loss = step(params, opt_state, tokens, targets)
        print(f"step {number}: loss {loss:.4f}")
    loss = evaluate(params, tokens, targets)
    alone = jax.jit(loss_fn)(jax.device_get(params), tokens, targets)
    print(f"evaluation: {loss:.4f}, on one device {alone:.4f}")


if __name__ == "__main__":
    main()
