"""The folded program: isomorphic layers once, with a multiplicity.

The first op to run represents its chain of repetitions and counts for all. Readers of a
removed repetition read its representative. What one repetition hands to the next is
tied to what the first one gets, as a loop's carry would be. Constants that cost nothing
wherever they are computed are left out. The result is a `Program` like any other, so
propagation, lowering and the simulator work on it as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from partir.ir.core import Op, Port, Program, Region, Tie
from partir.partition.state import State
from partir.search.fold.align import aligned
from partir.search.fold.constants import free_constants
from partir.search.fold.contract import contract
from partir.search.fold.dead import dead_ops
from partir.search.fold.folded import Folded
from partir.search.fold.plan import FoldPlan
from partir.search.fold.prior_decisions import PriorDecisions
from partir.search.fold.repeats import find_repeats
from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.memory.donation import paired


def fold(program: Program, state: State | None = None) -> Folded:
    """Fold what repeats; without repetitions only constants go.

    With a `state`, what is already decided must repeat as well.
    """
    decided = PriorDecisions(state)
    repeats = aligned(program, find_repeats(program, decided))
    folded, ends, unread = None, set[int](), set[int]()
    while folded is None or unread - ends:  # a chain that ends may leave others unread
        ends |= unread
        builder = _Builder(program, FoldPlan(program, repeats, ends))
        folded = builder.run()
        unread = builder.unread(folded.program)
    return contract(folded, decided.alike)


class _Builder:
    """Builds the program of a plan."""

    def __init__(self, program: Program, plan: FoldPlan) -> None:
        self.program, self.plan = program, plan
        self.free = free_constants(program) - plan.removed
        self.number: dict[int, int] = {}  # value of source -> folded value
        self.ops: list[Op | None] = []
        self.op_counts: list[int] = []
        self.op_number: dict[int, int] = {}
        # Else state is what stands in the same place among arguments and results.
        self.says_state = any(tie.owner is None for tie in program.ties)

    def run(self) -> Folded:
        program = self.program
        positions = self._positions()
        ports = [program.arguments[n] for n in positions]
        values = tuple(port.value for port in ports)
        for value in values:
            self._new(value)
        for index in self.free:
            for value in program.ops[index].results:
                self._new(value)
        body = self._region(replace(program.body, arguments=values), 1)
        self.handed = self.plan.handed(self.number.keys())
        made = self._made()
        results = [program.results[n] for n in made]
        more = list(self._more_results({p.value for p in results}))
        ties = {**self._ties(), **self._handed_ties()}
        small = Program(
            name=program.name,
            types=tuple(program.types[v] for v in self.number),
            ops=tuple(op for op in self.ops if op is not None),
            body=Region(
                body.arguments,
                body.ops,
                tuple(self.number[p.value] for p in results + more),
            ),
            arguments=self._ports(ports),
            results=self._ports(results + more),
            splats={
                self.number[v]: s for v, s in program.splats.items() if v in self.number
            },
            ties=tuple(ties),
        )
        return self._folded(small, positions, made, ties.values())

    def _positions(self) -> list[int]:
        """Arguments that stay, in the order in which they are first read.

        In what order a caller hands them over makes no difference to a search, if it
        says what they are.
        """
        program, gone = self.program, self.plan.representative
        never = len(program.ops)

        def first_read(position: int) -> tuple[int, int]:
            value = program.arguments[position].value
            reader = min(program.uses.get(value, ()), default=never)
            if reader == never:
                return never, position
            return reader, program.ops[reader].operands.index(value)

        stay = [n for n, p in enumerate(program.arguments) if p.value not in gone]
        return sorted(stay, key=first_read) if self.says_state else stay

    def _made(self) -> list[int]:
        """Positions of the results that are still made, in the order of the program."""
        results, number = self.program.results, self.number
        stay = [n for n, p in enumerate(results) if p.value in number]
        if not self.says_state:
            return stay
        return sorted(stay, key=lambda n: number[results[n].value])

    def unread(self, small: Program) -> set[int]:
        """Ops that are removed although they read what nothing else reads.

        Their chains go over other repetitions than that of what they read.
        """
        dead, needless = dead_ops(small), dead_ops(self.program)
        ops, uses = self.program.ops, self.program.uses
        return {
            reader
            for index, number in self.op_number.items()
            if number in dead and index not in needless
            for value in ops[index].results
            for reader in uses.get(value, ())
            if reader in self.plan.removed and reader not in needless
        }

    def _folded(
        self,
        small: Program,
        positions: Sequence[int],
        made: Sequence[int],
        ties: Iterable[int],
    ) -> Folded:
        plan, number, makers = self.plan, self.op_number, small.producers
        counts = {self.number[v]: n for v, n in plan.argument_count.items()}
        return Folded(
            source=self.program,
            program=small,
            times=Multiplicity(
                ops=self.op_counts,
                arguments=[counts.get(p.value, 1) for p in small.arguments],
                results=[
                    self.op_counts[makers[p.value]]
                    if p.value in makers
                    else counts.get(p.value, 1)
                    for p in small.results[: len(made)]
                ],
                succeeded=self._succeeded(positions, made),
                spans=[plan.span(index) for index in number],
                carried={number[i]: plan.carried_counts(i) for i in plan.dropped},
                handed={self.number[v]: self.number[w] for v, w in self.handed.items()},
            ),
            members=tuple((v, *plan.represented.get(v, ())) for v in self.number),
            nodes=(*number, *ties),
            op_members={
                number[index]: members
                for index, members in plan.members.items()
                if index in number
            },
            twins=tuple(
                (self.number[a], self.number[b])
                for a, b in plan.twins
                if a in self.number and b in self.number
            ),
            argument_positions=tuple(positions),
        )

    # Ops

    def _new(self, value: int) -> int:
        return self.number.setdefault(value, len(self.number))

    def _read(self, value: int) -> int:
        return self.number[self.plan.read(value)]

    def _region(self, region: Region, times: int, owner: int | None = None) -> Region:
        plan, count = self.plan, len(region.arguments)
        given = plan.remaining(owner, region.arguments, count)
        arguments = tuple(self._new(v) for v in given if v not in plan.representative)
        ops = [
            self._op(index, plan.count.get(index, times))
            for index in region.ops
            if index not in self.free and index not in plan.removed
        ]
        yielded = plan.remaining(owner, region.results, count)
        results = tuple(self._read(v) for v in yielded if plan.read(v) in self.number)
        return Region(arguments, tuple(ops), results)

    def _op(self, index: int, times: int) -> int:
        op, remaining = self.program.ops[index], self.plan.remaining
        number, count = len(self.ops), len(op.operands)
        self.ops.append(None)  # the owner stands before what is in its regions
        self.op_counts.append(times)
        self.op_number[index] = number
        operands = tuple(self._read(v) for v in remaining(index, op.operands, count))
        regions = tuple(self._region(r, times, index) for r in op.regions)
        results = tuple(self._new(v) for v in remaining(index, op.results, count))
        self.ops[number] = Op(op.signature, operands, results, op.location, regions)
        return number

    # Arguments and results

    def _ports(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        return tuple(Port(p.name, self.number[p.value], p.rank, p.dtype) for p in ports)

    def _more_results(self, known: set[int]) -> Iterator[Port]:
        """What is only handed on, so that it stays in memory as it would."""
        body, makers = set(self.program.body.ops), self.program.producers
        repeated, uses = self.plan.count.keys(), self.program.uses
        for value in self.handed:
            only = repeated.isdisjoint(uses.get(value, ()))
            if only and value not in known and makers[value] in body:
                yield Port("", value, len(self.program.types[value].shape))

    def _succeeded(
        self, positions: Sequence[int], made: Sequence[int]
    ) -> list[int | None]:
        """Positions of the arguments whose places results could take."""
        program, read = self.program, self.plan.read
        given = [p.value for p in program.arguments]
        place = {given[position]: n for n, position in enumerate(positions)}
        types = program.types
        pairs = paired(
            [types[v] for v in given],
            [types[p.value] for p in program.results],
            [True] * len(given),
        )
        taken = [pairs[n] for n in made]
        return [None if pair is None else place[read(given[pair])] for pair in taken]

    # Ties

    def _ties(self) -> dict[Tie, int]:
        """The source's, with their nodes there; those of repetitions are one."""
        nodes: dict[Tie, int] = {}
        removed = self.plan.representative.keys()
        for node, tie in enumerate(self.program.ties, len(self.program.ops)):
            values = tuple(map(self.plan.read, tie.sources + tie.targets))
            if tie.owner is None:
                if self.number.keys() >= set(values):
                    nodes.setdefault(self._tie(values, 1, None), node)
            elif tie.owner in self.op_number and removed.isdisjoint(tie.targets):
                owner = self.op_number[tie.owner]
                nodes[self._tie(values, len(tie.sources), owner)] = node
        return dict(sorted(nodes.items(), key=_by_values))

    def _tie(self, values: tuple[int, ...], sources: int, owner: int | None) -> Tie:
        numbers = tuple(self.number[v] for v in values)
        return Tie(numbers[:sources], numbers[sources:], owner)

    def _handed_ties(self) -> dict[Tie, int]:
        """Each with the op that makes what is handed on."""
        makers = self.program.producers
        return {
            self._tie((value, first), 1, None): makers[value]
            for value, first in self.handed.items()
        }


def _by_values(tie_and_node: tuple[Tie, int]) -> tuple[tuple[int, ...], ...]:
    tie, _ = tie_and_node
    return tie.targets, tie.sources
