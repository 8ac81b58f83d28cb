"""All-reduces that are combined, and what waits for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.search.problem import Problem
from partir.simulate.device.fusion_policy import XLA
from partir.simulate.estimate import Estimate
from partir.simulate.kernels.combining import combine
from partir.simulate.kernels.fusion import Fuser
from partir.spmd.program import Collective
from partir.spmd.stages import lower_state
from tests.simulate import models


def test_independent_all_reduces_are_combined() -> None:
    done = models.partitioned(schedule=(models.BATCH,))
    block = Fuser(done.spmd, XLA).run()
    together = combine(block, 1e18)
    count = sum(len(k.members) for k in together.kernels)
    assert count == sum(done.collectives.values())
    assert sum(bool(k.members) for k in together.kernels) == 1
    apart = combine(block, 1.0)
    assert sum(bool(k.members) for k in apart.kernels) == count


def test_dependent_all_reduces_stay_apart() -> None:
    done = models.partitioned(models.looped(1), schedule=(models.MODEL,))

    def twice(params: dict[str, Any], x: Any) -> Any:
        return models.block(params, models.block(params, x))

    done = models.partitioned(twice, schedule=(models.MODEL,))
    assert done.collectives["all_reduce"] == 2
    together = combine(Fuser(done.spmd, XLA).run(), 1e18)
    assert sum(isinstance(k.op, Collective) for k in together.kernels) == 2


def test_groups_that_would_wait_for_each_other_stay_apart() -> None:
    """Sums over B then M, and over M then B: pairs would need each other's results."""

    def crossed(x: Any, u: Any, y: Any, v: Any) -> tuple[Any, Any]:
        first = jnp.sum(jnp.tanh(jnp.sum(x, axis=0)) * u)
        return first, jnp.sum(jnp.tanh(jnp.sum(y, axis=0)) * v)

    x = models.f32((8, 8), "float32")
    u = models.f32((8,), "float32")
    schedule = [
        partir.ManualPartition({"x": 0, "v": 0}, axis="B"),
        partir.ManualPartition({"y": 0, "u": 0}, axis="M"),
    ]
    args = (x, u, x, u)
    done = partir.partition(crossed, {"B": 2, "M": 2}, schedule, args=args)
    assert done.collectives["all_reduce"] == 4
    together = combine(Fuser(done.spmd, XLA).run(), 1e18)
    sizes = [len(k.members) for k in together.kernels if k.members]
    assert sorted(sizes) == [1, 1, 2]


def test_what_waits_for_combined_all_reduces_comes_after_them() -> None:
    """The loss is there early, but not its sum; nothing else is put off or moved."""

    def step(w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            return jnp.sum(jnp.tanh(x @ w) @ w)

        value, grad = jax.value_and_grad(loss)(w)
        return jnp.tanh(value), w - grad

    w, x = models.f32((64, 64), "float32"), models.f32((512, 64), "float32")
    batch = partir.ManualPartition({"x": 0}, axis="B")
    done = partir.partition(step, {"B": 4}, [batch], args=(w, x))
    block = Fuser(done.spmd, XLA).run()
    together = combine(block, 1e18)
    (combined,) = (k for k in together.kernels if len(k.members) == 2)
    late = [k for k in together.kernels if not set(combined.writes).isdisjoint(k.reads)]
    places = {id(k.op): n for n, k in enumerate(together.kernels)}
    assert all(places[id(k.op)] > places[id(combined.op)] for k in late)
    others = [k.op for k in block.kernels if not k.members and k not in late]
    kept = [k.op for k in together.kernels if not k.members and k not in late]
    assert others == kept


def test_repetitions_that_take_turns_are_not_combined_with_what_is_once() -> None:
    """In the whole program, only one of them can be."""

    def step(params: list[Any], x: Any, y: Any) -> Any:
        for w in params:
            x = jnp.tanh(x @ w["up"]) @ w["down"]
        return x, jnp.sum(y)

    w, x = models.f32((512, 512), "float32"), models.f32((2048, 512), "float32")
    tiles = {"params/*/up": 1, "y": 0}
    model = partir.ManualPartition(tiles, axis="M", name="MP")
    args = ([{"up": w, "down": w}] * 5, x, models.f32((64,), "float32"))
    state = partir.partition(step, {"M": 2}, [model], args=args).steps[-1].state
    device = replace(partir.devices["tpu_v3"], fusion=XLA)
    problem = Problem(state, ("M",), device, [False] * 12)
    folded = problem.estimate(problem.start)
    whole = Estimate(lower_state(state), device)
    pairs = zip(folded._kernels.kernels, folded._kernels.counts, strict=True)
    assert sorted(count for kernel, count in pairs if kernel.members) == [1, 5]
    assert folded.seconds == pytest.approx(whole.seconds, rel=0.01)
    assert folded.peak_bytes == pytest.approx(whole.peak_bytes, rel=0.01)
