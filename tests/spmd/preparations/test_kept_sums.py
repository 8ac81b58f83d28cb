"""Sums that are kept in place of what they are made of, on CPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir.spmd.export_policy import XLA_CPU
from partir.spmd.preparations import joint_moves
from partir.spmd.preparations.kept_sums import keep_sums
from partir.spmd.preparations.prepare import prepared
from partir.spmd.program import Control, SpmdProgram, is_barrier
from partir.spmd.rewrites.sweep import collectives_of, run_pass
from partir.spmd.stablehlo.export import stablehlo_text
from tests.explain.programs import f32

AXES = {"B": 4}
LAYERS = 4
BATCH = partir.ManualPartition({"x": 0}, axis="B", name="BP")
Z3 = partir.ManualPartition(
    {"weights/w/*": 0}, axis="B", name="Z3", outputs={"out/w/*": 0}
)


def layered(weights: Any, x: Array) -> Array:
    """Each layer adds what it makes, and a bias, to what came in."""
    for weight, bias in zip(weights["w"], weights["b"], strict=True):
        x = x + (jnp.tanh(x) @ weight + bias)
    return jnp.sum(x**2)


def step(weights: Any, x: Array) -> Any:
    gradients = jax.grad(layered)(weights, x)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)


def done(function: Any = step, rows: int = 64, tactics: Any = (BATCH,)) -> Any:
    weights = {"w": [f32(64, 64)] * LAYERS, "b": [f32(64)] * LAYERS}
    args = weights, f32(rows, 64)
    return partir.partition(function, AXES, tactics, args=args, device="cpu")


def barriers(program: SpmdProgram) -> list[Control]:
    return [op for op in program.body.ops if is_barrier(op)]


@pytest.mark.identity("waiting")
def test_what_goes_from_layer_to_layer_is_kept() -> None:
    record = done()
    kept = barriers(run_pass(record.spmd, keep_sums))
    assert len(kept) >= LAYERS
    assert all(record.spmd.program.ops[op.node].kind == "stablehlo.add" for op in kept)
    assert not record.verify(stablehlo_text(record.spmd, XLA_CPU)).not_proved
    assert barriers(prepared(record.spmd, replace(XLA_CPU, keeps_sums=False))) == []


def of_two(reads: int, again: bool) -> SpmdProgram:
    """A sum of two products that is read so often, and its parts again or not."""

    def made(x: Array, u: Array, v: Array) -> list[Array]:
        left, right = x @ u, x @ v
        both = left + right
        found = [both @ u] + [jnp.tanh(both) @ v] * (reads - 1)
        return found + [left @ v, right @ u] * again

    args = f32(64, 64), f32(64, 64), f32(64, 64)
    return partir.partition(made, AXES, [BATCH], args=args).spmd


def test_only_what_is_read_again_takes_the_place_of_its_parts() -> None:
    assert len(barriers(run_pass(of_two(2, again=False), keep_sums))) == 1
    for program in (of_two(1, again=False), of_two(2, again=True)):
        assert run_pass(program, keep_sums) is program


def test_numbers_are_those_of_one_device() -> None:
    random = np.random.default_rng(0)

    def drawn(one: jax.ShapeDtypeStruct) -> np.ndarray:
        return (random.normal(size=one.shape) / 8).astype(np.float32)

    args = jax.tree.map(
        drawn, ({"w": [f32(64, 64)] * 4, "b": [f32(64)] * 4}, f32(64, 64))
    )
    got = partir.jit(step, AXES, [BATCH])(*args)
    for one, wanted in zip(
        *map(jax.tree.leaves, (got, jax.jit(step)(*args))), strict=True
    ):
        np.testing.assert_allclose(one, wanted, rtol=2e-4, atol=1e-4)


def test_weights_that_are_gathered_are_not_gathered_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joint_moves, "LITTLE", 1 << 12)
    monkeypatch.setattr(joint_moves, "_SHARE", 1)

    def joint(rows: int) -> int:
        ready = prepared(done(rows=rows, tactics=(BATCH, Z3)).spmd, XLA_CPU)
        moves = collectives_of(ready.body.ops)
        return sum(op.joint >= 0 for op in moves if op.kind == "all_gather")

    assert joint(rows=8) == 0
    assert joint(rows=4096) > 0


def test_a_loss_is_there_before_the_way_back_where_weights_are_larger() -> None:
    def losses(weights: Any, table: Array, x: Array) -> Any:
        for weight in weights:
            x = x + jnp.tanh(x @ weight)
        return -jnp.mean(jax.nn.log_softmax(x @ table)[:, :1])

    step = jax.value_and_grad(losses, (0, 1))
    tactics = [
        partir.ManualPartition({"x": 0}, axis="B", name="BP"),
        partir.ManualPartition({"weights/*": 0, "table": 0}, axis="B", name="Z3"),
    ]
    later = replace(XLA_CPU, orders_sums=False)
    for rows, waits in ((16, True), (8192, False)):
        args = [f32(256, 256)] * LAYERS, f32(256, 512), f32(rows, 256)
        record = partir.partition(step, AXES, tactics, args=args, device="cpu")
        text = stablehlo_text(record.spmd, XLA_CPU)
        assert (text != stablehlo_text(record.spmd, later)) is waits
        assert not record.verify(text).not_proved
