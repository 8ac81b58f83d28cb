"""Peak memory against XLA's, and what is alive there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.simulate.kernels import Fuser
from partir.simulate.order import breadth_first, combine
from partir.spmd.program import Collective
from tests.simulate import models


def xla_bytes(done: partir.Partitioned) -> int:
    found = done.compile().lower_abstract().compile().memory_analysis()
    return int(
        found.argument_size_in_bytes
        + found.temp_size_in_bytes
        + found.output_size_in_bytes
        - found.alias_size_in_bytes
    )


@pytest.mark.parametrize("donated", [(), (0,)], ids=["kept", "donated"])
@pytest.mark.parametrize(
    "schedule",
    [
        (),
        (models.BATCH,),
        (models.BATCH, models.MODEL),
        (models.BATCH, models.MODEL, models.SHARDED),
    ],
    ids=["nothing", "BP", "BP+MP", "BP+MP+Z3"],
)
def test_close_to_xla(schedule: Any, donated: Any) -> None:
    done = models.partitioned(schedule=schedule, donate_argnums=donated, device="cpu")
    assert done.estimate.peak_bytes == pytest.approx(xla_bytes(done), rel=0.25)


def test_loops_have_a_peak_of_their_own() -> None:
    done = models.partitioned(models.looped(7), device="cpu")
    assert done.estimate.peak_bytes == pytest.approx(xla_bytes(done), rel=0.25)
    longer = models.partitioned(models.looped(70), device="cpu")
    assert longer.estimate.peak_bytes == done.estimate.peak_bytes


def rematerialised(params: dict[str, Any], x: Any) -> Any:
    def loss(params: dict[str, Any]) -> Any:
        y = x
        for _ in range(4):
            y = jax.checkpoint(models.block)(params, y)
        return jnp.mean(y * y)

    return jax.grad(loss)(params)


def test_rematerialisation_saves_where_barriers_are_kept() -> None:
    done = models.partitioned(
        rematerialised, (models.BATCH,), device="cpu", args=models.args(batch=2048)
    )
    dropped = done.estimate.peak_bytes
    assert dropped == pytest.approx(xla_bytes(done), rel=0.25)
    keeping = replace(partir.devices["cpu"], keeps_barriers=True)
    assert done.estimate_on(keeping).peak_bytes < 0.8 * dropped


def test_results_lend_their_buffers_to_nothing_larger() -> None:
    def small_results(x: Any, w: Any) -> Any:
        y = jnp.tanh(x @ w)
        return [y[n] * 2 for n in range(8)], (y @ w)[0]

    x, w = models.f32((256, 256), "float32"), models.f32((256, 256), "float32")
    done = partir.partition(small_results, {"B": 1}, [], args=(x, w), device="cpu")
    assert done.estimate.temporary_bytes >= 2 * 256 * 256 * 4
    assert done.estimate.peak_bytes == pytest.approx(xla_bytes(done), rel=0.25)


def test_donating_saves_the_results_memory() -> None:
    x = models.f32((256, 256), "float32")

    def peak(**options: Any) -> int:
        options |= {"args": (x,), "device": "cpu"}
        return partir.partition(jnp.tanh, {"B": 1}, [], **options).estimate.peak_bytes

    assert peak() == 2 * 256 * 256 * 4
    assert peak(donate_argnums=(0,)) == 256 * 256 * 4


def test_what_is_alive_at_the_peak() -> None:
    found = models.partitioned(donate_argnums=(0,)).estimate
    names = [one.name for one in found.alive_at_peak]
    assert {"params/up", "params/down", "x"} <= set(names)
    assert any("dot_general" in name and "models.py" in name for name in names)
    sizes = [one.bytes for one in found.alive_at_peak]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) >= found.peak_bytes * 0.9


def test_results_are_named_at_the_peak() -> None:
    x = models.f32((512, 512), "float32")
    done = partir.partition(jnp.matmul, {"B": 1}, [], args=(x, x), device="cpu")
    assert [one.name for one in done.estimate.alive_at_peak] == ["a", "b", "out"]
    assert done.estimate.peak_bytes == 3 * 512 * 512 * 4


def test_a_chain_of_maps_needs_no_temporaries() -> None:
    def chain(x: Any) -> Any:
        return jnp.tanh(x * 2 + 1) * x

    x = models.f32((256, 256), "float32")
    done = partir.partition(chain, {"B": 1}, [], args=(x,), device="cpu")
    assert done.estimate.temporary_bytes == 0


def test_fits() -> None:
    spec = partir.devices["tpu_v5e"]
    assert models.partitioned(device=spec).estimate.fits
    x = models.f32((100_000, 100_000), "float32")
    done = partir.partition(jnp.negative, {"B": 1}, [], args=(x,), device=spec)
    assert not done.estimate.fits


# The order


def test_independent_all_reduces_are_combined() -> None:
    done = models.partitioned(schedule=(models.BATCH,))
    block = Fuser(done.spmd).run()
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
    together = combine(Fuser(done.spmd).run(), 1e18)
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
    together = combine(Fuser(done.spmd).run(), 1e18)
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
    block = Fuser(done.spmd).run()
    together = combine(block, 1e18)
    (combined,) = (k for k in together.kernels if len(k.members) == 2)
    late = [k for k in together.kernels if not set(combined.writes).isdisjoint(k.reads)]
    places = {id(k.op): n for n, k in enumerate(together.kernels)}
    assert all(places[id(k.op)] > places[id(combined.op)] for k in late)
    others = [k.op for k in block.kernels if not k.members and k not in late]
    kept = [k.op for k in together.kernels if not k.members and k not in late]
    assert others == kept


def test_breadth_first_is_an_order() -> None:
    block = Fuser(models.partitioned().spmd).run()
    ordered = breadth_first(block)
    assert sorted(map(id, ordered.kernels)) == sorted(map(id, block.kernels))
    there = set(block.arguments)
    for kernel in ordered.kernels:
        assert there >= set(kernel.reads)
        there |= set(kernel.writes)
