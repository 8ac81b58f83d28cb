"""Two layers trained by gradient descent, split over 8 virtual devices.

The model knows nothing of devices; the schedule below it says how it is split. From a
clone, after `make setup`:

    .venv/bin/python examples/mlp.py

The file is also what the command line takes as a model and as a schedule:

    .venv/bin/partir show examples/mlp.py:train_step --mesh B=4,M=2 \
        --schedule examples/mlp.py --names
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import partir

WIDTH, HIDDEN, BATCH = 256, 1024, 64

Params = dict[str, Array]


# The model


def init(key: Array) -> Params:
    """Random parameters."""
    up, down = jax.random.split(key)
    return {
        "up": jax.random.normal(up, (WIDTH, HIDDEN)) / WIDTH**0.5,
        "down": jax.random.normal(down, (HIDDEN, WIDTH)) / HIDDEN**0.5,
    }


def loss_fn(params: Params, x: Array, y: Array) -> Array:
    """Mean squared error."""
    hidden = jax.nn.relu(x @ params["up"])
    return jnp.mean((hidden @ params["down"] - y) ** 2)


def train_step(params: Params, x: Array, y: Array) -> tuple[Params, Array]:
    """One step of gradient descent: new parameters and the loss."""
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads), loss


# How it is split

BP = partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"params/up": 1}, axis="M", name="MP")
Z3 = partir.ManualPartition({"params/*": partir.FIRST_DIVISIBLE_DIM}, "B", name="Z3")

schedule = [BP, MP, Z3]
donate_argnums = 0


def example_args() -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of the arguments: nothing is allocated."""
    batch = jax.ShapeDtypeStruct((BATCH, WIDTH), "float32")
    return (jax.eval_shape(init, jax.random.key(0)), batch, batch), {}


# Running it


def main() -> None:
    """Print the table, train, and compare with one device."""
    jax.config.update("jax_num_cpu_devices", 8)
    mesh = partir.Mesh({"B": 4, "M": 2})
    step = partir.jit(train_step, mesh, schedule, donate_argnums=donate_argnums)
    args, _ = example_args()
    partitioned = step.partitioned(*args)
    print(partitioned)

    # Parameters are made where they belong: no device ever holds them whole.
    key = jax.random.key(0)
    shardings = partitioned.in_shardings()[0]
    params = jax.jit(init, out_shardings=shardings)(key)
    print("up is", params["up"].sharding.spec, "down is", params["down"].sharding.spec)

    alone, alone_step = init(key), jax.jit(train_step)
    x, y = jax.random.normal(jax.random.key(1), (2, BATCH, WIDTH))
    for number in range(3):
        params, loss = step(params, x, y)
        alone, expected = alone_step(alone, x, y)
        print(f"step {number}: loss {loss:.5f}, on one device {expected:.5f}")


if __name__ == "__main__":
    main()
