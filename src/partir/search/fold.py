"""The folded program: isomorphic layers once, with a multiplicity.

Of every chain of repetitions the first op to run is kept and counts for all. What read
a repetition that is gone reads the one that is kept instead. What one repetition hands
to the next is tied to what the first one gets, as a loop's carry would be, and is a
result. Constants that cost nothing wherever they are computed are left out. The result
is a `Program` like any other, so propagation, lowering and the simulator work on it as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property
from itertools import pairwise

from partir.ir.core import Annotation, Op, Port, Program, Region, Tie
from partir.partition.state import State
from partir.search.align import aligned
from partir.search.constants import free_ops
from partir.search.contract import contract
from partir.search.dead import dead_ops
from partir.search.folded import Folded
from partir.search.repeats import Chain, Repeats, find_repeats
from partir.search.spans import Fold, folds_of, span_of, spans_of
from partir.search.starting import Decided
from partir.simulate.multiplicity import Multiplicity


def fold(program: Program, state: State | None = None) -> Folded:
    """Fold what repeats; without repetitions only constants go.

    With a `state`, what is already decided must repeat as well.
    """
    decided = Decided(state)
    repeats = aligned(program, find_repeats(program, decided))
    folding = _Folding(program, repeats)
    folded = folding.run()
    if ends := folding.unread(folded.program):
        folded = _Folding(program, repeats, ends).run()
    return contract(folded, decided.alike)


class _Folding:
    def __init__(
        self, program: Program, repeats: Repeats, ends: Set[int] = frozenset()
    ) -> None:
        """Chains end at `ends`."""
        self.program = program
        self.weight: dict[int, int] = {}  # of ops in chains
        self.argument_weight: dict[int, int] = {}
        self.folded_into: dict[int, tuple[int, ...]] = {}
        self.gone: set[int] = set()  # ops
        self.gone_values: dict[int, int] = {}  # to those that are kept
        self.stands_for: dict[int, list[int]] = {}
        self.dropped: dict[int, set[int]] = {}  # positions that a loop carries no more
        self.carried: dict[tuple[int, int], int] = {}  # weight of one that it does
        self.position = _positions(program)
        self.twins: list[tuple[int, int]] = list(repeats.like)
        spans = spans_of(program, repeats)
        self.folds = folds_of(repeats.ops, spans, ends)
        for one in self.folds:
            self._fold_ops(one)
        for chain in repeats.arguments:
            if span := span_of(chain, spans):
                self._fold_arguments(chain, *span)
            else:  # not folded, but decided alike
                self.twins += pairwise(chain.members)
        self.number: dict[int, int] = {}  # value of source -> folded value

    def _fold_ops(self, fold: Fold) -> None:
        ops = self.program.ops
        self.weight[fold.kept] = len(fold.rest) + 1
        self.folded_into[fold.kept] = (fold.kept, *fold.rest)
        for index in fold.rest:
            self.gone.add(index)
            for region in ops[index].regions:
                self.gone.update(self.program.walk(region))
            for pair in zip(ops[index].results, ops[fold.kept].results, strict=True):
                self._replace(*pair)

    def _fold_arguments(self, chain: Chain, first: int, last: int) -> None:
        kept, *rest = [chain.at(r) for r in range(first, last + 1)]
        self.argument_weight[kept] = len(rest) + 1
        for value in rest:
            self._replace(value, kept)
        if kept in self.position:
            self._fold_carried(kept, rest)

    def _fold_carried(self, kept: int, rest: list[int]) -> None:
        """What a loop carries for these goes with them."""
        owner, place = self.position[kept]
        gone = [self.position[value][1] for value in rest]
        self.carried[(owner, place)] = len(rest) + 1
        self.dropped.setdefault(owner, set()).update(gone)
        op = self.program.ops[owner]
        for values in (op.results, *(region.arguments for region in op.regions)):
            for other in gone:
                if values[other] not in self.gone_values:
                    self._replace(values[other], values[place])

    def _replace(self, value: int, kept: int) -> None:
        self.gone_values[value] = kept
        self.stands_for.setdefault(kept, []).append(value)

    # Building

    def run(self) -> Folded:
        program = self.program
        free = free_ops(program) - self.gone
        ports = [p for p in program.arguments if p.value not in self.gone_values]
        for port in ports:
            self._new(port.value)
        self.ops: list[Op | None] = []
        self.op_weights: list[int] = []
        self.op_number: dict[int, int] = {}
        for index in free:
            for value in program.ops[index].results:
                self._new(value)
        body = self._region(program.body, free, 1)
        results = [p for p in program.results if p.value in self.number]
        self.count = len(results)
        results += self._more_results({p.value for p in results})
        ties = [*self._ties(), *self._handed_ties()]
        made = Program(
            name=program.name,
            types=tuple(program.types[v] for v in self.number),
            ops=tuple(op for op in self.ops if op is not None),
            body=Region(
                body.arguments, body.ops, tuple(self.number[p.value] for p in results)
            ),
            arguments=self._ports(ports),
            results=self._ports(results),
            splats={
                self.number[v]: s for v, s in program.splats.items() if v in self.number
            },
            ties=tuple(tie for _, tie in ties),
            annotations=tuple(self._annotations()),
        )
        return self._folded(made, ports, [node for node, _ in ties])

    @cached_property
    def handed(self) -> dict[int, int]:
        """What a repetition hands to the next, and what the first gets instead."""
        program, kept, number = self.program, self.gone_values, self.number
        found: dict[int, int] = {}
        for fold in self.folds:
            if fold.kept not in self.op_number:
                continue
            operands = (program.ops[i].operands for i in (fold.rest[0], fold.kept))
            for pair in zip(*operands, strict=True):
                value, first = (kept.get(v, v) for v in pair)
                if (
                    value != first
                    and program.producers.get(value) in self.weight
                    and {value, first} <= number.keys()
                    and first not in program.splats
                    and program.types[value] is program.types[first]
                ):
                    found.setdefault(value, first)
        return found

    def _more_results(self, known: set[int]) -> Iterator[Port]:
        """What is only handed on, so that it is kept in memory as it would be."""
        body, makers = set(self.program.body.ops), self.program.producers
        uses = self.program.uses
        for value in self.handed:
            own = not self.weight.keys().isdisjoint(uses.get(value, ()))
            if value not in known and makers[value] in body and not own:
                yield Port("", value, len(self.program.types[value].shape))

    def _handed_ties(self) -> Iterator[tuple[int, Tie]]:
        """Each with the op that makes what is handed on."""
        for value, first in self.handed.items():
            tie = Tie((self.number[value],), (self.number[first],))
            yield self.program.producers[value], tie

    def unread(self, made: Program) -> set[int]:
        """Ops that are gone although they read something that nothing else reads.

        Their chains go over other repetitions than that of what they read.
        """
        dead, needless = dead_ops(made), dead_ops(self.program)
        ops, uses = self.program.ops, self.program.uses
        return {
            reader
            for index, number in self.op_number.items()
            if number in dead and index not in needless
            for value in ops[index].results
            for reader in uses.get(value, ())
            if reader in self.gone and reader not in needless
        }

    def _folded(self, made: Program, ports: list[Port], ties: list[int]) -> Folded:
        kept = {port.value for port in ports}
        number, makers = self.op_number, made.producers
        argument = {self.number[v]: w for v, w in self.argument_weight.items()}
        return Folded(
            source=self.program,
            program=made,
            times=Multiplicity(
                ops=self.op_weights,
                arguments=[argument.get(p.value, 1) for p in made.arguments],
                results=[
                    self.op_weights[makers[p.value]]
                    if p.value in makers
                    else argument.get(p.value, 1)
                    for p in made.results[: self.count]
                ],
                spans=[self._span(index) for index in number],
                carried={number[i]: self._carried(i) for i in self.dropped},
                handed={self.number[v]: self.number[w] for v, w in self.handed.items()},
            ),
            members=tuple((v, *self.stands_for.get(v, ())) for v in self.number),
            nodes=(*number, *ties),
            op_members={
                number[index]: members
                for index, members in self.folded_into.items()
                if index in number
            },
            twins=tuple(
                (self.number[a], self.number[b])
                for a, b in self.twins
                if a in self.number and b in self.number
            ),
            kept_arguments=tuple(
                n for n, p in enumerate(self.program.arguments) if p.value in kept
            ),
        )

    def _span(self, index: int) -> tuple[int, int]:
        members = self.folded_into.get(index, (index,))
        return members[0], members[-1]

    def _carried(self, owner: int) -> tuple[int, ...]:
        """Weights of what a loop carries."""
        places = range(len(self.program.ops[owner].operands))
        kept = self._still(owner, places, len(places))
        return tuple(self.carried.get((owner, place), 1) for place in kept)

    def _new(self, value: int) -> int:
        return self.number.setdefault(value, len(self.number))

    def _read(self, value: int) -> int:
        """A value, or the one of its chain that is kept."""
        return self.number[self.gone_values.get(value, value)]

    def _region(
        self, region: Region, free: set[int], weight: int, owner: int = -1
    ) -> Region:
        given = self._still(owner, region.arguments, len(region.arguments))
        arguments = tuple(self._new(v) for v in given if v not in self.gone_values)
        ops = []
        for index in region.ops:
            if index not in free and index not in self.gone:
                ops.append(self._op(index, free, self.weight.get(index, weight)))
        made = self._still(owner, region.results, len(region.arguments))
        results = tuple(self._read(v) for v in made if self._there(v))
        return Region(arguments, tuple(ops), results)

    def _still(self, owner: int, values: Sequence[int], count: int) -> Sequence[int]:
        """Values without those at positions that a loop carries no more."""
        gone = self.dropped.get(owner)
        if not gone or len(values) != count:
            return values
        return [v for place, v in enumerate(values) if place not in gone]

    def _there(self, value: int) -> bool:
        return value in self.number or value in self.gone_values

    def _op(self, index: int, free: set[int], weight: int) -> int:
        op = self.program.ops[index]
        number = len(self.ops)
        self.ops.append(None)  # the owner stands before what is in its regions
        self.op_weights.append(weight)
        self.op_number[index] = number
        count = len(op.operands)
        operands = tuple(self._read(v) for v in self._still(index, op.operands, count))
        regions = tuple(self._region(r, free, weight, index) for r in op.regions)
        results = tuple(self._new(v) for v in self._still(index, op.results, count))
        self.ops[number] = Op(op.signature, operands, results, op.location, regions)
        return number

    def _ports(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        return tuple(Port(p.name, self.number[p.value], p.rank, p.dtype) for p in ports)

    def _ties(self) -> Iterable[tuple[int, Tie]]:
        """Those of what is kept, with their nodes in the source."""
        for number, tie in enumerate(self.program.ties, len(self.program.ops)):
            if tie.owner is None:
                if all(v in self.number for v in tie.sources + tie.targets):
                    yield number, self._tie(tie, None)
            elif tie.owner in self.op_number and not any(
                value in self.gone_values for value in tie.targets
            ):
                yield number, self._tie(tie, self.op_number[tie.owner])

    def _tie(self, tie: Tie, owner: int | None) -> Tie:
        return Tie(
            tuple(self._read(v) for v in tie.sources),
            tuple(self.number[v] for v in tie.targets),
            owner,
        )

    def _annotations(self) -> Iterable[Annotation]:
        for one in self.program.annotations:
            if one.value in self.number:
                yield Annotation(self.number[one.value], one.axes)


def _positions(program: Program) -> dict[int, tuple[int, int]]:
    """Loops, and places among what they carry, of what is carried into their bodies."""
    return {
        value: (index, place)
        for index, op in enumerate(program.ops)
        if len(op.regions) == 2 and len(op.operands) == len(op.results)
        for place, value in enumerate(op.regions[1].arguments)
    }
