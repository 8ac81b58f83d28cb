"""The folded program with fewer ops: elementwise ones that go together become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from partir.ir.core import Op, Port, Program, Region, Signature, Tie
from partir.rules.fused import fuse
from partir.search.fold.dead import dead_ops
from partir.search.fold.folded import Folded
from partir.search.fold.groups import Alike, Groups
from partir.simulate.fold_multiplicity import Multiplicity


def contract(folded: Folded, alike: Alike) -> Folded:
    """The same program, its elementwise ops in groups, what nobody reads left out."""
    dead = dead_ops(folded.program)
    return _Contraction(folded, Groups(folded, alike, dead).roots(), dead).run()


class _Contraction:
    def __init__(
        self, folded: Folded, roots: list[frozenset[int]], dead: set[int]
    ) -> None:
        self.folded, self.program = folded, folded.program
        self.roots = roots
        self.groups: dict[int, list[int]] = {}
        for index, own in enumerate(roots):
            for root in own if index not in dead else ():
                self.groups.setdefault(root, []).append(index)
        self.group_roots = sorted(self.groups)
        self.op_number = {
            index: number for number, index in enumerate(self.group_roots)
        }
        removed = {
            value
            for index, op in enumerate(self.program.ops)
            if index not in self.op_number
            for value in op.results
        }
        self.ops = [self._fused(index) for index in self.group_roots]
        read = {value for _, operands in self.ops for value in operands}
        makers = self.program.producers
        removed.update(
            v for v in self.program.splats if v not in makers and v not in read
        )
        values = [v for v in range(len(self.program.types)) if v not in removed]
        self.values = values
        self.number = {value: number for number, value in enumerate(values)}

    def run(self) -> Folded:
        folded, number = self.folded, self.op_number
        count = len(self.program.ops)
        times = folded.times
        return replace(
            folded,
            program=self._program(),
            times=Multiplicity(
                ops=[times.ops[index] for index in self.group_roots],
                arguments=times.arguments,
                results=times.results,
                succeeded=times.succeeded,
                spans=[times.spans[index] for index in self.group_roots],
                carried={number[i]: n for i, n in times.carried.items()},
                handed={
                    self.number[v]: self.number[w] for v, w in times.handed.items()
                },
            ),
            members=tuple(folded.members[value] for value in self.values),
            nodes=(*(folded.nodes[i] for i in self.group_roots), *folded.nodes[count:]),
            op_members={number[i]: self._op_members(i) for i in self.group_roots},
            twins=tuple(
                (self.number[a], self.number[b])
                for a, b in folded.twins
                if a in self.number and b in self.number
            ),
        )

    def _op_members(self, root: int) -> tuple[int, ...]:
        """Nodes of the source that get the loop if a group does: all of its shape."""
        shape = self._shape(root)
        return tuple(
            node
            for index in self.groups[root]
            if index == root or self._shape(index) == shape
            for node in self.folded.node_members(index)
        )

    def _shape(self, index: int) -> tuple[int, ...] | None:
        results = self.program.ops[index].results
        return self.program.types[results[0]].shape if results else None

    def _program(self) -> Program:
        program = self.program
        return replace(
            program,
            types=tuple(program.types[value] for value in self.values),
            ops=tuple(map(self._op, self.group_roots, self.ops)),
            body=self._region(program.body),
            arguments=self._ports(program.arguments),
            results=self._ports(program.results),
            splats={
                self.number[v]: s for v, s in program.splats.items() if v in self.number
            },
            ties=tuple(map(self._tie, program.ties)),
        )

    def _fused(self, index: int) -> tuple[Signature, tuple[int, ...]]:
        """Signature and operands of a group, or of an op alone."""
        ops, members = self.program.ops, self.groups[index]
        if len(members) == 1:
            return ops[index].signature, ops[index].operands
        return fuse([ops[i] for i in members], self.program.splats)

    def _op(self, index: int, fused: tuple[Signature, tuple[int, ...]]) -> Op:
        op, (signature, operands) = self.program.ops[index], fused
        regions = tuple(map(self._region, op.regions))
        return Op(
            signature, self._all(operands), self._all(op.results), op.location, regions
        )

    def _region(self, region: Region) -> Region:
        ops = tuple(self.op_number[i] for i in region.ops if i in self.op_number)
        return Region(self._all(region.arguments), ops, self._all(region.results))

    def _all(self, values: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.number[value] for value in values)

    def _ports(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        return tuple(replace(port, value=self.number[port.value]) for port in ports)

    def _tie(self, tie: Tie) -> Tie:
        owner = None if tie.owner is None else self.op_number[tie.owner]
        return Tie(self._all(tie.sources), self._all(tie.targets), owner)
