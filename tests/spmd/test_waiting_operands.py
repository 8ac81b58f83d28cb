"""What waits on CPUs: operands that are put in order, and what loops carry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from partir.spmd import export_policy
from partir.spmd.export_policy import XLA_CPU
from partir.spmd.preparations.late_operands import put_in_order_late
from partir.spmd.preparations.prepare import prepared
from partir.spmd.program import (
    Block,
    Control,
    SpmdProgram,
    has_barriers,
    is_barrier,
)
from partir.spmd.rewrites.sweep import run_pass
from partir.spmd.stablehlo.export import stablehlo_text
from tests.explain.programs import f32

AXES = {"B": 4}
BATCH = partir.ManualPartition({"x": 0}, axis="B", name="BP")
STATE = partir.ManualPartition({}, axis="B", name="Z2", outputs={"**": 0})
STACKS = partir.ManualPartition(
    {"weights/*": 1}, axis="B", name="Z3", outputs={"**": 1}
)
Weights = dict[str, Array]
WAITS = replace(XLA_CPU, keeps_sums=False)  # without the barriers of sums


def layer(x: Array, weights: Weights) -> tuple[Array, None]:
    return x + jax.nn.relu(x @ weights["up"]) @ weights["down"], None


def unrolled(weights: Weights, x: Array) -> Array:
    for _ in range(4):
        x, _ = layer(x, weights)
    return jnp.sum(x**2)


def scanned(weights: Weights, x: Array) -> Array:
    return jnp.sum(lax.scan(layer, x, weights)[0] ** 2)


def partitioned(loss: Any, rows: int, *tactics: Any, width: int = 16) -> Any:
    """Gradients of four layers."""
    stack = () if loss is unrolled else (4,)
    weights = {"up": f32(*stack, width, 64), "down": f32(*stack, 64, width)}
    args = weights, f32(rows, width)
    return partir.partition(jax.grad(loss), AXES, tactics, args=args, device="cpu")


def barriers(block: Block) -> list[Control]:
    return [op for op in block.ops if is_barrier(op)]


def body_of_last_loop(program: SpmdProgram) -> Block:
    loops = [op for op in program.body.ops if isinstance(op, Control) and op.blocks]
    return loops[-1].blocks[1]


def temporaries(done: Any, monkeypatch: Any, **changes: bool) -> int:
    """What XLA takes for a program that is written otherwise."""
    policy = replace(XLA_CPU, **changes)
    monkeypatch.setitem(export_policy._PLATFORMS, "cpu", policy)
    stats = done.compile().lower_abstract().compile().memory_analysis()
    return int(stats.temp_size_in_bytes)


# put_in_order_late


@pytest.mark.identity("waiting")
def test_operands_that_are_put_in_order_wait_for_the_others() -> None:
    done = partitioned(unrolled, 1024, BATCH, STATE)
    ready = prepared(done.spmd, WAITS)
    assert len(barriers(ready.body)) == 8  # two weights in four layers
    assert has_barriers(ready, written=False)
    assert not has_barriers(ready, written=True)
    assert not done.verify(stablehlo_text(done.spmd, XLA_CPU)).not_proved
    early = replace(WAITS, orders_late=False)
    assert barriers(prepared(done.spmd, early).body) == []


def test_what_several_products_put_in_order_waits_once() -> None:
    def three(x: Array, *others: Array) -> list[Array]:
        x = jnp.tanh(x)
        return [
            lax.dot_general(x, jnp.sin(o), (((0,), (0,)), ((), ()))) for o in others
        ]

    args = [f32(64, 8) for _ in range(4)]
    done = partir.partition(three, AXES, [BATCH], args=args)
    (barrier,) = barriers(run_pass(done.spmd, put_in_order_late).body)
    assert len(barrier.operands) == 2


def test_what_is_not_made_here_is_not_waited_for() -> None:
    done = partir.partition(
        lambda x, y: jnp.einsum("bi,bo->io", jnp.tanh(x), y),
        AXES,
        [partir.ManualPartition({"x": 0, "y": 0}, axis="B")],
        args=(f32(64, 8), f32(64, 8)),
    )
    assert run_pass(done.spmd, put_in_order_late) is done.spmd


def test_nothing_waits_where_xla_minds_memory_or_in_loops() -> None:
    sharded = partir.ManualPartition({"weights/*": 0}, axis="B", name="Z3")
    heavy = partitioned(unrolled, 16, BATCH, sharded, width=128)
    assert barriers(prepared(heavy.spmd, WAITS).body) == []
    loops = prepared(partitioned(scanned, 1024, BATCH).spmd, WAITS)
    assert barriers(body_of_last_loop(loops)) == []


def test_nothing_waits_where_the_authors_barriers_are_left_out() -> None:
    def recomputed(weights: Weights, x: Array) -> Array:
        for _ in range(4):
            x, _ = jax.checkpoint(layer)(x, weights)
        return jnp.sum(x**2)

    args = {"up": f32(16, 64), "down": f32(64, 16)}, f32(4096, 16)
    done = partir.partition(jax.grad(recomputed), AXES, [BATCH], args=args)
    assert has_barriers(done.spmd, written=True)
    assert barriers(prepared(done.spmd, XLA_CPU).body) == []


def test_xla_then_keeps_no_second_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    done = partitioned(unrolled, 4096, BATCH, STATE)
    late = temporaries(done, monkeypatch)
    assert late < 0.97 * temporaries(done, monkeypatch, orders_late=False)
    estimate = done.estimate_on(partir.devices["cpu"]).temporary_bytes
    assert estimate == pytest.approx(late, rel=0.05)


# scatter_before_replacing


@pytest.mark.identity("waiting")
def test_what_a_loop_carries_waits_for_what_is_scattered_of_it() -> None:
    done = partitioned(scanned, 64, BATCH, STACKS)
    body = body_of_last_loop(prepared(done.spmd, WAITS))
    (barrier,) = barriers(body)
    assert set(barrier.results) <= set(body.results)
    assert not done.verify(stablehlo_text(done.spmd, XLA_CPU)).not_proved
    later = replace(XLA_CPU, scatters_first=False)
    assert barriers(body_of_last_loop(prepared(done.spmd, later))) == []


def test_nothing_waits_for_gradients_that_stay_whole() -> None:
    done = partitioned(scanned, 64, BATCH)
    assert barriers(body_of_last_loop(prepared(done.spmd, WAITS))) == []


# use_before_replacing


def replaced(weights: Weights, x: Array) -> Weights:
    """A step of training, in which what is gathered is much more than activations."""
    gradients = jax.grad(chained)(weights, x)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)


def chained(weights: Weights, x: Array) -> Array:
    for weight in weights.values():
        x = jnp.tanh(x @ weight)
    return jnp.sum(x**2)


def trained(rows: int) -> Any:
    args = {str(n): f32(256, 256) for n in range(4)}, f32(rows, 256)
    tactic = partir.ManualPartition(
        {"weights/*": 0}, axis="B", name="Z3", outputs={"**": 0}
    )
    return partir.partition(
        replaced, AXES, [BATCH, tactic], args=args, donate_argnums=0, device="cpu"
    )


@pytest.mark.identity("waiting")
def test_a_parameter_is_replaced_when_what_is_gathered_of_it_was_used() -> None:
    done = trained(16)
    ready = prepared(done.spmd, WAITS)
    made = {op.operands[0] for op in barriers(ready.body)}
    assert made == set(ready.body.arguments[:4])
    assert not done.verify(stablehlo_text(done.spmd, XLA_CPU)).not_proved
    later = replace(WAITS, uses_first=False)
    assert barriers(prepared(done.spmd, later).body) == []


def test_where_activations_are_larger_it_does_not_wait() -> None:
    ready = prepared(trained(8192).spmd, WAITS)
    arguments = set(ready.body.arguments[:4])
    assert arguments.isdisjoint(v for op in barriers(ready.body) for v in op.operands)


def test_xla_then_keeps_less_of_what_is_gathered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = trained(64)
    first = temporaries(done, monkeypatch)
    assert first < 0.98 * temporaries(done, monkeypatch, uses_first=False)
    estimate = done.estimate_on(partir.devices["cpu"]).temporary_bytes
    assert estimate == pytest.approx(first, rel=0.05)


def test_numbers_are_those_of_one_device() -> None:
    random = np.random.default_rng(0)
    weights = {
        name: random.normal(size=size).astype(np.float32) / 8
        for name, size in {"up": (4, 16, 64), "down": (4, 64, 16)}.items()
    }
    x = random.normal(size=(64, 16)).astype(np.float32)
    for loss in (unrolled, scanned):
        own = {k: w[0] for k, w in weights.items()} if loss is unrolled else weights
        tactics = [BATCH, STATE if loss is unrolled else STACKS]
        run = partir.jit(jax.grad(loss), AXES, tactics)
        want = jax.jit(jax.grad(loss))(own, x)
        for got, wanted in zip(*map(jax.tree.leaves, (run(own, x), want)), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=1e-4)
