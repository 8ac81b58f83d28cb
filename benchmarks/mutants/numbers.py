"""What a device-local program computes: all devices at once, on random numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from partir.execute.types import jax_struct
from partir.fuzz.meaning.evaluate import evaluate, runnable
from partir.fuzz.meaning.lockstep import lockstep
from partir.ir.core import Program
from partir.verify.failures.excerpt import program_text

_MANY = 6000  # ops of all devices


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


def outputs(
    done: Any, local: Program, seed: int, interpreted: bool = False
) -> list[np.ndarray]:
    """Results of all devices; arguments are drawn by seed.

    Small programs can be interpreted, which starts no threads of XLA's.
    """
    return running(done, local, interpreted)(seed)


def running(
    done: Any, local: Program, interpreted: bool = False
) -> Callable[[int], list[np.ndarray]]:
    """From a seed to results; what is compiled is compiled once."""
    module = lockstep(program_text(local), done.mesh.size)
    many = len(local.ops) * done.mesh.size > _MANY  # which XLA takes minutes to compile
    text = str(module)
    run = functools.partial(evaluate, text) if many or interpreted else runnable(text)
    return lambda seed: run(_given(done, seed))


def _given(done: Any, seed: int) -> list[np.ndarray]:
    """Arguments of all devices."""
    rng, given = np.random.default_rng(seed), []
    program = done.program
    for value, tiling in zip(program.body.arguments, done.spmd.in_tilings, strict=True):
        given += tiles(_drawn(rng, program.types[value]), tiling, done.mesh)
    return given


def _drawn(rng: np.random.Generator, type_: Any) -> np.ndarray:
    kind = type_.dtype
    if kind == "i1":
        return rng.random(type_.shape) < 0.5
    dtype = jax_struct(type_).dtype
    if kind[0] in "iu":
        return rng.integers(0, 8, type_.shape).astype(dtype)
    return (rng.random(type_.shape) + 0.5).astype(dtype)


def close(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two results are the same, but for the order of sums."""
    if a.shape != b.shape:
        return False
    largest = np.abs(np.nan_to_num(a, posinf=0, neginf=0)).max(initial=0)
    return np.allclose(a, b, rtol=1e-4, atol=1e-5 * largest, equal_nan=True)


class Numbers:
    """What a right device-local program gives, on two draws of arguments."""

    def __init__(self, done: Any, right: Program) -> None:
        """Computed when first asked for."""
        self.done, self.right = done, right

    @cached_property
    def wanted(self) -> dict[int, list[np.ndarray]]:
        """Results by seed."""
        run = running(self.done, self.right)
        return {seed: run(seed) for seed in (1, 2)}

    def equal(self, other: Program) -> bool:
        """Whether another program gives the same."""
        run = running(self.done, other)
        for seed, wanted in self.wanted.items():
            if not all(map(close, wanted, run(seed))):
                return False
        return True


def whole_outputs(done: Any, local: Program, seed: int) -> list[np.ndarray]:
    """Results as whole arrays, put together from what devices hold; interpreted."""
    held, mesh, found = outputs(done, local, seed, True), done.mesh, []
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
