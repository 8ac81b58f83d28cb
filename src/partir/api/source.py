"""What is partitioned: a function for one call, or a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from partir.errors import PartitionError
from partir.execute.interface import Interface
from partir.frontend.arguments import Call
from partir.frontend.carry import carry_ties
from partir.frontend.parameters import Options
from partir.frontend.trace import trace_call
from partir.ir.core import Program
from partir.mesh import Mesh


@dataclass(frozen=True)
class FunctionCall:
    """A function, and the call that it is traced for."""

    fn: Callable[..., Any]
    call: Call
    options: Options
    carry: Mapping[str, str] | None = None


@dataclass(frozen=True)
class TracedProgram:
    """A program that was traced or loaded before.

    Its arguments are set; what is donated and carried can be said now.
    """

    program: Program
    options: Options
    carry: Mapping[str, str] | None = None


Source: TypeAlias = FunctionCall | TracedProgram


def trace(source: Source, mesh: Mesh) -> Program:
    """The program of a source, as it is on this mesh."""
    match source:
        case FunctionCall(fn, call, _, carry):
            return trace_call(fn, call, mesh, carry)
        case TracedProgram(program, options, carry):
            said = carry is not None or options != Options()
            return _with_ties(program, options, carry) if said else program


def _with_ties(
    program: Program, options: Options, carry: Mapping[str, str] | None
) -> Program:
    called = Interface.of(program, None, options)
    ports = program.arguments, program.results
    ties = carry_ties(called.call, *ports, called.outputs.avals, carry)
    inner = [tie for tie in program.ties if tie.owner is not None]
    return replace(program, ties=(*inner, *ties))


def interface(source: Source, program: Program) -> Interface:
    """How the program of a source is called."""
    fn = source.fn if isinstance(source, FunctionCall) else None
    return Interface.of(program, fn, source.options)


def donated(source: Source, program: Program) -> tuple[bool, ...] | None:
    """Which arguments are; None if the program can't be called."""
    try:
        return interface(source, program).donated
    except PartitionError:  # what can't be called has nothing to donate
        return None
