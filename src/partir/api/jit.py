"""`jit`, `partition`, `trace`: from a function to its partitioned form."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from partir.api.partitioned import Partitioned
from partir.api.pipeline import run_schedule
from partir.errors import PartirError, PartitionError
from partir.execute.compiled import Compiled
from partir.execute.runner import SignatureMiss
from partir.frontend.arguments import Call, Options, flatten_call
from partir.frontend.trace import Traced, trace_call
from partir.ir.core import Program
from partir.mesh import Mesh
from partir.tactics.schedule import Schedule, as_schedule


def trace(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Program:
    """Trace a function on the shapes of these arguments.

    Args:
        fn: a function of pytrees of arrays, as jax.jit takes them.
        *args: arrays or `jax.ShapeDtypeStruct`s.
        **kwargs: the same, by name.

    Returns:
        The program; see `Program.arguments`, `.results`, `.tags`, `.text()`.

    Example:
        >>> import jax
        >>> x = jax.ShapeDtypeStruct((4,), "float32")
        >>> trace(lambda x: x * 2, x).arguments[0].name
        'x'
    """
    return trace_call(fn, flatten_call(fn, args, kwargs, Options()))


def trace_for(
    platform: str, fn: Callable[..., Any], *args: Any, **kwargs: Any
) -> Program:
    """Trace as for another platform ("tpu", "cuda"), which need not be there.

    Example:
        >>> import jax
        >>> x = jax.ShapeDtypeStruct((4,), "float32")
        >>> len(trace_for("tpu", lambda x: x * 2, x).results)
        1
    """
    call = flatten_call(fn, args, kwargs, Options())
    return trace_call(fn, call, platform=platform)


def partition(
    fn_or_program: Any,
    mesh: Any,
    schedule: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    device: Any = None,
    devices: Any = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    carry: Mapping[str, str] | None = None,
    compiler_options: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Partitioned:
    """Partition a function or a program. Needs no devices.

    Args:
        fn_or_program: a function, or a Program from `trace` or `load`.
        mesh: a `Mesh`, a mapping of axis names to sizes, or a jax Mesh.
        schedule: tactics in order.
        args: example arguments of a function: arrays or `jax.ShapeDtypeStruct`s.
        kwargs: the same, by name.
        device: name or spec of a device, for estimates.
        devices: devices to run on, by default jax's.
        static_argnums: as jax.jit takes them, as the other three.
        static_argnames: see `static_argnums`.
        donate_argnums: see `static_argnums`.
        donate_argnames: see `static_argnums`.
        carry: results that succeed arguments, ``{"out/0": "params"}``; by default
            donated arguments whose tree equals a result's.
        compiler_options: passed to XLA.
        strict: make `replicated_ops` an error.

    Returns:
        The record; print it for the per-tactic table.

    Example:
        >>> import jax
        >>> from partir import ManualPartition
        >>> x = jax.ShapeDtypeStruct((8, 4), "float32")
        >>> rows = ManualPartition({"x": 0}, axis="B", name="rows")
        >>> p = partition(lambda x: x.sum(), {"B": 4}, [rows], args=(x,))
        >>> p.collectives["all_reduce"]
        1
    """
    options = Options.of(
        static_argnums, static_argnames, donate_argnums, donate_argnames
    )
    ours = Mesh.of(mesh)
    tactics = as_schedule(schedule)
    fn = None
    if isinstance(fn_or_program, Program):
        program = fn_or_program
        _refuse_arguments(args, kwargs)
    elif callable(fn_or_program):
        fn = fn_or_program
        call = flatten_call(fn, args, kwargs or {}, options)
        program = trace_call(fn, call, ours, carry)
    else:
        raise PartitionError(
            "partition takes a function or a Program from partir.trace or partir.load, "
            f"got {type(fn_or_program).__name__}"
        )
    return _partition(
        program, ours, tactics, fn, options, devices, compiler_options, strict
    )


def _refuse_arguments(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> None:
    if args or kwargs:
        raise PartitionError(
            "a Program has its arguments already: leave out args and kwargs"
        )


def _partition(
    program: Program,
    mesh: Mesh,
    schedule: Schedule,
    fn: Callable[..., Any] | None,
    options: Options,
    devices: Any,
    compiler_options: Mapping[str, Any] | None,
    strict: bool,
) -> Partitioned:
    made, steps = run_schedule(program, mesh, schedule)
    partitioned = Partitioned(
        made,
        steps,
        fn=fn,
        options=options,
        devices=devices,
        compiler_options=compiler_options,
    )
    if strict and partitioned.replicated_ops:
        listed = "\n  ".join(map(str, partitioned.replicated_ops[:10]))
        raise PartitionError(
            f"strict: {len(partitioned.replicated_ops)} ops are computed whole:\n"
            f"  {listed}"
        )
    return partitioned


class Jitted:
    """A function that is partitioned at its first call for each signature."""

    def __init__(
        self,
        fn: Callable[..., Any],
        mesh: Any,
        schedule: Any,
        options: Options,
        *,
        devices: Any = None,
        carry: Mapping[str, str] | None = None,
        compiler_options: Mapping[str, Any] | None = None,
        strict: bool = False,
    ) -> None:
        """Made by `partir.jit`."""
        if not callable(fn):
            raise PartitionError(f"jit takes a function, got {fn!r}")
        functools.update_wrapper(self, fn)
        self._fn, self._options = fn, options
        self._mesh, self._schedule = Mesh.of(mesh), as_schedule(schedule)
        self._devices = devices if devices is not None else _real_mesh(mesh)
        self._carry, self._strict = carry, strict
        self._compiler_options = compiler_options
        self._known: dict[Any, tuple[Partitioned, Compiled | None]] = {}
        self._fast: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the mesh; partitions first if this signature is new."""
        fast = self._fast
        if fast is not None and not kwargs:
            try:
                return fast(*args)
            except (SignatureMiss, ValueError, TypeError):
                pass  # below, every argument is checked
        compiled = self._compiled(flatten_call(self._fn, args, kwargs, self._options))
        self._fast = compiled.fast
        return compiled.careful(args, kwargs)

    def partitioned(self, *args: Any, **kwargs: Any) -> Partitioned:
        """The record for this signature, without running. Shapes will do."""
        return self._entry(flatten_call(self._fn, args, kwargs, self._options))[0]

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As `jax.jit(fn).lower`: a computation that can be compiled ahead of time."""
        call = flatten_call(self._fn, args, kwargs, self._options)
        return self._compiled(call).lower(*args, **kwargs)

    def _entry(self, call: Call) -> tuple[Partitioned, Compiled | None]:
        found = self._known.get(call.key)
        if found is None:
            program = trace_call(self._fn, call, self._mesh, self._carry)
            partitioned = _partition(
                program,
                self._mesh,
                self._schedule,
                self._fn,
                self._options,
                self._devices,
                self._compiler_options,
                self._strict,
            )
            found = self._known[call.key] = (partitioned, None)
        return found

    def _compiled(self, call: Call) -> Compiled:
        partitioned, compiled = self._entry(call)
        if compiled is None:
            compiled = partitioned.compile()
            self._known[call.key] = (partitioned, compiled)
        return compiled

    def __repr__(self) -> str:
        """Function, mesh and schedule."""
        name = getattr(self._fn, "__name__", repr(self._fn))
        return f"<partir.jit({name}) on {self._mesh}: {self._schedule.name}>"


def _real_mesh(mesh: Any) -> Any:
    """A jax mesh brings its devices along."""
    return mesh if getattr(mesh, "devices", None) is not None else None


def jit(
    fn: Callable[..., Any] | None = None,
    mesh: Any = None,
    schedule: Any = None,
    *,
    device: Any = None,
    devices: Any = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    carry: Mapping[str, str] | None = None,
    compiler_options: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Any:
    """Partition a function over a mesh by a schedule of tactics, and run it there.

    Called like `jax.jit`'s function; also a decorator (without `fn`). The first call
    for each signature of arguments traces and partitions. For the arguments see
    `partition`.

    Returns:
        A callable with ``.partitioned(*args)`` and ``.lower(*args)``.

    Example:
        >>> import jax.numpy as jnp, partir
        >>> rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
        >>> @partir.jit(mesh={"B": 1}, schedule=[rows])
        ... def double(x):
        ...     return 2 * x
        >>> double(jnp.arange(4.0)).tolist()
        [0.0, 2.0, 4.0, 6.0]
    """
    if mesh is None or schedule is None:
        raise PartitionError(
            "jit needs a mesh and a schedule: partir.jit(fn, mesh, [tactic, …])"
        )
    options = Options.of(
        static_argnums, static_argnames, donate_argnums, donate_argnames
    )
    keywords = {
        "devices": devices,
        "carry": carry,
        "compiler_options": compiler_options,
        "strict": strict,
    }
    if fn is None:
        return lambda given: Jitted(given, mesh, schedule, options, **keywords)
    return Jitted(fn, mesh, schedule, options, **keywords)


__all__ = ["Jitted", "PartirError", "Traced", "jit", "partition", "trace", "trace_for"]
