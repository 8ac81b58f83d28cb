"""What a model of the collection gives: a step, its arguments and schedules."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import partir
from benchmarks.old_names import old_names

Step = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A step, its arguments, and a schedule over a mesh with axes B and M.

    `whole` are kinds of ops that this schedule leaves computed whole; results agree to
    `limit`, relative to their size.
    """

    step: Step
    args: tuple[Any, ...]
    schedule: Sequence[partir.ManualPartition]
    whole: frozenset[str] = frozenset()
    limit: float = 1e-9


@contextlib.contextmanager
def wide_floats() -> Iterator[None]:
    """Model code that asks for 32-bit floats gets 64-bit ones; names as of old."""
    with mock.patch.object(jnp, "float32", jnp.float64), old_names():
        yield


def wide(fn: Step) -> Step:
    """A function that is traced with wide floats."""

    @functools.wraps(fn)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with wide_floats():
            return fn(*args, **kwargs)

    return traced


def drawn(shapes: Any, seed: int = 0) -> Any:
    """Random 64-bit floats in the shapes of a tree."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda s: 0.3 * rng.standard_normal(s.shape), shapes)


def floats(seed: int, *shape: int) -> np.ndarray:
    """Random floats."""
    return np.random.default_rng(seed).standard_normal(shape)


def tokens(seed: int, limit: int, *shape: int) -> np.ndarray:
    """Random whole numbers from 0 up to a limit."""
    return np.random.default_rng(seed).integers(0, limit, shape, np.int32)


def cross_entropy(logits: Array, labels: Array) -> Array:
    """Mean over all labels."""
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return jnp.mean(losses)


def adam_step(loss_fn: Callable[..., Array]) -> tuple[Step, Callable[[Any], Any]]:
    """The step ``params, opt_state, *batch -> params, opt_state, loss``; its start."""
    optimizer = optax.adam(1e-2, eps=1e-4)

    @wide
    def step(params: Any, opt_state: Any, *batch: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, *batch)
        updates, opt_state = optimizer.update(grads, opt_state)
        return optax.apply_updates(params, updates), opt_state, loss

    return step, optimizer.init


def training_case(
    loss_fn: Callable[..., Array],
    params: Any,
    batch: tuple[Any, ...],
    schedule: Sequence[partir.ManualPartition],
    whole: frozenset[str] = frozenset(),
) -> Case:
    """A case that trains with Adam; `schedule` sees params, opt_state and batch/0 …."""
    step, init = adam_step(loss_fn)
    return Case(step, (params, jax.jit(init)(params), *batch), schedule, whole)


def tactics(
    batch: dict[str, int], model: dict[str, int], zero: str = ""
) -> list[partir.ManualPartition]:
    """Batch and model parallelism; `zero` shards the state of matching parameters."""
    made = [
        partir.ManualPartition(batch, axis="B", name="BP"),
        partir.ManualPartition(model, axis="M", name="MP"),
    ]
    if zero:
        shards = {f"opt_state/0/*/{zero}": partir.FIRST_DIVISIBLE_DIM}
        whole = {f"params/{zero}": partir.REPLICATED}
        made.append(partir.ManualPartition({**whole, **shards}, axis="B", name="Z2"))
    return made
