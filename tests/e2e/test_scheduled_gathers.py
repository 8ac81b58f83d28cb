"""Gathers as XLA schedules them: a weight is there when it is needed, and no longer."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import partir

LAYERS, WIDTH, BATCH = 16, 512, 8
BP = partir.ManualPartition({"x": 0}, axis="B", name="BP")
Z3 = partir.ManualPartition({"params/**": partir.FIRST_DIVISIBLE_DIM}, axis="B")


def loss_fn(params: list[dict[str, Array]], x: Array) -> Array:
    for layer in params:
        x = x + jnp.tanh(x @ layer["up"]) @ layer["down"]
    return jnp.mean(x**2)


def step(params: list[dict[str, Array]], x: Array) -> tuple[Any, Array]:
    loss, grads = jax.value_and_grad(loss_fn)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def most_alive(scheduled: str, kind: str) -> tuple[int, int]:
    """How many ops of a kind there are in a scheduled program, and alive at a time."""
    lines = scheduled[scheduled.index("\nENTRY") :].splitlines()
    made: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, line in enumerate(lines):
        name, _, rest = line.removeprefix("  ROOT ").strip().partition(" = ")
        last.update(dict.fromkeys(re.findall(r"%[\w.-]+", rest), place))
        if f" {kind}(" in rest:
            made[name] = place
    spans = [(born, last[name]) for name, born in made.items()]
    alive = [sum(b <= born <= end for b, end in spans) for born in made.values()]
    return len(made), max(alive)


def test_no_more_than_two_weights_are_whole_at_a_time() -> None:
    shape = jax.ShapeDtypeStruct
    params = [
        {
            "up": shape((WIDTH, 4 * WIDTH), "float32"),
            "down": shape((4 * WIDTH, WIDTH), "float32"),
        }
        for _ in range(LAYERS)
    ]
    args = params, shape((BATCH, WIDTH), "float32")
    done = partir.partition(step, {"B": 8}, [BP, Z3], args=args)
    compiled = done.compile().lower(*args).compile()
    gathers, alive = most_alive(compiled.as_text(), "all-gather")
    assert gathers == done.collectives["all_gather"] == 4 * LAYERS - 1
    assert alive <= 2
    # One weight is 4 MB: tiles of all gradients, one weight and one gradient are kept.
    assert compiled.memory_analysis().temp_size_in_bytes < 30e6


def test_parameters_that_are_donated_are_updated_in_place() -> None:
    shape = jax.ShapeDtypeStruct
    params = [
        {"up": shape((64, 256), "float32"), "down": shape((256, 64), "float32")}
        for _ in range(4)
    ]

    def momentum(params: Any, state: Any, x: Array) -> Any:
        grads = jax.grad(loss_fn)(params, x)
        state = jax.tree.map(lambda m, g: 0.9 * m + g, state, grads)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, state), state

    args = params, params, shape((BATCH, 64), "float32")
    whole = {"params/**": partir.REPLICATED, "state/**": partir.FIRST_DIVISIBLE_DIM}
    tactics = [BP, partir.ManualPartition(whole, axis="B", name="Z2")]
    done = partir.partition(
        momentum, {"B": 8}, tactics, args=args, donate_argnums=(0, 1)
    )
    compiled = done.compile().lower(*args).compile()
    text = compiled.as_text()
    steps = text[text.index("\nENTRY") :]
    assert done.collectives["reduce_scatter"] == steps.count(" reduce-scatter(") == 8
    assert re.findall(r"= f32\[\d+,\d+\]\S* copy\(%\S+", steps) == []
