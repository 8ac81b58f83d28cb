"""`partir demo`: a schedule, its table, a run, and the comparison with one device."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from contextlib import nullcontext, redirect_stdout, suppress
from typing import Any

import jax
import numpy as np

import partir
from partir.cli import demo_model
from partir.cli.sources import progress
from partir.errors import PartirError
from partir.execute.jax_private import spec_text

DEVICES = 8


def demo_schedule() -> list[partir.ManualPartition]:
    """Data parallelism, Megatron, and ZeRO-3, step by step."""

    def matrices(name: str, shape: tuple[int, ...], dtype: str) -> Any:
        return partir.FIRST_DIVISIBLE_DIM if len(shape) > 1 else partir.UNKNOWN

    batch = {"tokens": 0, "targets": 0}
    megatron = {"params/*/qkv": 2, "params/*/up": 1}
    zero3 = {"params/**": matrices, "opt_state/**": matrices}
    return [
        partir.ManualPartition(batch, axis="B", name="BP"),
        partir.ManualPartition(megatron, axis="M", name="MP"),
        partir.ManualPartition(zero3, axis="B", name="Z3"),
    ]


def run_demo(args: Namespace) -> None:
    """Tell the whole story."""
    virtual_devices()
    mesh = partir.Mesh({"B": 4, "M": 2})
    told = redirect_stdout(sys.stderr) if args.json else nullcontext()
    with jax.enable_x64(True), told:
        data = _tell(mesh, args.layers, args.steps)
    if args.json:
        print(json.dumps(data, indent=1))


def virtual_devices(count: int = DEVICES) -> None:
    """Devices that are one CPU, eight by default."""
    jax.config.update("jax_platforms", "cpu")
    # If jax has started already, too few devices are a clear error at compile time.
    with suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", count)


def _tell(mesh: partir.Mesh, layers: int, steps: int) -> dict[str, Any]:
    """The story on standard output; what it showed as data."""
    params, opt_state = demo_model.init(layers, jax.random.key(0))
    tokens, targets = demo_model.batch(jax.random.key(1))
    args = (params, opt_state, tokens, targets)
    step = partir.jit(
        demo_model.train_step, mesh, demo_schedule(), donate_argnums=(0, 1)
    )
    print(f"A {layers}-layer transformer's training step, split by three tactics:")
    print(
        "BP: batch over B    MP: Megatron over M    Z3: parameters and state over B\n"
    )
    with progress("tracing and partitioning"):
        partitioned = step.partitioned(*args)
    print(partitioned)
    print("\nWhere its parameters live now:")
    for name, spec in partitioned.in_specs[0]["layer_0"].items():
        print(f"  params/layer_0/{name:6} {spec_text(spec)}")
    print(f"\nRunning {steps} steps on {DEVICES} virtual CPU devices and on one:")
    losses, worst = _compare(step, partitioned, args, steps)
    print(f"largest relative difference of parameters and state: {worst:.1e}")
    if not worst < 1e-9:
        raise PartirError("the partitioned step differs from the one-device step")
    print("the same training, split over 8 devices.")
    data = partitioned.to_json()
    return {"partition": data, "losses": losses, "largest_difference": worst}


def _compare(
    step: Any, partitioned: Any, args: Any, steps: int
) -> tuple[list[dict[str, float]], float]:
    params, opt_state, tokens, targets = args
    one_device = jax.jit(demo_model.train_step)
    sharded = partitioned.shard(*jax.tree.map(np.asarray, (params, opt_state)))
    whole, losses = (params, opt_state), []
    for number in range(steps):
        with progress("compiling and running" if number == 0 else "running"):
            *sharded, loss = step(*sharded, tokens, targets)
            *whole, expected = one_device(*whole, tokens, targets)
        losses.append({"loss": float(loss), "alone": float(expected)})
        print(f"  step {number}: loss {float(loss):.12f}, alone {float(expected):.12f}")
    differences = jax.tree.map(_difference, tuple(sharded), tuple(whole))
    return losses, max(map(float, jax.tree.leaves(differences)))


def _difference(left: Any, right: Any) -> float:
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    return float(np.max(np.abs(left - right)) / (np.max(np.abs(right)) + 1e-30))
