"""Gathers some products before they are needed, and updates as soon as they can be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.simulate.memory.order import ordered_for_memory
from partir.spmd.program import Cause, Collective

TPU = replace(partir.devices["tpu_v5e"], near_bytes=0.0)
LAYERS, WIDTH, ROWS = 6, 512, 8
GATHERED = WIDTH * WIDTH * 2  # products read bfloat16
Z3 = partir.ManualPartition({"w/**": 0, "x": 0}, axis="B", name="Z3")


def forward(w: list[Any], x: Any) -> Any:
    for weight in w:
        x = jnp.tanh(x @ weight)
    return x


def temporaries(ahead: int) -> int:
    weight = jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32)
    x = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32)
    done = partir.partition(
        forward,
        {"B": 8},
        [Z3],
        args=([weight] * LAYERS, x),
        device=replace(TPU, gathers_ahead=ahead),
    )
    return done.estimate.temporary_bytes


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_what_the_next_products_need_is_in_memory(ahead: int) -> None:
    more = temporaries(ahead) - temporaries(0)
    assert more == pytest.approx(ahead * GATHERED, rel=0.2)


def gather(operand: int, result: int, after: int = -1) -> Kernel:
    cause = Cause(result, 0, 0)
    op = Collective("all_gather", operand, result, ("B",), cause, 0, after=after)
    reads = (operand,) if after < 0 else (operand, after)
    return Kernel(op, reads, (result,))


def product(reads: tuple[int, ...], result: int) -> Kernel:
    op = Collective("all_slice", reads[0], result, ("B",), Cause(result, 0, 0), 0)
    return Kernel(op, reads, (result,), matmul=(1, 1, 1, 1))


def test_ties_do_not_hold_them_but_what_they_read_does() -> None:
    kernels = [
        product((0,), 10),
        product((10,), 11),
        gather(1, 12, after=11),  # of an argument, tied to a product
        gather(11, 13),  # of what the second product makes
        product((12, 13), 14),
    ]
    block = Kernels((0, 1), kernels, (14,))
    moved = ordered_for_memory(block, 2, False)
    assert [k.writes[0] for k in moved.kernels] == [12, 10, 11, 13, 14]
    assert ordered_for_memory(block, 0, False) is block


@pytest.mark.parametrize("at_once", [True, False])
def test_gradients_are_in_memory_until_parameters_are_updated(at_once: bool) -> None:
    """A gradient at a time, or all of them."""

    def step(w: list[Any], m: list[Any], x: Any) -> Any:
        grads = jax.grad(lambda w: forward(w, x).sum())(w)
        rate = 0.1 + x[0, 0]
        m = [a * 0.9 + g for a, g in zip(m, grads, strict=True)]
        return [a - rate * b for a, b in zip(w, m, strict=True)], m

    weight = jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32)
    x = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32)
    done = partir.partition(
        step,
        {"B": 1},
        [],
        args=([weight] * LAYERS, [weight] * LAYERS, x),
        device=replace(TPU, updates_at_once=at_once),
        donate_argnums=(0, 1),
    )
    size = WIDTH * WIDTH * 4
    gradients = done.estimate.temporary_bytes // size
    assert gradients == (1 if at_once else LAYERS)
