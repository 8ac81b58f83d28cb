"""Optimization barriers, as compilers have and keep them.

Rematerialisation is written with barriers: recomputing waits for the backward pass.
XLA drops them on CPUs, unless told not to (which partir does where gathers depend on
them), and then recomputes everything as soon as it can: memory isn't saved.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.simulate.device.spec import DeviceSpec
from partir.simulate.kernels.equal_ops import merge_equal
from partir.simulate.kernels.narrowed import narrowed
from partir.simulate.kernels.product_operands import with_operands
from partir.simulate.kernels.scatter_sums import scatter_into_sums
from partir.simulate.kernels.tile_copies import copy_tiles
from partir.spmd.prepare import has_ties, prepared
from partir.spmd.program import Control, SpmdOp, SpmdProgram
from partir.spmd.rewrites import drop_dead
from partir.spmd.sweep import Sweep, run_pass


def compiled(program: SpmdProgram, device: DeviceSpec) -> SpmdProgram:
    """The program with those of its barriers that the device's compiler has.

    Values have the types, and products' operands the form, that they have in memory.
    """
    program = prepared(program, device.export)
    if device.fusion.merges_equal:
        program = run_pass(program, merge_equal)
    if device.fusion.scatters_into_sums:
        program = _scattered_into_sums(program)
    program = with_operands(program, device)
    if device.export.outer_tiles:
        program = run_pass(program, copy_tiles)
    if device.fusion.narrow_products:
        program = narrowed(program)
    if device.keeps_barriers or has_ties(program):
        return program
    if not any(map(_is_barrier, (op for op, _ in program.walk()))):
        return program
    return run_pass(program, _drop)


def _scattered_into_sums(program: SpmdProgram) -> SpmdProgram:
    """Without the zeros that nothing is scattered into any more."""
    made = run_pass(program, scatter_into_sums)
    return program if made is program else drop_dead(made)


def _is_barrier(op: SpmdOp) -> bool:
    return isinstance(op, Control) and not op.blocks


def _drop(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    others = []
    for op in ops:
        if not _is_barrier(op):
            others.append(op)
            continue
        for operand, result in zip(op.operands, op.results, strict=True):
            sweep.renamed[result] = sweep.renamed.get(operand, operand)
    return others
