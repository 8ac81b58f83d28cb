"""`Draft`: a program while its ops take their normal form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from partir.ir.core import Lambda, Op, Program, Region, Signature
from partir.ir.source import Location
from partir.ir.types import TensorType
from partir.rules.host import has_effects


class Form(NamedTuple):
    """What an op becomes; its result stays what it is."""

    kind: str
    attrs: Mapping[str, str]
    operands: tuple[int, ...]
    lambdas: tuple[Lambda, ...] = ()
    location: Location | None = None  # if not that of the op it stands for


class Draft:
    """Ops by what they make. Whoever loses its last reader goes.

    Values that have names from outside stay: tags, results, what loops and branches
    carry. A tagged value is a place where users decide, so nobody looks through it.
    What has effects stays as well, read or not.
    """

    def __init__(self, program: Program) -> None:
        """Count who reads what."""
        self.program = program
        self.types = list(program.types)
        self.splats = program.splats
        ops = program.ops
        self._makers = {
            op.results[0]: op for op in ops if len(op.results) == 1 and not op.regions
        }
        self._readers = Counter(chain.from_iterable([op.operands for op in ops]))
        self._tagged = frozenset(tag.value for tag in program.tags)
        acting = (op.results for op in ops if has_effects(op.signature))
        self._kept = self._tagged.union(_named_outside(program), *acting)
        self._inward = frozenset(_read_from_outside(program))
        self._before: dict[int, list[int]] = {}
        self._gone: set[int] = set()
        self._new: set[int] = set()  # values that another op makes now

    # What forms ask

    def maker(self, value: int, *names: str) -> Op | None:
        """The op of such a kind that makes a value, unless the value is tagged."""
        op = self._makers.get(value)
        if op is None or op.signature.name not in names or value in self._tagged:
            return None
        return op

    def has_one_reader(self, value: int) -> bool:
        """Whether nobody else needs it, nor the one again and again, in a loop."""
        alone = self._readers.get(value) == 1 and value not in self._kept
        return alone and value not in self._inward

    def same(self, left: int, right: int) -> bool:
        """Whether two values are certainly equal: one value, or one number."""
        number = self.splats.get(left)
        known = number is not None and number == self.splats.get(right)
        return left == right or (known and self.types[left] == self.types[right])

    # What forms do

    def insert(self, form: Form, type_: TensorType, reader: Op) -> int:
        """A new op just before the one that is looked at; returns its value."""
        value = len(self.types)
        self.types.append(type_)
        self._make(form, value, reader)
        self._before.setdefault(reader.results[0], []).append(value)
        return value

    def replace(self, op: Op, form: Form) -> None:
        """Make an op's result by this form instead."""
        self._make(form, op.results[0], op)
        self._new.add(op.results[0])
        for value in op.operands:
            self._release(value)

    def _make(self, form: Form, value: int, like: Op) -> None:
        types = tuple(self.types[v] for v in form.operands)
        made = (self.types[value],)
        signature = Signature.of(form.kind, form.attrs, types, made, form.lambdas)
        location = form.location or like.location
        self._makers[value] = Op(signature, form.operands, (value,), location)
        for operand in form.operands:
            self._readers[operand] += 1

    def _release(self, value: int) -> None:
        """One reader less; without any, what makes it goes too."""
        waiting = [value]
        while waiting:
            now = waiting.pop()
            self._readers[now] -= 1
            if self._readers[now] or now in self._kept or now not in self._makers:
                continue
            self._gone.add(now)
            waiting += self._makers[now].operands

    def latest(self, op: Op) -> Op | None:
        """An op as it is now; None if it is gone, or does not make just one value."""
        made = self._makers.get(op.results[0]) if len(op.results) == 1 else None
        return None if made is None or made.results[0] in self._gone else made

    # The end

    def finish(self) -> Program:
        """The program, ops numbered in their order again."""
        if not self._new:
            return self.program
        numbers: dict[int, int] = {}  # of ops that stay, which ties may name
        ops: list[Op | None] = []
        body = self._region(self.program.body, ops, numbers)
        ties = tuple(
            tie if tie.owner is None else replace(tie, owner=numbers[tie.owner])
            for tie in self.program.ties
        )
        return replace(
            self.program,
            types=tuple(self.types),
            ops=tuple(op for op in ops if op is not None),
            body=body,
            ties=ties,
        )

    def _region(
        self, region: Region, ops: list[Op | None], numbers: dict[int, int]
    ) -> Region:
        placed = []
        touched = self._new | self._gone
        for old in region.ops:
            op = self.program.ops[old]
            first = len(ops)
            if op.regions:
                numbers[old] = first
                ops.append(None)
                inner = tuple([self._region(r, ops, numbers) for r in op.regions])
                ops[first] = op._replace(regions=inner)
                placed.append(first)
            elif len(op.results) != 1 or op.results[0] not in touched:
                numbers[old] = first
                ops.append(op)
                placed.append(first)
            else:
                ops += self._instead_of(op.results[0])
                numbers[old] = len(ops) - 1  # itself comes last
                placed += range(first, len(ops))
        return Region(region.arguments, tuple(placed), region.results)

    def _instead_of(self, value: int) -> list[Op]:
        """What stands where an op was: what was put before it, then itself."""
        values = (*self._before.get(value, ()), value)
        return [self._makers[v] for v in values if v not in self._gone]


def _named_outside(program: Program) -> Iterator[int]:
    """Values that something else than an op reads or means."""
    yield from (port.value for port in program.results)
    for tie in program.ties:
        yield from (*tie.sources, *tie.targets)
    yield from program.body.results
    for op in program.ops:
        for region in op.regions:
            yield from region.results


def _read_from_outside(program: Program) -> Iterator[int]:
    """Values that loops and branches read without having made them."""
    for op in program.ops:
        for region in op.regions:
            made = set(region.arguments)
            for number in region.ops:
                inner = program.ops[number]
                yield from (value for value in inner.operands if value not in made)
                made.update(inner.results)
