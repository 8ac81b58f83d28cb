"""Modules from outside: what would end the process, or be misread, is refused.

MLIR's parser recurses into brackets, and the bindings end the process when they are to
show a string that is no text; a corrupt file may have either. Functions of several
blocks and functions that call themselves are valid MLIR, but no programs of ours.
"""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from jax.extend.mlir import ir

from partir.errors import PartitionError

MOST_NESTED = 1000
_STRINGS = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')
# Strings with bytes beyond ASCII, which MLIR prints as two digits each.
_ESCAPED = re.compile(rb'"(?:[^"\\]|\\.)*?\\[89A-F][0-9A-F](?:[^"\\]|\\.)*"')
_BYTE = re.compile(rb"\\([0-9A-F]{2})")
_OPEN, _CLOSED = b"([{<", b")]}>"


def refuse_deep(text: str) -> None:
    """Text whose brackets MLIR's parser could not follow on its stack."""
    if _depth(text) > MOST_NESTED and _depth(_STRINGS.sub("", text)) > MOST_NESTED:
        raise PartitionError(
            f"not a StableHLO module: brackets within each other over {MOST_NESTED} "
            "deep"
        )


def _depth(text: str) -> int:
    """How deep brackets are nested at most; those in strings count as well."""
    data = np.frombuffer(text.encode(errors="replace"), np.uint8)
    change = np.zeros(256, np.int8)
    change[list(_OPEN)], change[list(_CLOSED)] = 1, -1
    steps = change[data]
    arrows = (data[1:] == ord(">")) & (data[:-1] == ord("-"))
    steps[1:][arrows] = 0
    depths = np.cumsum(steps, dtype=np.int64)
    lowest = np.minimum.accumulate(np.minimum(depths, 0))
    return int(np.max(depths - lowest, initial=0))


def refuse_strings_that_are_no_text(printed: bytes) -> None:
    """Bytecode may have any bytes where names and file names should be."""
    try:
        printed.decode()
        for string in _ESCAPED.findall(printed) if b"\\" in printed else ():
            _BYTE.sub(_unescaped, string).decode()
    except UnicodeDecodeError:
        raise PartitionError(
            "not a StableHLO module: it has names that are no text, so it is corrupt"
        ) from None


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)])


def require_structured(module: Any) -> None:
    """A block for each region, and no function that calls itself."""
    calls: dict[str, set[str]] = {}
    for function in module.body.operations:
        if "sym_name" in function.attributes:
            name = ir.StringAttr(function.attributes["sym_name"]).value
            calls[name] = _called(function, name)
    _require_no_circles(calls)


def _called(function: Any, name: str) -> set[str]:
    """Functions that a function calls."""
    found: set[str] = set()
    branching: list[Any] = []

    def visit(op: Any) -> Any:
        if len(op.regions) and any(len(region.blocks) > 1 for region in op.regions):
            branching.append(op)
        elif op.name == "func.call":
            found.add(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit)
    if branching:
        raise PartitionError(
            f"@{name} has branches between blocks, in {branching[0].name} at "
            f"{branching[0].location}; partir reads structured control flow only: "
            "stablehlo.while, case and if"
        )
    return found


def _require_no_circles(calls: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        shown = " -> ".join(f"@{name}" for name in error.args[1])
        raise PartitionError(
            f"functions that call themselves can't be partitioned: {shown}; "
            "stablehlo.while is a loop"
        ) from None
