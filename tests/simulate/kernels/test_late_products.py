"""When products and gathers run where a compiler goes from the end to the start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

import partir
from partir.spmd.program import Collective, Compute

LATE = partir.devices["h100"]
PROGRAM = replace(LATE, order="program")
X = jax.ShapeDtypeStruct((256, 256), "float32")


def kinds(done: partir.Partitioned, device: partir.DeviceSpec) -> list[str]:
    """Products, collectives and what somebody else makes, in order."""
    found = []
    for kernel in done.estimate_on(device)._kernels.kernels:
        if isinstance(kernel.op, Collective):
            found.append(kernel.op.kind)
        elif isinstance(kernel.op, Compute):
            found.append(kernel.op.nest.signature.kind.removeprefix("stablehlo."))
    return [kind for kind in found if kind in {"all_gather", "dot_general", "sort"}]


def test_a_product_comes_with_its_first_reader() -> None:
    def step(x: Any, w: Any) -> Any:
        early = x @ w
        return jnp.sort(x @ w.T, 0), jnp.sort(early, 0)

    done = partir.partition(step, {"B": 1}, [], args=(X, X), device=LATE)
    assert kinds(done, LATE) == ["dot_general", "sort"] * 2
    assert kinds(done, PROGRAM) == ["dot_general"] * 2 + ["sort"] * 2


def gathered(fn: Any, **tiles: int) -> partir.Partitioned:
    rows = partir.ManualPartition(tiles, axis="B", name="rows")
    return partir.partition(fn, {"B": 2}, [rows], args=(X, X, X), device=LATE)


def test_what_is_gathered_arrives_while_the_product_before_runs() -> None:
    def step(x: Any, v: Any, w: Any) -> Any:
        return jnp.tanh(x @ v) @ w

    done = gathered(step, x=0, w=0)
    assert kinds(done, PROGRAM) == ["dot_general", "all_gather", "dot_general"]
    assert kinds(done, LATE) == ["all_gather", "dot_general", "dot_general"]


def test_what_is_made_before_it_is_gathered_is_not_gathered_before() -> None:
    def step(x: Any, v: Any, w: Any) -> Any:
        return w @ (x @ v)

    done = gathered(step, x=0, w=0)
    assert kinds(done, LATE) == ["dot_general", "all_gather", "dot_general"]
