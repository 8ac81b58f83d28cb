"""The device-local module of an SPMD program, with what it needs of its source."""

from __future__ import annotations

from partir.execute.module import Module
from partir.frontend.opaque_calls import local_functions
from partir.frontend.trace import Traced
from partir.spmd.export_policy import ExportPolicy
from partir.spmd.program import SpmdProgram
from partir.spmd.stablehlo.export import stablehlo_text


def export(spmd: SpmdProgram, policy: ExportPolicy) -> Module:
    """SPMD program -> StableHLO; a traced one brings opaque and host functions along.

    A module from a file has none: what it calls is not part of it.
    """
    source = spmd.program
    opaque, callbacks = (
        (source.opaque, source.callbacks) if isinstance(source, Traced) else ({}, ())
    )
    text = stablehlo_text(spmd, policy, opaque=local_functions(opaque))
    return Module(text, callbacks)
