"""Memory beside the matrix units."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

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
