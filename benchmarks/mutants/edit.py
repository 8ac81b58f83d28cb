"""Changing one op of a program, and the table of mistakes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from partir.ir.core import Lambda, Op, Program, Signature

Change = Callable[["Site"], Op | None]
KINDS: dict[str, Change] = {}


@dataclass(frozen=True)
class Site:
    """An op of a program that may get a mistake; random choices are the seed's."""

    program: Program
    index: int
    rng: random.Random
    before: tuple[int, ...]  # values that the op could read
    axes: tuple[str, ...]  # spellings of replica groups that the program has

    @property
    def op(self) -> Op:
        """The op as it is."""
        return self.program.ops[self.index]

    @property
    def name(self) -> str:
        """Its kind without the dialect."""
        return self.op.signature.name

    def changed(
        self,
        *,
        kind: str | None = None,
        attrs: Mapping[str, str] | None = None,
        operands: Sequence[int] | None = None,
        lambdas: tuple[Lambda, ...] | None = None,
    ) -> Op | None:
        """The op with something else; None if nothing is."""
        signature, types = self.op.signature, self.program.types
        reads = tuple(self.op.operands if operands is None else operands)
        made = Signature.of(
            kind or signature.kind,
            signature.attrs if attrs is None else {**signature.attrs, **attrs},
            tuple(types[v] for v in reads),
            signature.results,
            signature.lambdas if lambdas is None else lambdas,
        )
        if made is signature and reads == self.op.operands:
            return None
        return self.op._replace(signature=made, operands=reads)

    def left_out(self, operand: int = 0) -> Op | None:
        """The op's operand in place of its result."""
        value, types = self.op.operands[operand], self.program.types
        if len(self.op.results) != 1 or types[value] != types[self.op.results[0]]:
            return None
        kind = "stablehlo.optimization_barrier"
        signature = Signature.of(kind, {}, (types[value],), (types[value],))
        return self.op._replace(signature=signature, operands=(value,))

    def others(self, value: int) -> list[int]:
        """Other values of the same type that the op could read; none made alike."""
        types, made = self.program.types, self.program.once(_makers)
        return [
            v
            for v in self.before
            if types[v] == types[value] and v != value and made[v] != made[value]
        ]


def _makers(program: Program) -> list[int]:
    """For each value the first that is made alike: to read that is no mistake."""
    found, known = list(range(len(program.types))), dict[object, int]()
    for op in program.ops:
        if len(op.results) == 1 and not op.regions:
            (value,) = op.results
            key = (op.signature, tuple(found[v] for v in op.operands))
            found[value] = known.setdefault(key, value)
    return found


def mistake(name: str) -> Callable[[Change], Change]:
    """Register a kind of mistake."""

    def keep(change: Change) -> Change:
        assert name not in KINDS, name
        KINDS[name] = change
        return change

    return keep


def live(program: Program) -> set[int]:
    """Ops that results depend on."""
    needed, found = set(program.body.results), set[int]()
    for op in program.ops:
        for region in op.regions:
            needed.update(region.results)
    for index in range(len(program.ops) - 1, -1, -1):
        op = program.ops[index]
        if needed.intersection(op.results):
            found.add(index)
            needed.update(op.operands)
    return found


def mutants(
    program: Program, name: str, seed: int, limit: int
) -> Iterator[tuple[int, Program]]:
    """Programs with one mistake of a kind, at sites drawn by seed."""
    rng = random.Random(f"{name} {seed}")
    sites = sorted(live(program))
    rng.shuffle(sites)
    groups = tuple(
        {
            op.signature.attrs["replica_groups"]: None
            for op in program.ops
            if "replica_groups" in op.signature.attrs
        }
    )
    made = 0
    for index in sites:
        if made == limit:
            return
        before = readable(program, index)
        changed = KINDS[name](Site(program, index, rng, before, groups))
        if changed is not None:
            made += 1
            ops = (*program.ops[:index], changed, *program.ops[index + 1 :])
            yield index, replace(program, ops=ops)


def readable(program: Program, index: int) -> tuple[int, ...]:
    """Arguments, and results of the ops of the same block that come before."""
    body = program.body
    if index not in body.ops:
        for op in program.ops:
            for region in op.regions:
                if index in region.ops:
                    body = region
    earlier = body.ops[: body.ops.index(index)]
    made = [v for other in earlier for v in program.ops[other].results]
    return (*body.arguments, *made)
