"""Numbers drawn without a state: one device draws, and all get the same."""

from __future__ import annotations

import numpy as np
import pytest
from jax import Array, lax

import partir

MESH = partir.Mesh({"B": 4, "M": 2})


def noisy(x: Array) -> tuple[Array, Array]:
    noise = lax.rng_uniform(1.0, 2.0, x.shape)
    return noise, x + noise


@pytest.mark.parametrize("tiled", [{}, {"x": 0}, {"x": 1}])
def test_all_devices_have_the_same_numbers(tiled: dict[str, int]) -> None:
    x = np.zeros((8, 4), np.float32)
    schedule = [partir.ManualPartition(tiled, axis="B")] if tiled else []
    # Numbers that may differ from device to device are nothing to prove.
    record = partir.partition(noisy, MESH, schedule, args=(x,), verify="off")
    noise, total = record.compile()(x)
    assert noise.shape == x.shape
    assert np.all((np.asarray(noise) >= 1) & (np.asarray(noise) < 2))
    assert len(np.unique(np.asarray(noise))) == noise.size
    for shard in noise.addressable_shards:
        np.testing.assert_array_equal(shard.data, np.asarray(noise)[shard.index])
    np.testing.assert_array_equal(total, noise)
    assert record.collectives["all_reduce"] == 1


def test_on_one_device_nothing_is_reduced() -> None:
    mesh = partir.Mesh({"B": 1})
    record = partir.partition(noisy, mesh, [], args=(np.zeros((8, 4), np.float32),))
    assert not any(record.collectives.values())
