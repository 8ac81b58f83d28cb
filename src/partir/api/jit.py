"""`jit`, `partition`, `trace`: from a function to its partitioned form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack, overload

from partir.api.accepted import DevicesLike, MeshLike, ScheduleLike
from partir.api.checks import require_arguments, require_platform
from partir.api.jitted import Jitted, refuse_partitioned
from partir.api.partitioned import Partitioned
from partir.api.pipeline import pipeline
from partir.api.running import (
    DEFAULT_VERIFICATION,
    Running,
    Verification,
    real_mesh,
)
from partir.api.source import FunctionCall, Source, TracedProgram
from partir.errors import PartitionError
from partir.execute.options import CompilerOptions
from partir.explain.expectations import Expected
from partir.frontend.arguments import flatten_call
from partir.frontend.parameters import Options, Parameters
from partir.frontend.trace import trace_call
from partir.ir.core import Program
from partir.mesh import Mesh
from partir.simulate.device.lookup import DeviceLike
from partir.tactics.schedule import as_schedule


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
    return _trace(None, fn, args, kwargs)


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
    return _trace(require_platform(platform), fn, args, kwargs)


def _trace(platform: str | None, fn: Any, args: Any, kwargs: Any) -> Program:
    fn = refuse_partitioned(fn, "trace")
    call, _ = flatten_call(Parameters.of(fn, Options()), args, kwargs)
    return trace_call(fn, call, platform=platform)


def partition(
    fn_or_program: Callable[..., Any] | Program,
    mesh: MeshLike,
    schedule: ScheduleLike,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *more: Any,
    device: DeviceLike | None = None,
    devices: DevicesLike | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    carry: Mapping[str, str] | None = None,
    compiler_options: CompilerOptions | None = None,
    strict: bool = False,
    expect: Expected | None = None,
    verify: Verification = DEFAULT_VERIFICATION,
) -> Partitioned:
    """Partition a function or a program. Needs no devices.

    Args:
        fn_or_program: a function, or a Program from `trace` or `load`.
        mesh: a `Mesh`, a mapping of axis names to sizes, or a jax Mesh.
        schedule: tactics in order.
        args: example arguments of a function, in a tuple: arrays or
            `jax.ShapeDtypeStruct`s.
        kwargs: the same, by name.
        *more: nothing; who passes a function's arguments one by one is told so.
        device: for estimates: a name in `partir.devices`, a `DeviceSpec`, or a path to
            a .toml file.
        devices: devices to run on, by default jax's.
        static_argnums: as jax.jit takes them, as the other three.
        static_argnames: see `static_argnums`.
        donate_argnums: see `static_argnums`.
        donate_argnames: see `static_argnums`.
        carry: results that succeed arguments, ``{"out/0": "params"}``; by default
            donated arguments whose tree equals a result's.
        compiler_options: passed to XLA.
        strict: make it an error if there are `replicated_ops`.
        expect: what must hold, ``{"all_gather": 0, "peak_bytes": "<16GB"}``; else an
            error that explains why it does not.
        verify: "on" proves the device-local program before `compile` hands it on, and
            `jit` while XLA compiles, before anything runs: what is wrong is a
            VerificationError, what can't be proved a NotProvedWarning, and an error if
            `strict`. "off" leaves the proof out.

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
    require_arguments(args, kwargs, more)
    ours = Mesh.of(mesh)
    source = _source(fn_or_program, args, kwargs, options, carry)
    tactics = as_schedule(schedule)
    devices = real_mesh(mesh) if devices is None else devices
    running = Running(devices, compiler_options, strict, device, expect, verify)
    return pipeline(source, ours, tactics, running)


def _source(
    given: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    options: Options,
    carry: Mapping[str, str] | None,
) -> Source:
    if isinstance(given, Program):
        if args or kwargs or options.static_argnums or options.static_argnames:
            raise PartitionError(
                "a Program has its arguments already: leave out args, kwargs and "
                "static arguments, or partition the function itself"
            )
        return TracedProgram(given, options, carry)
    if callable(given):
        fn = refuse_partitioned(given, "partition")
        call, _ = flatten_call(Parameters.of(fn, options), args, kwargs or {})
        return FunctionCall(fn, call, options, carry)
    raise PartitionError(
        "partition takes a function or a Program from partir.trace or partir.load, "
        f"got {type(given).__name__}; then a mesh and a schedule"
    )


class JitOptions(TypedDict, total=False):
    """What `jit` takes by name; see `partition`."""

    device: DeviceLike | None
    devices: DevicesLike | None
    static_argnums: int | Sequence[int]
    static_argnames: str | Sequence[str]
    donate_argnums: int | Sequence[int]
    donate_argnames: str | Sequence[str]
    carry: Mapping[str, str] | None
    compiler_options: CompilerOptions | None
    strict: bool
    expect: Expected | None
    verify: Verification


@overload
def jit(
    fn: Callable[..., Any],
    mesh: MeshLike | None = None,
    schedule: ScheduleLike | None = None,
    **options: Unpack[JitOptions],
) -> Jitted: ...


@overload
def jit(
    fn: None = None,
    mesh: MeshLike | None = None,
    schedule: ScheduleLike | None = None,
    **options: Unpack[JitOptions],
) -> Callable[[Callable[..., Any]], Jitted]: ...


def jit(
    fn: Callable[..., Any] | None = None,
    mesh: MeshLike | None = None,
    schedule: ScheduleLike | None = None,
    *,
    device: DeviceLike | None = None,
    devices: DevicesLike | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    carry: Mapping[str, str] | None = None,
    compiler_options: CompilerOptions | None = None,
    strict: bool = False,
    expect: Expected | None = None,
    verify: Verification = DEFAULT_VERIFICATION,
) -> Jitted | Callable[[Callable[..., Any]], Jitted]:
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
    devices = real_mesh(mesh) if devices is None else devices
    running = Running(devices, compiler_options, strict, device, expect, verify)

    def wrap(given: Callable[..., Any]) -> Jitted:
        return Jitted(given, mesh, schedule, options, running, carry)

    return wrap if fn is None else wrap(fn)
