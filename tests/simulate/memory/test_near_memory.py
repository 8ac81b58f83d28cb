"""Memory beside the matrix units, and what takes the place of arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir

X = jax.ShapeDtypeStruct((1024, 1024), "float32")
V5E = partir.devices["tpu_v5e"]
FAR = replace(V5E, near_bytes=0.0)


def temporaries(fn: Any, device: partir.DeviceSpec, **how: Any) -> int:
    done = partir.partition(fn, {"B": 1}, [], args=(X, X), device=device, **how)
    return done.estimate.temporary_bytes


def test_what_lives_briefly_needs_no_memory() -> None:
    def chain(x: Any, w: Any) -> Any:
        return jnp.sort(jnp.sort(x, 0), 1) + w

    assert temporaries(chain, FAR) >= 4 * 2**20
    assert temporaries(chain, V5E) == 0
    less = replace(V5E, near_bytes=2.0**20)  # too little for any of them
    assert temporaries(chain, less) == temporaries(chain, FAR)


@pytest.mark.parametrize("apart", [True, False])
def test_what_is_gathered_may_take_no_arguments_place(apart: bool) -> None:
    def step(p: Any, m: Any) -> Any:
        return p - m, m

    rows = {"m": 0, "p": partir.REPLICATED}
    done = partir.partition(
        step,
        {"B": 4},
        [partir.ManualPartition(rows, axis="B", name="Z2")],
        args=(X, X),
        device=replace(FAR, collectives_apart=apart),
        donate_argnums=(0, 1),
    )
    assert done.collectives["all_gather"] == 1
    names = [one.name for one in done.estimate.alive_at_peak]
    assert ("copy of p" in names) is apart
