"""MLIR text or bytecode -> a module of the bindings, or an error with MLIR's reason."""

from __future__ import annotations

import re
from typing import Any

from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir as jax_mlir

from partir.errors import PartitionError

_PLACE = re.compile(r'loc\("-":(\d+):(\d+)\)')


def parse_module(source: str | bytes) -> Any:
    """Parse text or bytecode, or raise a PartitionError with MLIR's own reason."""
    context = jax_mlir.make_ir_context()
    try:
        if isinstance(source, bytes) and b"StableHLO_v" in source[:64]:
            return stablehlo.deserialize_portable_artifact(context, source)
        with context:
            return ir.Module.parse(source, context)
    except ir.MLIRError as error:
        found = error.error_diagnostics
        reason = _diagnosis(found[0]) if found else str(error)
        raise PartitionError(f"not a StableHLO module: {reason}") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise PartitionError(f"not a StableHLO module: {error}") from None


def _diagnosis(diagnostic: Any) -> str:
    """``line 3, column 8: …``; what is not text has no lines."""
    place = _PLACE.fullmatch(str(diagnostic.location))
    where = f"line {place[1]}, column {place[2]}: " if place and int(place[1]) else ""
    return where + str(diagnostic.message).strip()
