"""`Jitted`: what `partir.jit` returns, a cache of partitioned programs by signature."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax

from partir.api.accepted import MeshLike, ScheduleLike
from partir.api.partitioned import Partitioned
from partir.api.pipeline import pipeline
from partir.api.running import Running
from partir.api.source import FunctionCall
from partir.errors import PartitionError
from partir.execute.agreement import spans_all, told_to_all
from partir.execute.ahead_of_time import Lowered
from partir.execute.compiled import Compiled
from partir.execute.runner import SignatureMiss
from partir.frontend.arguments import Call, flatten_call, quick_flatten
from partir.frontend.parameters import Options, Parameters
from partir.frontend.signature import function_name
from partir.frontend.trace import trace_settings
from partir.mesh import Mesh
from partir.tactics.schedule import as_schedule

V = TypeVar("V")

MOST_SIGNATURES = 256
"""Of one function; beyond that, programs that were made first are forgotten."""


class Jitted:
    """A function that is partitioned at its first call for each signature."""

    def __init__(
        self,
        fn: Callable[..., Any],
        mesh: MeshLike,
        schedule: ScheduleLike,
        options: Options,
        running: Running,
        carry: Mapping[str, str] | None = None,
    ) -> None:
        """Made by `partir.jit`."""
        self._fn = refuse_partitioned(fn)
        functools.update_wrapper(self, fn, updated=())
        self._options, self._parameters = options, Parameters.of(fn, options)
        self._mesh, self._schedule = Mesh.of(mesh), as_schedule(schedule)
        self._running, self._carry = running, carry
        self._known: dict[Any, Partitioned] = {}
        self._compiled: dict[Any, Compiled] = {}
        self._warm: dict[Any, _Variants] = {}
        # Whether one program's arrays are, if padded, as large as those of another.
        self._unsure = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the mesh; partitions first if this signature is new."""
        try:
            key, leaves = self._quick(args, kwargs)
            variants = self._warm.get(key)
            compiled = None if variants is None else variants.find(leaves)
            if compiled is not None:
                return compiled.run(leaves)
        except (SignatureMiss, TypeError, ValueError):
            pass  # below every argument is checked: that finds out what is wrong
        call, arrays = flatten_call(self._parameters, args, kwargs)
        compiled = self._compile(call, arrays)
        if not self._unsure:
            key, leaves = self._quick(args, kwargs)
            known = self._warm.get(key) or _keep(self._warm, key, _Variants())
            known.add(leaves, compiled)
        return compiled.run_placed(arrays)

    def _quick(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, list[Any]]:
        tree, statics, leaves = quick_flatten(self._parameters, args, kwargs)
        return (tree, statics, trace_settings(self._mesh)), leaves

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """A method, if this was defined in a class."""
        return self if owner is None else types.MethodType(self, owner)

    def partitioned(self, *args: Any, **kwargs: Any) -> Partitioned:
        """The record for this signature, without running. Shapes will do."""
        return self._partition(flatten_call(self._parameters, args, kwargs)[0])

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """As `jax.jit(fn).lower`: a computation that can be compiled ahead of time."""
        call, arrays = flatten_call(self._parameters, args, kwargs)
        return self._compile(call, arrays).lower(*args, **kwargs)

    def _partition(self, call: Call) -> Partitioned:
        key = call.key, trace_settings(self._mesh)
        if key not in self._known:
            source = FunctionCall(self._fn, call, self._options, self._carry)
            asked = source, self._mesh, self._schedule, self._running
            made = pipeline(*asked)
            return _keep(self._known, key, made)
        return self._known[key]

    def _ready(self, call: Call) -> Compiled:
        """Ready to compile; where others would wait for it, proved as well."""
        partitioned = self._partition(call)
        if spans_all(self._mesh, self._running.devices):
            return partitioned.compile()
        return partitioned.compile_proving()

    def _compile(self, call: Call, arrays: Sequence[Any]) -> Compiled:
        settings = trace_settings(self._mesh)
        key = call.key, settings
        there = list(self._compiled.items())  # other threads may add to it
        alike = [c for (_, known), c in there if known == settings]
        padded = next((c for c in alike if c.fits_padded(call, arrays)), None)
        if padded is not None and key in self._compiled:
            raise PartitionError(_either(call, padded.call))
        if padded is None and key not in self._compiled:
            compiled = told_to_all(
                f"partitioning {function_name(self._fn)}",
                lambda: self._ready(call),
                self._mesh,
                self._running.devices,
            )
            fresh = _keep(self._compiled, key, compiled)
            if any(c.fits_padded(call) or fresh.fits_padded(c.call) for c in alike):
                self._unsure = True  # from now on every array is looked at
                self._warm.clear()
        return padded or self._compiled[key]

    def __repr__(self) -> str:
        """Function, mesh and schedule."""
        name = function_name(self._fn)
        return f"<partir.jit({name}) on {self._mesh}: {self._schedule.name}>"


def _keep(known: dict[Any, V], key: Any, made: V) -> V:
    """Remember something, and forget what was remembered first if that is a lot."""
    known[key] = made
    while len(known) > MOST_SIGNATURES:
        with contextlib.suppress(StopIteration, RuntimeError):  # another thread has
            known.pop(next(iter(known)), None)
    return made


def _either(call: Call, other: Call) -> str:
    """Why a call is refused whose arrays may be padded, or not."""
    name, have, seen = next(
        (name, a.shape, b.shape)
        for name, a, b in zip(call.names, call.avals, other.avals, strict=True)
        if a.shape != b.shape
    )
    return (
        f'argument "{name}" of shape {have} lies on devices: it may be {seen}, padded, '
        "or as large as it is, and this function has been called with both. Pass a "
        "host array if it is as large, and call partir.partition(...).compile() with "
        "what is padded"
    )


class _Variants:
    """Programs for calls of one tree; shapes are looked at if there are several."""

    def __init__(self) -> None:
        self._by_shapes: dict[Any, Compiled] = {}

    def add(self, leaves: Sequence[Any], compiled: Compiled) -> None:
        _keep(self._by_shapes, _shapes(leaves), compiled)

    def find(self, leaves: Sequence[Any]) -> Compiled | None:
        if len(self._by_shapes) > 1:
            return self._by_shapes.get(_shapes(leaves))
        return next(iter(list(self._by_shapes.values())), None)


def _shapes(leaves: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(map(_shape, leaves))


def _shape(leaf: Any) -> Any:
    """Equal only for leaves of one signature; cheap."""
    if isinstance(leaf, jax.Array):
        return leaf.aval
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return leaf.shape, leaf.dtype
    kind = type(leaf)
    return kind if kind in (bool, int, float, complex) else (kind, leaf)


def refuse_partitioned(fn: Any, who: str = "jit") -> Callable[..., Any]:
    """Only functions that are not partitioned yet."""
    if isinstance(fn, Jitted):
        raise PartitionError(
            f"{fn!r} is partitioned already: partition the function itself, with all "
            "tactics in one schedule"
        )
    if not callable(fn):
        raise PartitionError(f"{who} takes a function, got {fn!r}")
    function: Callable[..., Any] = fn
    return function
