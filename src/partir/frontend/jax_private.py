"""Private parts of jax that reading programs needs, and what differs by its version.

The frontend's only file that may import `jax._src`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import jax
import numpy as np
from jax._src import config, core, source_info_util, xla_bridge
from jax._src.interpreters import partial_eval
from jax._src.literals import TypedNdArray
from jax.extend.mlir import ir
from jax.interpreters import mlir

ARRAYS = (jax.Array, np.ndarray, np.generic, TypedNdArray)
"""Classes of arrays; the last is what jax makes of numpy's constants."""

_STACK_LIMIT = 100  # frames; jax's own default


# Tracing and lowering


def known_platforms() -> set[str]:
    """Platforms that programs can be lowered for; "gpu" stands for several of them."""
    found: set[str] = xla_bridge.known_platforms()
    return found - {"gpu"}


def trace_context() -> Any:
    """All settings of jax that a trace depends on; hashable."""
    return config.trace_context()


@contextmanager
def full_stacks() -> Iterator[None]:
    """Ops are lowered with their stacks, whatever the user set."""
    with (
        config.include_full_tracebacks_in_locations(True),
        config.traceback_in_locations_limit(_STACK_LIMIT),
    ):
        yield


StackScope: Any = getattr(partial_eval, "TracebackScope", nullcontext)
"""Stacks written inside begin where it is entered; before jax 0.9 it does nothing."""


def show_in_stacks(file: str) -> None:
    """Where `StackScope` does nothing, let stacks hold the frames of a file of ours."""
    if StackScope is nullcontext:
        source_info_util.register_inclusion(file)


_ir_type: Any = mlir.aval_to_ir_type
_TYPES_NEED_CONTEXT = len(inspect.signature(_ir_type).parameters) > 1


def ir_types(context: Any, avals: Iterable[Any]) -> list[Any]:
    """MLIR types of avals; `context` is the module's, wanted from jax 0.10 on."""
    given = (context,) if _TYPES_NEED_CONTEXT else ()
    return [_ir_type(*given, aval) for aval in avals]


def host_callbacks(lowered: Any) -> tuple[Any, ...]:
    """Functions on the host that a lowered program calls by number."""
    return tuple(lowered._lowering.compile_args.get("host_callbacks", ()))


def hidden_dims(aval: Any) -> int:
    """Dimensions of a PRNG key that only show when it is lowered."""
    return len(core.physical_aval(aval).shape) - len(aval.shape)


def inner_jaxprs(params: Any) -> Iterator[Any]:
    """Jaxprs among an equation's parameters."""
    yield from core.jaxprs_in_params(params)


# Locations: classes of their own from jax 0.10 on, questions to one class before

if hasattr(ir, "NameLoc"):

    def is_name(location: Any) -> bool:
        """Whether this is a name above another location."""
        return isinstance(location, ir.NameLoc)

    def is_call(location: Any) -> bool:
        """Whether this is a callee and its caller."""
        return isinstance(location, ir.CallSiteLoc)

    def is_fused(location: Any) -> bool:
        """Whether this is several locations."""
        return isinstance(location, ir.FusedLoc)

    def is_line(location: Any) -> bool:
        """Whether this is a file and a line."""
        return isinstance(location, ir.FileLineColLoc)

else:

    def is_name(location: Any) -> bool:
        """Whether this is a name above another location."""
        return bool(location.is_a_name())

    def is_call(location: Any) -> bool:
        """Whether this is a callee and its caller."""
        return bool(location.is_a_callsite())

    def is_fused(location: Any) -> bool:
        """Whether this is several locations."""
        return bool(location.is_a_fused())

    def is_line(location: Any) -> bool:
        """Whether this is a file and a line."""
        return bool(location.is_a_file())
