"""Comparing a partitioned step with plain jax on one device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import partir
from benchmarks.models import transformer

MESH = partir.Mesh({"B": 4, "M": 2})
RTOL = 1e-9
QUICK = {"xla_backend_optimization_level": 0}
"""For XLA: compile in half the time, to slower code."""

TINY = transformer.Config(
    layers=1,
    width=16,
    heads=4,
    head_dim=4,
    hidden=32,
    vocab=16,
    sequence=8,
    batch=8,
    dtype="float64",
)
"""A model that compiles at once."""

SLOW = partir.DeviceSpec(
    name="slow",
    flops_per_s=1e6,
    memory_bytes=1e9,
    memory_bytes_per_s=1e6,
    link_bytes_per_s=1e6,
    topology="switch",
    node_size=8,
)
"""Slow arithmetic and no latency: small models are worth splitting."""


def assert_same(got: Any, want: Any, zero: float = 0.0, rtol: float = RTOL) -> None:
    """Equal trees; floats to `rtol`, for which they are 64-bit; all else exactly.

    Differences below `zero` don't count: a gradient that vanishes leaves only noise.
    """
    assert jax.tree.structure(got) == jax.tree.structure(want)
    paths = jax.tree_util.tree_leaves_with_path(want)
    for left, (path, right) in zip(jax.tree.leaves(got), paths, strict=True):
        assert_same_leaf(left, right, jax.tree_util.keystr(path), zero, rtol)


def assert_same_leaf(
    got: Any, want: Any, name: str = "", zero: float = 0.0, rtol: float = RTOL
) -> None:
    assert type(got) is type(want), name
    if not isinstance(want, jax.Array):
        assert got == want, name
        return
    assert _signature(got) == _signature(want), name
    left, right = host(got), host(want)
    if right.dtype.kind != "f":
        np.testing.assert_array_equal(left, right, err_msg=name)
        return
    assert right.dtype == np.float64, f"{name} is {right.dtype}: compare 64-bit floats"
    # Below what cancellation leaves of the largest number, nothing is to be seen.
    floor = max(zero, 1e-3 * rtol * np.max(np.abs(right), initial=0.0))
    np.testing.assert_allclose(left, right, rtol=rtol, atol=floor, err_msg=name)


def _signature(array: jax.Array) -> Any:
    aval = jax.typeof(array)
    return aval.shape, aval.dtype, getattr(aval, "weak_type", False)


def host(array: Any) -> np.ndarray:
    """An array's numbers; a PRNG key's are those that it is made of."""
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array)


@functools.cache
def transformer_start(config: transformer.Config) -> tuple[Any, Any]:
    """Parameters with optimiser state, and a batch, as arrays of the host."""

    def make(key: jax.Array) -> tuple[Any, Any]:
        first, second = jax.random.split(key)
        state = transformer.init(config, first)
        return state, transformer.example_batch(config, second)

    made = jax.jit(make, compiler_options=QUICK)(jax.random.key(0))
    state, batch = jax.tree.map(np.asarray, made)
    return state, batch


def copy(tree: Any) -> Any:
    """Arrays of their own, since a step may donate its arguments."""
    return jax.tree.map(lambda x: x.copy() if isinstance(x, jax.Array) else x, tree)


def assert_steps_agree(
    step: Callable[..., Any],
    partitioned: Callable[..., Any],
    state: Any,
    *batch: Any,
    steps: int = 2,
) -> Any:
    """Run ``state, *more = step(state, *batch)`` both ways; returns the last state.

    Whatever a step returns as its state goes in again as it came out.
    """
    one_device = jax.jit(step, compiler_options=QUICK)
    ours, theirs = copy(state), state
    for _ in range(steps):
        ours, *more = partitioned(ours, *batch)
        theirs, *expected = one_device(theirs, *batch)
        assert_same((ours, more), (theirs, expected))
    return ours


def largest_shards(tree: Any) -> dict[str, int]:
    """Elements on one device, by leaf."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): max(
            shard.data.size for shard in leaf.addressable_shards
        )
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }
