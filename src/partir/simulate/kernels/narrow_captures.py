"""What loops read from outside, narrowed before them.

Where products read float32 numbers as bfloat16 (`narrowed.py`), what a loop reads from
outside and takes parts of for products is rounded before the loop, as a whole: weights
of all layers in a scan. The narrow values are in memory until the last loop that reads
them has run, beside the wide ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from partir.ir.core import Signature
from partir.ir.types import TensorType, tensor
from partir.rules.nest import nest_of
from partir.simulate.kernels.narrowed import NARROW, WIDE, is_product, passes
from partir.spmd.program import Block, Compute, Control, SpmdOp, node_of
from partir.spmd.rewrites.sweep import Sweep, renamed_in


def narrow_captures(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """Narrow before a loop what only products read in it, whole or in parts.

    rewrite:
        while … { %1 = dynamic_slice %w, … ; %2 = dot %x, %1 }
        ->
        %3 = convert %w ; while … { %1 = dynamic_slice %3, … ; %2 = dot %x, %1 }
    """
    made: list[SpmdOp] = []
    narrow: dict[int, int] = {}
    for op in ops:
        if isinstance(op, Control) and len(op.blocks) == 2:
            here = _narrowed_in(sweep, op)
            for value in here.keys() - narrow.keys():
                narrow[value] = sweep.new(_narrow(sweep.types[value]))
                made.append(_convert(sweep, here[value], value, narrow[value]))
            if here:
                names = {value: narrow[value] for value in here}
                blocks = tuple(renamed_in(names, block) for block in op.blocks)
                op = replace(op, blocks=blocks)
        made.append(op)
    return made if narrow else ops


def _narrowed_in(sweep: Sweep, op: Control) -> dict[int, int]:
    """Wide values from outside that only products read, with a reader's node."""
    found: dict[int, int] = {}
    others: set[int] = {*op.operands}
    inside = {v for block in op.blocks for v in _made_in(block)}
    for block in op.blocks:
        others.update(block.results)
        for reader in block.ops:
            if is_product(reader) or _hands_on(sweep, reader):
                for value in reader.operands:
                    found.setdefault(value, node_of(reader) or op.node)
            else:
                others.update(_all_reads(reader))
    return {
        value: node
        for value, node in found.items()
        if value not in inside and value not in others and _is_wide(sweep.types[value])
    }


def _hands_on(sweep: Sweep, op: SpmdOp) -> bool:
    """Whether products get what it reads."""
    return passes(op) and sweep.types[op.results[0]].dtype == NARROW


def _is_wide(type_: TensorType) -> bool:
    return type_.tensor and type_.dtype == WIDE


def _narrow(type_: TensorType) -> TensorType:
    return tensor(type_.shape, NARROW)


def _convert(sweep: Sweep, node: int, wide: int, narrow: int) -> Compute:
    types = (sweep.types[wide],), (sweep.types[narrow],)
    nest = nest_of(Signature.of("stablehlo.convert", {}, *types))
    return Compute(node, nest, (wide,), (narrow,))


def _made_in(block: Block) -> Iterator[int]:
    yield from block.arguments
    for op in block.ops:
        yield from op.results


def _all_reads(op: SpmdOp) -> Iterator[int]:
    """What it reads, in its blocks too."""
    yield from op.operands
    for block in op.blocks if isinstance(op, Control) else ():
        yield from block.results
        for inner in block.ops:
            yield from _all_reads(inner)
