"""A pattern and its gradient, partitioned by partir and by XLA, side by side."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import NamedSharding, PartitionSpec

import partir
from benchmarks.patterns.compiled_text import bytes_sent
from benchmarks.patterns.pattern import Pattern

DEVICES = 8
AXIS = "X"
SLACK_BYTES, SLACK_FLOPS = 4096, 1e5


@dataclass(frozen=True)
class Cost:
    """Of one device: bytes that it sends, floating-point operations.

    XLA counts a loop's operations once; bytes are multiplied by its length.
    """

    bytes: int
    flops: float

    @classmethod
    def of(cls, compiled: Any) -> Cost:
        """Read off a compiled program."""
        flops = compiled.cost_analysis().get("flops", 0.0)
        return cls(bytes_sent(compiled.as_text(), DEVICES), flops)


@dataclass(frozen=True)
class Comparison:
    """Ours beside XLA's."""

    ours: Cost
    xla: Cost
    work: float
    whole: int

    @property
    def worse(self) -> bool:
        """Whether ours costs more; a few bytes and operations are forgiven."""
        more_bytes = self.ours.bytes > 1.02 * self.xla.bytes + SLACK_BYTES
        return more_bytes or self.ours.flops > 1.05 * self.xla.flops + SLACK_FLOPS


class Case:
    """A pattern, with its gradient, as programs."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.names = list(inspect.signature(pattern.fn).parameters)
        self.floats = tuple(
            n for n, a in enumerate(pattern.args) if a.dtype == np.float32
        )

    @cached_property
    def both(self) -> Callable[..., Any]:
        """A scalar of all results, and its gradients."""

        def loss(*args: Array) -> Array:
            leaves = jax.tree.leaves(self.pattern.fn(*args))
            return sum(jnp.sum(jnp.sin(y.astype(jnp.float32))) for y in leaves)

        def both(*args: Array) -> Any:
            value, gradients = jax.value_and_grad(loss, self.floats)(*args)
            return value, *gradients

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        named = [inspect.Parameter(name, kind) for name in self.names]
        both.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        return both

    @cached_property
    def partitioned(self) -> partir.Partitioned:
        """By our tactics; gradients come back laid out as their arguments."""
        tactics = [
            partir.ManualPartition(tiled, axis=AXIS, name=f"tactic {n}")
            for n, tiled in enumerate(self.pattern.tactics)
        ]
        dims, gradients = self.pattern.dims, enumerate(self.floats, 1)
        outputs = {
            f"out/{n}": dims[self.names[argument]]
            for n, argument in gradients
            if self.names[argument] in dims
        }
        tactics.append(
            partir.ManualPartition({}, axis=AXIS, outputs=outputs, name="gradients")
        )
        mesh = partir.Mesh({AXIS: DEVICES})
        args = self.pattern.args
        return partir.partition(self.both, mesh, tactics, args=args, verify="off")

    def compiled_by_xla(self) -> Any:
        """The same layouts of arguments and gradients, everything else XLA's choice."""
        auto = (jax.sharding.AxisType.Auto,)
        mesh = jax.make_mesh((DEVICES,), (AXIS,), axis_types=auto)
        shardings = [NamedSharding(mesh, self._spec(name)) for name in self.names]
        whole = NamedSharding(mesh, PartitionSpec())
        return (
            jax.jit(
                self.both,
                in_shardings=shardings,
                out_shardings=(whole, *(shardings[n] for n in self.floats)),
            )
            .lower(*self.pattern.args)
            .compile()
        )

    def _spec(self, name: str) -> PartitionSpec:
        dims = self.pattern.dims
        before = [None] * dims.get(name, 0)
        return PartitionSpec(*before, AXIS) if name in dims else PartitionSpec()

    def compare(self) -> Comparison:
        """Compile both."""
        ours = self.partitioned.compile().lower_abstract().compile()
        return Comparison(
            Cost.of(ours),
            Cost.of(self.compiled_by_xla()),
            self.partitioned.work,
            len(self.partitioned.replicated_ops),
        )

    def largest_error(self) -> float:
        """Of ours on all devices against one device, relative to the largest number."""
        rng = np.random.default_rng(0)
        args = [_sample(rng, arg) for arg in self.pattern.args]
        found = self.partitioned.compile()(*args)
        wanted = jax.jit(self.both)(*args)
        pairs = zip(found, wanted, strict=True)
        return max(
            float(np.max(np.abs(a - b))) / max(1.0, float(np.max(np.abs(b))))
            for a, b in ((np.asarray(a), np.asarray(b)) for a, b in pairs)
        )


def _sample(rng: np.random.Generator, arg: jax.ShapeDtypeStruct) -> np.ndarray:
    if arg.dtype == np.float32:
        return (0.1 * rng.standard_normal(arg.shape)).astype(np.float32)
    return rng.integers(0, 8, arg.shape).astype(arg.dtype)
