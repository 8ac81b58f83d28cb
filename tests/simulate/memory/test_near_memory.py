"""Memory beside the matrix units, and what takes the place of arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

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
    assert temporaries(chain, less(1.0)) == temporaries(
        chain, FAR
    )  # too little for any


def test_what_a_loop_carries_needs_no_memory_if_there_is_room() -> None:
    """A stack of 16 MiB that it fills; its body takes 8 MiB."""

    def stacked(x: Any, w: Any) -> Any:
        def body(c: Any, _: None) -> Any:
            return jnp.sort(jnp.sort(c @ w, 0), 1), c

        return lax.scan(body, x, None, length=4)[1].sum(0)

    stack = 16 * 2**20
    assert temporaries(stacked, FAR) > stack
    assert temporaries(stacked, V5E) == 0
    without_stack = temporaries(stacked, FAR) - temporaries(stacked, less(24.0))
    assert stack <= without_stack <= 24 * 2**20
    assert temporaries(stacked, less(12.0)) >= stack  # there is none for the stack


def test_what_lives_longer_needs_no_memory_if_half_stays_free() -> None:
    """The first sums of 4 MiB each are read in reverse, long after they were made."""

    def there_and_back(x: Any, w: Any) -> Any:
        sums = [x]
        for _ in range(15):
            sums.append(jnp.cumsum(sums[-1] * w, 0))
        for one in reversed(sums):
            x = jnp.cumsum(x * one, 1)
        return x

    kept = temporaries(there_and_back, FAR)
    assert kept >= 15 * 4 * 2**20
    assert temporaries(there_and_back, V5E) <= kept - 13 * 4 * 2**20
    little = temporaries(there_and_back, less(24.0))
    assert kept - little <= 24 * 2**20


def less(mebibytes: float) -> partir.DeviceSpec:
    return replace(V5E, near_bytes=mebibytes * 2.0**20)


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
