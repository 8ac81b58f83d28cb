"""What a device-local program computes: all devices at once, on random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from partir.fuzz.meaning.evaluate import compiled
from partir.fuzz.meaning.lockstep import lockstep
from partir.ir.core import Program
from partir.verify.excerpt import program_text


def tiles(array: np.ndarray, tiling: Sequence[Sequence[str]], mesh: Any) -> list[Any]:
    """What each device holds of an array."""
    names, sizes = mesh.names, tuple(mesh.axes.values())
    found = []
    for device in np.ndindex(*sizes):
        index = []
        for dim, axes in enumerate(tiling):
            start, size = 0, array.shape[dim]
            for axis in axes:
                size = -(-size // mesh.axes[axis])
                start += device[names.index(axis)] * size
            index.append(slice(start, start + size))
        found.append(array[tuple(index)])
    return found


def outputs(done: Any, local: Program, seed: int) -> list[np.ndarray]:
    """Results of all devices; arguments are drawn by seed."""
    rng, given = np.random.default_rng(seed), []
    program = done.program
    for value, tiling in zip(program.body.arguments, done.spmd.in_tilings, strict=True):
        given += tiles(_drawn(rng, program.types[value]), tiling, done.mesh)
    module = lockstep(program_text(local), done.mesh.size)
    return compiled(str(module), given)


def _drawn(rng: np.random.Generator, type_: Any) -> np.ndarray:
    kind = type_.dtype
    if kind == "i1":
        return rng.random(type_.shape) < 0.5
    if kind[0] in "iu":
        bits = (
            kind.replace("ui", "uint") if kind[0] == "u" else kind.replace("i", "int")
        )
        return rng.integers(0, 8, type_.shape).astype(bits)
    return (rng.random(type_.shape) + 0.5).astype(kind.replace("f", "float"))


def equal(done: Any, right: Program, other: Program) -> bool:
    """Whether two device-local programs give the same numbers, on two draws."""
    for seed in (1, 2):
        wanted, found = (outputs(done, local, seed) for local in (right, other))
        for a, b in zip(wanted, found, strict=True):
            if not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
                return False
    return True


def whole_outputs(done: Any, local: Program, seed: int) -> list[np.ndarray]:
    """Results as whole arrays, put together from what devices hold."""
    held, mesh, found = outputs(done, local, seed), done.mesh, []
    results = [done.program.types[port.value] for port in done.program.results]
    for number, (type_, tiling) in enumerate(
        zip(results, done.spmd.out_tilings, strict=True)
    ):
        copies = held[number * mesh.size : (number + 1) * mesh.size]
        count = int(np.prod(type_.shape))
        places = tiles(np.arange(count).reshape(type_.shape), tiling, mesh)
        whole = np.zeros(count, copies[0].dtype)
        for place, copy in zip(places, copies, strict=True):
            cut = copy[tuple(slice(0, n) for n in place.shape)]
            whole[place.reshape(-1)] = cut.reshape(-1)
        found.append(whole.reshape(type_.shape))
    return found
