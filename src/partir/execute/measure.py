"""Measuring the JAX back end at hand, all devices working at once.

Virtual devices share the machine's cores, so that what one of them gets when all work
is a share of the machine: the rates measured are those of a share, and a simulated
step is the total work of all devices, not what as many machines would take.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from partir.errors import PartitionError
from partir.simulate.calibration import Measurement

_REPEATS = 12

Clock = Callable[[], float]


def start_devices(count: int) -> int:
    """Start jax, on a CPU with so many virtual devices; how many there are."""
    with suppress(RuntimeError):  # jax has started already
        jax.config.update("jax_num_cpu_devices", count)
    there = len(jax.devices())
    if there < 2:
        raise PartitionError(
            "calibrate needs at least 2 devices to measure collectives on, there is "
            f"{there}; before jax starts, set "
            "XLA_FLAGS=--xla_force_host_platform_device_count=8"
        )
    return min(there, count) if jax.default_backend() == "cpu" else there


def measure_all(
    count: int, quick: bool = False, clock: Clock = time.perf_counter
) -> list[Measurement]:
    """Every kind of measurement on `count` devices.

    On a machine that others use as well, `clock` may be `time.process_time`: work of
    all cores, whoever else has them meanwhile.
    """
    scale = 2 if quick else 1
    seconds = partial(_seconds, count, clock)
    measured = [_call(seconds), _launch(seconds)]
    measured += _matmuls(seconds, scale)
    measured += _elementwise(seconds, scale)
    for size in {count, 2} if count % 2 == 0 else {count}:
        measured += _collectives(seconds, size, scale)
    return measured


def machine(count: int) -> dict[str, Any]:
    """What can be asked instead of measured: a device's memory, how they are joined."""
    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    memory = float(stats.get("bytes_limit", 0))
    virtual = device.platform == "cpu"
    if virtual or not memory:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = float(pages // count)
    versions = f"jax {jax.__version__}, {device.device_kind}, {count} devices"
    return {
        "memory_bytes": memory,
        "topology": "shared" if virtual else "switch",
        "source": f"partir calibrate, {date.today().isoformat()}: {versions}",
    }


# Timing


def _mesh(count: int, size: int) -> jax.sharding.Mesh:
    return jax.make_mesh(
        (count // size, size),
        ("A", "B"),
        axis_types=(AxisType.Auto,) * 2,
        devices=jax.devices()[:count],
    )


Seconds = Callable[..., float]


def _seconds(
    count: int,
    clock: Clock,
    body: Callable[..., Any],
    shapes: list[tuple[int, ...]],
    size: int = 1,
) -> float:
    """Best time of a function of one device's arrays, run on all devices."""
    mesh, spec = _mesh(count, size), PartitionSpec(("A", "B"))
    run = jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    )
    sharding = NamedSharding(mesh, spec)
    arrays = [
        jax.device_put(jnp.ones((count * shape[0], *shape[1:]), _dtype()), sharding)
        for shape in shapes
    ]
    jax.block_until_ready(run(*arrays))
    best = float("inf")
    for _ in range(_REPEATS):
        start = clock()
        jax.block_until_ready(run(*arrays))
        best = min(best, clock() - start)
    return best


def _dtype() -> Any:
    return jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16


def _width() -> int:
    return int(jnp.dtype(_dtype()).itemsize)


# What is measured


def _call(seconds: Seconds) -> Measurement:
    taken = seconds(lambda x: x, [(8, 8)])
    return Measurement(kind="call", label="a call", seconds=taken)


def _launch(seconds: Seconds) -> Measurement:
    kernels = 100

    def chain(x: jax.Array) -> jax.Array:
        for _ in range(kernels):
            x = x @ x
        return x

    taken = seconds(chain, [(8, 8)])
    label = f"{kernels} small kernels"
    return Measurement(kind="launch", label=label, seconds=taken, kernels=kernels)


def _matmuls(seconds: Seconds, scale: int) -> Iterator[Measurement]:
    for rows, depth, columns in (
        (256, 512, 512),
        (512, 512, 512),
        (512, 1024, 512),
        (128, 512, 2048),
    ):
        rows //= scale
        shapes: list[tuple[int, ...]] = [(rows, depth), (depth, columns)]
        yield Measurement(
            kind="matmul",
            label=f"matmul {rows}x{depth}x{columns}",
            seconds=seconds(jnp.matmul, shapes),
            flops=2.0 * rows * depth * columns,
            memory_bytes=_width() * (rows * depth + depth * columns + rows * columns),
        )


def _polynomial(x: jax.Array, degree: int) -> jax.Array:
    y = x
    for _ in range(degree):
        y = y * x + 0.5
    return y


def _elementwise(seconds: Seconds, scale: int) -> Iterator[Measurement]:
    for elements in (2**20 // scale, 2**21 // scale):
        shape: tuple[int, ...] = (elements // 1024, 1024)
        size = float(elements * _width())
        yield Measurement(
            kind="memory",
            label=f"add {elements} elements",
            seconds=seconds(jnp.add, [shape, shape]),
            flops=elements,
            memory_bytes=3 * size,
        )
    elements = 2**18 // scale
    shape, size = (elements // 1024, 1024), float(elements * _width())
    degree = 128
    yield Measurement(
        kind="vector",
        label=f"polynomial of degree {degree}, {elements} elements",
        seconds=seconds(partial(_polynomial, degree=degree), [shape]),
        flops=2.0 * degree * elements,
        memory_bytes=2 * size,
    )
    yield Measurement(
        kind="transcendental",
        label=f"tanh(exp(x)), {elements} elements",
        seconds=seconds(lambda x: jnp.tanh(jnp.exp(x)), [shape]),
        transcendentals=2.0 * elements,
        memory_bytes=2 * size,
    )


def _collective_bodies(size: int) -> dict[str, Callable[[jax.Array], Any]]:
    around = [(n, (n + 1) % size) for n in range(size)]
    return {
        "all_gather": lambda x: lax.all_gather(x, "B", tiled=True),
        "all_reduce": lambda x: lax.psum(x, "B"),
        "reduce_scatter": lambda x: lax.psum_scatter(x, "B", tiled=True),
        "all_to_all": lambda x: lax.all_to_all(x, "B", 0, 0, tiled=True),
        "collective_permute": lambda x: lax.ppermute(x, "B", around),
    }


def _collectives(seconds: Seconds, size: int, scale: int) -> Iterator[Measurement]:
    for kind, body in _collective_bodies(size).items():
        for rows in (size, 256 // scale, 1024 // scale):
            rows = max(rows // size, 1) * size
            local = rows // size if kind == "all_gather" else rows
            yield Measurement(
                kind=kind,
                label=f"{kind} of {rows * 1024 * _width()} bytes over {size}",
                seconds=seconds(body, [(local, 1024)], size),
                link_bytes=float(rows * 1024 * _width()),
                size=size,
            )
