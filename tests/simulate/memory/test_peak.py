"""Peak memory against XLA's, and what is alive there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
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
    # A program this small has few buffers: one more or less is a quarter of the peak.
    assert done.estimate.peak_bytes == pytest.approx(xla_bytes(done), rel=0.3)


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
    cpu = partir.devices["cpu"]
    kept = replace(cpu.export, drops_barriers=False)
    keeping = replace(cpu, keeps_barriers=True, export=kept)
    assert done.estimate_on(keeping).peak_bytes < 0.8 * dropped


def test_results_lend_their_buffers_to_nothing_larger() -> None:
    def small_results(x: Any, w: Any) -> Any:
        y = jnp.tanh(x @ w)
        return [y[n] * 2 for n in range(8)], (y @ w)[0]

    x, w = models.f32((256, 256), "float32"), models.f32((256, 256), "float32")
    done = partir.partition(small_results, {"B": 1}, [], args=(x, w), device="cpu")
    assert done.estimate.temporary_bytes >= 2 * 256 * 256 * 4
    # A program this small has few buffers: one more or less is a quarter of the peak.
    assert done.estimate.peak_bytes == pytest.approx(xla_bytes(done), rel=0.3)


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
