"""The folded program: isomorphic layers once, with a multiplicity.

The first op to run represents its chain of repetitions and counts for all. Readers of a
removed repetition read its representative. What one repetition hands to the next is
tied to what the first one gets, as a loop's carry would be. Constants that cost nothing
wherever they are computed are left out. The result is a `Program` like any other, so
propagation, lowering and the simulator work on it as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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

    def run(self) -> Folded:
        program = self.program
        ports = [
            p for p in program.arguments if p.value not in self.plan.representative
        ]
        for port in ports:
            self._new(port.value)
        for index in self.free:
            for value in program.ops[index].results:
                self._new(value)
        body = self._region(program.body, 1)
        self.handed = self.plan.handed(self.number.keys())
        results = [p for p in program.results if p.value in self.number]
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
        return self._folded(small, ports, len(results), ties.values())

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
        self, small: Program, ports: list[Port], results: int, ties: Iterable[int]
    ) -> Folded:
        plan, number, makers = self.plan, self.op_number, small.producers
        stays = {port.value for port in ports}
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
                    for p in small.results[:results]
                ],
                succeeded=self._succeeded(stays),
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
            argument_positions=tuple(
                n for n, p in enumerate(self.program.arguments) if p.value in stays
            ),
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

    def _succeeded(self, stays: set[int]) -> list[int | None]:
        """Positions of the arguments whose places results could take."""
        program, read = self.program, self.plan.read
        given = [p.value for p in program.arguments]
        place = {v: n for n, v in enumerate(v for v in given if v in stays)}
        types = program.types
        pairs = paired(
            [types[v] for v in given],
            [types[p.value] for p in program.results],
            [True] * len(given),
        )
        return [
            None if pair is None else place[read(given[pair])]
            for port, pair in zip(program.results, pairs, strict=True)
            if port.value in self.number
        ]

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
        return nodes

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
