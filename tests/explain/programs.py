"""Programs that the questions in `questions.py` are about: small, never run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import partir

NO_RULE = """
module {
  func.func @main(%x: tensor<4096x4096xf32>, %w: tensor<4096x4096xf32>,
      %v: tensor<4096x16xf32>) -> tensor<4096x16xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %1 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0]
      : (tensor<4096x4096xf32>, tensor<4096x16xf32>) -> tensor<4096x16xf32>
    %2 = stablehlo.custom_call @unheard_of(%1)
      : (tensor<4096x16xf32>) -> tensor<4096x16xf32>
    return %2 : tensor<4096x16xf32>
  }
}"""


def f32(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, "float32")


def i32(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, "int32")


# Patterns of real code


def product(x: Array, w: Array) -> Array:
    return jnp.tanh(x @ w)


def wide_sort(x: Array, w: Array) -> Array:
    scores = jnp.sum(jnp.tanh(x @ w), 1)
    return jnp.sort(scores)


def mixed_by_fourier(x: Array, w: Array) -> Array:
    return jnp.fft.fft(x, axis=1).real @ w


def long_signal(x: Array, w: Array) -> Array:
    loud = jnp.sum(jnp.tanh(x @ w), 1)
    return jnp.fft.fft(loud).real


def accumulated(w: Array, x: Array) -> Array:
    def body(total: Array, batch: Array) -> Any:
        return total + jnp.tanh(batch @ w).sum(0), None

    return lax.scan(body, jnp.zeros(w.shape[1]), x)[0]


def stacked_layers(stack: Array, x: Array) -> Array:
    return lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, stack)[0]


def third_expert(x: Array, w: Array) -> Array:
    return jnp.tanh(x[2] @ w)


def rows_in_threes(x: Array, w: Array) -> Array:
    grouped = x.reshape(3, 4, 1024)
    return jnp.tanh(grouped.max(1) @ w)


def attention(q: Array, k: Array, v: Array) -> Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def shifted_loss(h: Array, w: Array) -> Array:
    return jnp.mean(jnp.tanh(h[:, :-1] @ w) - h[:, 1:])


def rolled(x: Array) -> Array:
    return jnp.tanh(x - jnp.roll(x, 1, 0))


def looked_up(table: Array, tokens: Array) -> Array:
    return jnp.tanh(table[tokens])


def cache_step(cache: Array, new: Array, at: Array) -> Array:
    cache = lax.dynamic_update_slice(cache, new, (0, at, 0, 0))
    return attention(new, cache, cache)


def carried(x: Array, y: Array, w: Array) -> Array:
    def body(_: Any, carry: Any) -> Any:
        h, total = carry
        return y, total + jnp.tanh(h @ w)

    return lax.fori_loop(0, 3, body, (x, jnp.zeros_like(x)))


def mixture(x: Array, router: Array, w1: Array, w2: Array) -> Array:
    chosen = jnp.argmax(x @ router, -1)
    slots = jax.nn.one_hot(chosen, router.shape[1])
    order = jnp.cumsum(slots, 1) * slots - 1
    place = jax.nn.one_hot(order.astype("int32"), x.shape[1] // 4)
    sent = jnp.einsum("gsec,gsd->egcd", place, x)
    made = jnp.einsum("egcf,efd->egcd", jax.nn.relu(sent @ w1[:, None]), w2)
    return jnp.einsum("gsec,egcd->gsd", place, made)


def tagged(x: Array, w1: Array, w2: Array) -> Array:
    hidden = partir.tag(jax.nn.relu(x @ w1), "hidden")
    return hidden @ w2


def constrained(x: Array, w: Array, v: Array) -> Array:
    from jax.sharding import PartitionSpec

    hidden = jnp.tanh(x @ w)
    hidden = lax.with_sharding_constraint(hidden, PartitionSpec(None, None))
    return hidden @ v


# A training step with Adam


def norm(x: Array) -> Array:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def loss(params: Any, x: Array, y: Array) -> Array:
    for layer in params["layers"]:
        hidden = partir.tag(jax.nn.relu(norm(x) @ layer["up"]), "hidden")
        x = x + hidden @ layer["down"]
    return jnp.mean((x @ params["head"] - y) ** 2)


def train_step(params: Any, opt: Any, x: Array, y: Array) -> Any:
    value, grads = jax.value_and_grad(loss)(params, x, y)
    count = opt["count"] + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, opt["mu"], grads)
    nu = jax.tree.map(lambda n, g: 0.9 * n + 0.1 * g * g, opt["nu"], grads)
    new = jax.tree.map(
        lambda p, m, n: p - m / (jnp.sqrt(n) + 1e-8) / count, params, mu, nu
    )
    return new, {"mu": mu, "nu": nu, "count": count}, value


LAYER = {"up": f32(2048, 8192), "down": f32(8192, 2048)}
PARAMS = {"layers": [LAYER, LAYER], "head": f32(2048, 2048)}
OPT = {"mu": PARAMS, "nu": PARAMS, "count": f32()}
TRAINING = PARAMS, OPT, f32(2048, 2048), f32(2048, 2048)
