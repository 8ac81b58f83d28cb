"""MLIR text or bytecode -> a module of the bindings, or an error with MLIR's reason."""

from __future__ import annotations

import re
import threading
from typing import Any

from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir as jax_mlir

from partir.errors import PartitionError
from partir.frontend.foreign_modules import (
    refuse_deep,
    refuse_strings_that_are_no_text,
    require_structured,
)
from partir.frontend.trial_read import printed_elsewhere

_PLACE = re.compile(r'loc\("-":(\d+):(\d+)\)')


_MOST = 1 << 20  # characters of text that are read in one context: it keeps all types


class _Contexts(threading.local):
    """A context of each thread, for several texts: to make one takes milliseconds."""

    kept: Any = None
    read: int = _MOST

    def for_text(self, text: str) -> Any:
        if len(text) > _MOST:
            return _context()
        if self.kept is None or self.read + len(text) > _MOST:
            self.kept, self.read = _context(), 0
        self.read += len(text)
        return self.kept


_contexts = _Contexts()


def _context() -> Any:
    context = jax_mlir.make_ir_context()
    context.enable_multithreading(False)  # a forked process has none of its threads
    return context


def parse_module(source: str | bytes) -> Any:
    """Parse text or bytecode, or raise a PartitionError with MLIR's own reason."""
    try:
        if isinstance(source, bytes):
            return _parse_bytes(source, _context())
        context = _contexts.for_text(source)
        with context:
            return ir.Module.parse(source, context)
    except ir.MLIRError as error:
        found = error.error_diagnostics
        reason = _diagnosis(found[0]) if found else str(error)
        raise PartitionError(f"not a StableHLO module: {reason}") from None
    except (ValueError, UnicodeError) as error:
        raise PartitionError(f"not a StableHLO module: {error}") from None


def parse_foreign_module(source: str | bytes) -> Any:
    """The same for a module that may be anything, and must not end the process."""
    if isinstance(source, str):
        refuse_deep(source)
    else:
        refuse_strings_that_are_no_text(printed_elsewhere(source))
    module = parse_module(source)
    require_structured(module)
    return module


def _parse_bytes(source: bytes, context: Any) -> Any:
    """Parse bytecode. The bindings end the process on a reason that is no text."""
    reasons: list[str] = []

    def told(diagnostic: Any) -> bool:
        try:
            reasons.append(str(diagnostic.message).strip())
        except (UnicodeError, RuntimeError):  # which of them, depends on nanobind
            reasons.append("it is corrupt")
        return True

    context.emit_error_diagnostics = True  # to the handler, not into the exception
    handler = context.attach_diagnostic_handler(told)
    try:
        if b"StableHLO_v" in source[:64]:
            return stablehlo.deserialize_portable_artifact(context, source)
        with context:
            return ir.Module.parse(source, context)
    except (ir.MLIRError, ValueError) as error:
        reason = reasons[0] if reasons else str(error)
        raise PartitionError(f"not a StableHLO module: {reason}") from None
    finally:
        handler.detach()


def _diagnosis(diagnostic: Any) -> str:
    """``line 3, column 8: …``; what is not text has no lines."""
    place = _PLACE.fullmatch(str(diagnostic.location))
    where = f"line {place[1]}, column {place[2]}: " if place and int(place[1]) else ""
    return where + str(diagnostic.message).strip()
