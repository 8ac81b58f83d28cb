"""Pipelines: permutes by count, numbers on devices, idle time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import partir
from benchmarks.models import stacked
from benchmarks.named_runs import SMALL, pipelined_transformer
from tests.e2e.compare import QUICK, assert_same

HEAD = partir.ManualPartition({"head": 0}, axis="S", name="head")


@pytest.mark.usefixtures("x64")
def test_transformer_under_three_kinds_of_parallelism() -> None:
    """Eight layers in two stages, batch and heads split too: three training steps."""
    run = pipelined_transformer()
    args, carry = run.args, {"out/0": "params", "out/1": "opt_state"}
    schedule = [*run.schedule, HEAD]
    done = replace(run, schedule=schedule).partitioned(
        carry=carry, compiler_options=QUICK
    )
    ticks = 4 + 2 - 1
    for step in done.steps[2:]:
        assert step.collectives["collective_permute"] == 2 * ticks
    assert not any(done.steps[2].collectives[k] for k in ("all_gather", "all_to_all"))
    # What stands behind the pipeline is whole on every stage, or split as it leaves.
    assert done.steps[3].work < done.steps[2].work
    assert not done.replicated_ops
    ours, theirs = args[:2], args[:2]
    partitioned = done.compile()
    one_device = jax.jit(stacked.step_for(SMALL), compiler_options=QUICK)
    for _ in range(3):
        *ours, loss = partitioned(*ours, *args[2:])
        *theirs, wanted = one_device(*theirs, *args[2:])
        assert_same((ours, loss), (theirs, wanted))


def body(layer: Any, x: Any) -> Any:
    return x + jnp.tanh(x @ layer["up"]) @ layer["down"]


def gradient_step(layers: Any) -> Any:
    def step(params: Any, x: Any, y: Any) -> Any:
        def loss(params: Any, x: Any) -> Any:
            return jnp.mean((layers(params, x) - y) ** 2)

        value, (gradients, ahead) = jax.value_and_grad(loss, (0, 1))(params, x)
        update = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
        return update, value, ahead

    return step


def arguments(*stack: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    up = 0.1 * rng.standard_normal((*stack, 8, 16))
    down = 0.1 * rng.standard_normal((*stack, 16, 8))
    return {"up": up, "down": down}, *rng.standard_normal((2, 32, 8))


def plain(params: Any, x: Any) -> Any:
    flat = jax.tree.map(lambda w: w.reshape(-1, *w.shape[-2:]), params)
    return jax.lax.scan(lambda x, layer: (body(layer, x), None), x, flat)[0]


def expected(*args: Any) -> Any:
    return jax.jit(gradient_step(plain), compiler_options=QUICK)(*args)


CARRY = {"out/0": "params"}
ZERO = partir.ManualPartition({"params/*": -1}, axis="B", name="Z3")


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("zero", [False, True])
def test_the_hand_over_is_one_permute_of_a_microbatch(zero: bool) -> None:
    layers = partir.pipelined(body, 4, 8)
    tactics = [
        partir.ManualPartition({"params/*": 0}, axis="S", name="stages"),
        partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP"),
        *[ZERO] * zero,
    ]
    args = arguments(8)
    done = partir.partition(
        gradient_step(layers),
        {"S": 4, "B": 2},
        tactics,
        args=args,
        carry=CARRY,
        compiler_options=QUICK,
    )
    assert done.collectives["collective_permute"] == 2 * 11
    text = done.spmd_text()
    assert text.count("= exchange 0 {S}") == 2
    assert "f64[1,2,8]" in next(li for li in text.splitlines() if "exchange" in li)
    # What leaves the last stage, and what comes back to the batch, once each.
    assert text.count("all_reduce sum {S}") == 2
    assert text.count("= all_gather") == (4 if zero else 0)
    assert_same(done.compile()(*args), jax.jit(gradient_step(plain))(*args), zero=1e-12)


@pytest.mark.usefixtures("x64")
def test_going_round_twice_shrinks_the_bubble() -> None:
    args = arguments(2, 8)
    stages = partir.ManualPartition({"params/*": 1}, axis="S", name="stages")
    layers = partir.pipelined(body, 4, 8, repeats=2)
    done = partir.partition(
        gradient_step(layers),
        {"S": 4},
        [stages],
        args=args,
        carry=CARRY,
        device="h100",
        compiler_options=QUICK,
    )
    ticks = 2 * 8 + 4 - 1
    assert done.collectives["collective_permute"] == 2 * ticks
    assert done.collectives["all_gather"] == done.collectives["all_to_all"] == 0
    assert_same(done.compile()(*args), jax.jit(gradient_step(plain))(*args), zero=1e-12)
    loops = [e.seconds for e in done.estimate.timeline if e.inner]
    assert done.estimate.bubble_seconds == pytest.approx(sum(loops) * 3 / 19)


def test_bubbles_are_the_idle_share_of_the_loops() -> None:
    args = arguments(8)
    stages = partir.ManualPartition({"params/*": 0}, axis="S", name="stages")

    def estimate(step: Any, tactics: Any = (stages,)) -> Any:
        return partir.partition(
            step, {"S": 4}, tactics, args=args, device="h100"
        ).estimate

    few, many = (
        estimate(gradient_step(partir.pipelined(body, 4, count))) for count in (4, 16)
    )
    for found, share in ((few, 3 / 7), (many, 3 / 19)):
        loops = [event.seconds for event in found.timeline if event.inner]
        assert found.bubble_seconds == pytest.approx(share * sum(loops))
    # Stages that run at once keep fewer activations each.
    assert many.peak_bytes < few.peak_bytes
    assert estimate(gradient_step(plain), ()).bubble_seconds == 0

    def accumulated(params: Any, x: Any, y: Any) -> Any:
        step = gradient_step(partir.pipelined(body, 4, 4))
        return jax.lax.scan(lambda p, _: (step(p, x, y)[0], None), params, None, 3)[0]

    assert estimate(accumulated).bubble_seconds > 2.5 * few.bubble_seconds


def test_zero_leaves_the_layers_of_a_stage_alone() -> None:
    """Stages are taken: the first dimension that divides is one of the weights' own."""
    stages = partir.ManualPartition({"params/*": 0}, axis="S", name="stages")
    first = {"params/*": partir.FIRST_DIVISIBLE_DIM}
    zero = partir.ManualPartition(first, axis="B", name="Z3")
    step, args = gradient_step(partir.pipelined(body, 4, 8)), arguments(16)
    done = partir.partition(
        step, {"S": 4, "B": 2}, [stages, zero], args=args, carry=CARRY
    )
    assert done.in_specs[0] == dict.fromkeys(("up", "down"), jax.P("S", "B"))
    # Where stages are left, they are as good as any.
    few = partir.partition(step, {"S": 2, "B": 2}, [stages, zero], args=args)
    assert few.in_specs[0]["up"] == jax.P(("S", "B"))
