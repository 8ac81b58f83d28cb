"""Optimization barriers, as compilers have and keep them.

Rematerialisation is written with barriers: recomputing waits for the backward pass.
XLA drops them on CPUs, unless told not to (which partir does where gathers or products
depend on them), and then recomputes everything as soon as it can: memory isn't saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from partir.simulate.device.spec import DeviceSpec
from partir.simulate.kernels.equal_ops import merge_equal
from partir.simulate.kernels.narrow_captures import narrow_captures
from partir.simulate.kernels.narrowed import narrowed
from partir.simulate.kernels.product_operands import with_operands
from partir.simulate.kernels.scatter_sums import scatter_into_sums
from partir.simulate.kernels.tile_copies import copy_tiles
from partir.spmd.preparations.authors_barriers import drop_barriers
from partir.spmd.preparations.prepare import has_ties, prepared
from partir.spmd.preparations.product_order import waits_of
from partir.spmd.preparations.weight_sizes import gathers_most
from partir.spmd.program import Collective, SpmdProgram
from partir.spmd.rewrites.sweep import run_pass
from partir.spmd.rewrites.table import drop_dead

Waits = Mapping[int, tuple[int, ...]]
"""Values that must be there before a product or a loop, by its source op."""


class KeptProgram(NamedTuple):
    """A program as a compiler has it, and what it is told of the order of its ops.

    `depth_first` is whether it is told to mind memory.
    """

    program: SpmdProgram
    waits: Waits
    depth_first: bool


def compiled(program: SpmdProgram, device: DeviceSpec) -> KeptProgram:
    """The program with those of its barriers that the device's compiler has.

    Values have the types, and products' operands the form, that they have in memory.
    What products wait for is only of interest where the compiler orders kernels anew.
    """
    # Folded programs can't tell what is kept if what is recomputed is merged: barriers
    # go behind that, though the exporter drops them before.
    program = prepared(program, replace(device.export, drops_barriers=False))
    waits = _waits(program, device)
    depth_first = device.export.minds_memory and gathers_most(program)
    keeps = device.keeps_barriers or bool(waits) or has_ties(program)
    return KeptProgram(_compiled(program, device, keeps), waits, depth_first)


def _waits(program: SpmdProgram, device: DeviceSpec) -> Waits:
    order = {} if device.order == "program" else waits_of(program, device.export)
    makers = {v: op for op, _ in program.walk() for v in op.results if v in order}
    return {
        op.node: order[value].values
        for value, op in makers.items()
        if not isinstance(op, Collective)
    }


def _compiled(program: SpmdProgram, device: DeviceSpec, keeps: bool) -> SpmdProgram:
    if device.fusion.merges_equal:
        program = run_pass(program, merge_equal)
    if device.fusion.scatters_into_sums:
        program = _scattered_into_sums(program)
    program = with_operands(program, device)
    if device.export.outer_tiles:
        program = run_pass(program, copy_tiles)
    if device.fusion.narrow_products:
        program = run_pass(narrowed(program), narrow_captures)
    return program if keeps else run_pass(program, drop_barriers)


def _scattered_into_sums(program: SpmdProgram) -> SpmdProgram:
    """Without the zeros that nothing is scattered into any more."""
    made = run_pass(program, scatter_into_sums)
    return program if made is program else drop_dead(made)
