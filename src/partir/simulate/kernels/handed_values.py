"""What repetitions of a folded program hand on, as values of the SPMD program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from partir.ir.core import Region
from partir.simulate.fold_multiplicity import Multiplicity
from partir.spmd.program import Block, Collective, Compute, Control, SpmdProgram
from partir.spmd.rewrites.sweep import collectives_of
from partir.spmd.rewrites.tie_gathers import gather_key


def handed_values(program: SpmdProgram, multiplicity: Multiplicity) -> dict[int, int]:
    """What a repetition hands to the next, with what the first one gets instead.

    Each as it lies before readers move it to where they want it.
    """
    handed = multiplicity.handed
    if not handed:
        return {}
    forms = _Forms(program, {*handed, *handed.values()}).of
    pairs = ((forms.get(v), forms.get(first)) for v, first in handed.items())
    return {v: first for v, first in pairs if v is not None and first is not None}


def tied_to_handed(program: SpmdProgram, handed: Mapping[int, int]) -> SpmdProgram:
    """Gathers that wait for an argument, which later repetitions don't get.

    The first repetition needs an argument with what it gathers, so that its gather
    waits for nothing. Later ones need what is handed to them, and wait for that.
    """
    body = program.body
    firsts = set(handed.values()).intersection(body.arguments)
    if not firsts:
        return program
    keys = Counter(map(gather_key, collectives_of(body.ops)))
    needed: dict[int, int] = {}  # arguments that gathered values are read with
    for op in body.ops:
        if isinstance(op, Compute) and not firsts.isdisjoint(op.operands):
            (first, *_) = firsts.intersection(op.operands)
            needed.update(dict.fromkeys(op.operands, first))
    ops = tuple(
        op._replace(after=needed[op.result])
        if isinstance(op, Collective)
        and op.result in needed
        and op.after < 0
        and keys[gather_key(op)] > 1
        else op
        for op in body.ops
    )
    return replace(program, body=replace(body, ops=ops))


class _Forms:
    """The form in which makers leave wanted values of the source program."""

    def __init__(self, program: SpmdProgram, wanted: set[int]) -> None:
        self.source, self.wanted = program.program, wanted
        self.makers = {self.source.producers.get(value) for value in wanted}
        self.of: dict[int, int] = {}
        self._block(program.body, self.source.body)

    def _block(self, block: Block, region: Region) -> None:
        self._note(region.arguments, block.arguments)
        for op in block.ops:
            if isinstance(op, Collective):
                if op.cause.consumer is None and op.cause.value in self.of:
                    self.of[op.cause.value] = op.result
                continue
            if op.node in self.makers:
                self._note(self.source.ops[op.node].results, op.results)
            if isinstance(op, Control) and op.blocks:
                regions = self.source.ops[op.node].regions
                for inner, own in zip(op.blocks, regions, strict=True):
                    self._block(inner, own)

    def _note(self, sources: tuple[int, ...], values: tuple[int, ...]) -> None:
        pairs = zip(sources, values, strict=True)
        self.of.update((s, v) for s, v in pairs if s in self.wanted)
