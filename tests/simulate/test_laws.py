"""Laws that hold for any program and any device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings, strategies as st

import partir
from partir.simulate.cost import Cost
from partir.simulate.device.catalogue import _SPECS
from partir.simulate.device.fusion_policy import XLA
from partir.simulate.estimate import Estimate
from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.fusion import Fuser
from partir.simulate.kernels.kernel import Kernels
from partir.simulate.memory.donation import paired
from partir.simulate.network.collectives import Network
from partir.simulate.time import Clock, total
from tests.simulate import models

SCHEDULES = {
    "nothing": (),
    "BP": (models.BATCH,),
    "BP+MP": (models.BATCH, models.MODEL),
    "BP+MP+Z3": (models.BATCH, models.MODEL, models.SHARDED),
}
STEPS = {name: models.partitioned(schedule=s) for name, s in SCHEDULES.items()}
LOOP = models.partitioned(models.looped(5), SCHEDULES["BP+MP"])
PROGRAMS = {**STEPS, "loop": LOOP}

specs = st.sampled_from(_SPECS)
programs = st.sampled_from(list(PROGRAMS))


def estimate(name: str, spec: Any, **options: Any) -> Estimate:
    return PROGRAMS[name].estimate_on(spec, **options)


@given(name=programs, spec=specs, faster=st.floats(1, 50), which=st.integers(0, 4))
@settings(max_examples=60)
def test_a_better_device_is_never_slower(
    name: str, spec: Any, faster: float, which: int
) -> None:
    field = (
        "flops_per_s",
        "memory_bytes_per_s",
        "link_bytes_per_s",
        "network_bytes_per_s",
        "matrix_efficiency",
    )[which]
    most = 8 if field == "matrix_efficiency" else 1e30
    better = replace(spec, **{field: min(getattr(spec, field) * faster, most)})
    slack = 1 + 1e-9
    assert estimate(name, better).seconds <= estimate(name, spec).seconds * slack


@given(name=programs, spec=specs)
@settings(max_examples=40)
def test_overlap_never_hurts_and_hides_no_work(name: str, spec: Any) -> None:
    spec = replace(spec, overlap=True)
    apart = estimate(name, spec, overlap=False)
    beside = estimate(name, spec)
    assert beside.seconds <= apart.seconds * (1 + 1e-9)
    assert apart.seconds == pytest.approx(apart.cost.seconds + spec.step_seconds)
    assert beside.cost == apart.cost
    assert beside.seconds >= beside.compute_seconds * (1 - 1e-9)


@given(name=programs, spec=specs)
@settings(max_examples=40)
def test_the_sum_over_kernels_is_the_whole(name: str, spec: Any) -> None:
    found = Estimate(PROGRAMS[name].spmd, replace(spec, combine_bytes=0.0))
    program = found.compiled
    clock = Clock(program.types, spec, Network(program.mesh, spec), lambda b: b)
    each = [clock.kernel_cost(k) for k in Fuser(program, spec.fusion).run().kernels]
    assert total(each).flops == pytest.approx(found.cost.flops)
    assert total(each).seconds == pytest.approx(found.cost.seconds)
    halves = total(each[: len(each) // 2]) + total(each[len(each) // 2 :])
    assert halves.seconds == pytest.approx(total(each).seconds)


@given(name=programs, spec=specs)
@settings(max_examples=40)
def test_nothing_is_free(name: str, spec: Any) -> None:
    program = PROGRAMS[name].spmd
    clock = Clock(program.types, spec, Network(program.mesh, spec), lambda b: b)
    run = clock.run(Fuser(program, XLA).run())
    for kernel, seconds in zip(run.block.kernels, run.durations, strict=True):
        cost = clock.kernel_cost(kernel)
        assert seconds > 0
        assert cost.memory_bytes > 0 or cost.link_bytes > 0
        if kernel.members:
            assert cost.communication_seconds > 0
            assert cost.link_bytes > 0


@given(trips=st.integers(1, 50), spec=specs)
@settings(max_examples=30)
def test_doubling_a_loop_doubles_its_cost(trips: int, spec: Any) -> None:
    def cost(trip_count: int) -> Cost:
        return WHILE.estimate_on(spec, trip_count=trip_count).cost

    rest = cost(0)
    once, twice = cost(trips), cost(2 * trips)
    assert twice.flops - rest.flops == pytest.approx(2 * (once.flops - rest.flops))
    assert twice.seconds - rest.seconds == pytest.approx(
        2 * (once.seconds - rest.seconds)
    )
    assert once * 2 == once + once


def _until_small(x: Any) -> Any:
    """A loop whose length depends on the data."""
    return jax.lax.while_loop(
        lambda x: jnp.sum(x) > 1.0, lambda x: jnp.tanh(x) * 0.5, x
    )


WHILE = models.partitioned(
    _until_small, [models.BATCH], args=(models.f32((64, 64), "float32"),)
)


def test_a_loop_of_unknown_length_counts_once_unless_said() -> None:
    assert WHILE.unknown_trip_counts
    once = WHILE.estimate
    assert once.flops == WHILE.estimate_on(trip_count=1).flops
    assert WHILE.estimate_on(trip_count=10).flops > 5 * once.flops


MAPS: dict[str, Callable[[Any], Any]] = {
    "one op": lambda x: x + 1.0,
    "chain": lambda x: jnp.tanh(x) * x + jnp.exp(x) / (1 + x * x),
    "select": lambda x: jnp.where(x > 0, x * 2, -x),
}


@given(
    name=st.sampled_from(list(MAPS)),
    dim=st.integers(0, 1),
    size=st.sampled_from([2, 4, 8]),
)
@settings(max_examples=30)
def test_tiling_a_map_never_raises_flops(name: str, dim: int, size: int) -> None:
    x = models.f32((64, 64), "float32")
    tile = partir.ManualPartition({"x": dim}, axis="B")
    fn = MAPS[name]

    def run(x: Any) -> Any:
        return fn(x)

    whole = partir.partition(run, {"B": size}, [], args=(x,), device="a100")
    split = partir.partition(run, {"B": size}, [tile], args=(x,), device="a100")
    assert split.estimate.flops == pytest.approx(whole.estimate.flops / size)
    assert split.estimate.seconds <= whole.estimate.seconds
    assert split.estimate.peak_bytes <= whole.estimate.peak_bytes


def test_padding_to_tiles_costs_time() -> None:
    spec = partir.devices["tpu_v5e"]
    spec = replace(spec, kernel_seconds=0.0, memory_bytes_per_s=1e15)

    def seconds(width: int) -> float:
        x = models.f32((1024, width), "bfloat16")
        w = models.f32((width, 4096), "bfloat16")
        done = partir.partition(jnp.matmul, {"B": 1}, [], args=(x, w), device=spec)
        return done.estimate.seconds

    assert seconds(129) == pytest.approx(seconds(256))
    assert seconds(128) < seconds(129)


@given(name=programs, spec=specs, given=st.booleans())
@settings(max_examples=40)
def test_what_stands_for_itself_alone_costs_the_same(
    name: str, spec: Any, given: bool
) -> None:
    """A folded program in which nothing is repeated is the whole program."""
    program = PROGRAMS[name].spmd
    arguments, results = program.body.arguments, program.body.results
    donated = [given] * len(arguments)
    types = program.types
    once = Multiplicity(
        ops=[1] * len(program.program.ops),
        arguments=[1] * len(arguments),
        results=[1] * len(results),
        succeeded=paired(
            list(zip((types[v] for v in arguments), program.in_tilings, strict=True)),
            list(zip((types[v] for v in results), program.out_tilings, strict=True)),
            donated,
        ),
        spans=[(n, n) for n in range(len(program.program.ops))],
    )
    whole = Estimate(program, spec, donated)
    folded = Estimate(program, spec, donated, multiplicity=once)
    for figure, value in whole.to_json().items():
        expected = value if isinstance(value, str) else pytest.approx(value, rel=1e-12)
        assert folded.to_json()[figure] == expected
    assert folded.cost == whole.cost
    assert folded.collectives == whole.collectives == program.collectives
    assert folded.timeline == whole.timeline or spec.order == "breadth_first"


def test_kernels_write_what_others_read() -> None:
    for done in PROGRAMS.values():
        block = Fuser(done.spmd, XLA).run()
        _check(block, set())


def _check(block: Kernels, there: set[int]) -> None:
    there = there | set(block.arguments)
    for kernel in block.kernels:
        assert there >= set(kernel.reads)
        for inner in kernel.inner:
            _check(inner, there)
        there |= set(kernel.writes)
    assert there >= {v for v in block.results if v is not None}
