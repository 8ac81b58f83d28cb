"""What a back end would launch: ops fused into kernels, values kept in memory.

XLA fuses an op into those that read it, and computes it again in each of them, unless
it is costly or one of its readers wants it in memory. The same is done here with a
pass over the ops from last to first, and one from first to last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from partir.rules.nest import Nest
from partir.simulate.fusion import Role, role_of
from partir.simulate.work import Work, work_of
from partir.spmd.program import Block, Collective, Compute, Control, SpmdOp, SpmdProgram
from partir.spmd.sweep import reads_of


class Kernel(NamedTuple):
    """One launch: the op that it ends with, what it reads and writes in memory."""

    op: SpmdOp
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    flops: float
    transcendentals: float
    matmul: tuple[int, int, int, int] | None
    role: Role
    inner: tuple[Kernels, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels of a block, in program order.

    `arguments` and `results` are the block's as they lie in memory: a view has the
    number of the value that it is a view of, a result that is no value in memory
    (a constant) is missing.
    """

    arguments: tuple[int, ...]
    kernels: list[Kernel]
    results: tuple[int | None, ...]


class Facts(NamedTuple):
    """What does not depend on where an op stands."""

    role: Role
    work: Work


class Fuser:
    """Makes kernels of blocks; remembers what it learnt of each nest."""

    def __init__(self, program: SpmdProgram) -> None:
        """Start with a program."""
        self.program = program
        self.types = program.types
        self._facts: dict[Nest, Facts] = {}

    def run(self) -> Kernels:
        """Kernels of the whole program."""
        return self.block(self.program.body, {})

    def block(self, block: Block, outer: dict[int, tuple[int, ...]]) -> Kernels:
        """Kernels of a block; `outer` says where values from outside lie."""
        facts = [self.facts(op) for op in block.ops]
        homes = self._homes(block, facts)
        return self._forward(block, facts, homes, outer)

    def facts(self, op: SpmdOp) -> Facts | None:
        """Role and work of an op; None for communication and control flow."""
        if not isinstance(op, Compute):
            return None
        found = self._facts.get(op.nest)
        if found is None:
            found = Facts(role_of(op.nest), work_of(op.nest))
            self._facts[op.nest] = found
        return found

    # From last to first: who computes what

    def _homes(
        self, block: Block, facts: list[Facts | None]
    ) -> list[frozenset[int] | None]:
        """Kernels (by op number) that each op is computed in; None if in its own."""
        wanted: dict[int, frozenset[int] | None] = dict.fromkeys(block.results)
        homes: list[frozenset[int] | None] = [None] * len(block.ops)
        nowhere: frozenset[int] = frozenset()
        roots: set[int] = set()
        for number in range(len(block.ops) - 1, -1, -1):
            op, fact = block.ops[number], facts[number]
            if fact is None or fact.role is Role.OPAQUE:
                wanted.update(dict.fromkeys(reads_of(op)))
                continue
            home = self._home(op, fact.role, wanted, roots)
            if fact.role is Role.ROOT:
                roots.add(number)
            homes[number] = home
            if fact.role is Role.UPDATE:
                wanted.update(dict.fromkeys(op.operands))
                continue
            here = frozenset((number,)) if home is None else home
            if fact.role is Role.VIEW and home is None:
                wanted[op.operands[0]] = None
                continue
            for value in op.operands:
                known = wanted.get(value, nowhere)
                if known is not None:
                    wanted[value] = known | here if known else here
        return homes

    def _home(
        self,
        op: SpmdOp,
        role: Role,
        wanted: dict[int, frozenset[int] | None],
        roots: set[int],
    ) -> frozenset[int] | None:
        nowhere: frozenset[int] = frozenset()
        if len(op.results) != 1 or role in (Role.ROOT, Role.UPDATE):
            return None
        home = wanted.get(op.results[0], nowhere)
        if home is None or not home:
            return None
        if len(home) == 1 or role is Role.VIEW:
            return home
        if role is Role.COSTLY or (op.operands and op.nest.signature.kind!="stablehlo.broadcast_in_dim" and not home.isdisjoint(roots)):
            return None
        return home

    # From first to last: what is read

    def _forward(
        self,
        block: Block,
        facts: list[Facts | None],
        homes: list[frozenset[int] | None],
        outer: dict[int, tuple[int, ...]],
    ) -> Kernels:
        leaves = outer
        leaves.update({value: (value,) for value in block.arguments})
        flops = [0.0] * len(block.ops)
        transcendentals = [0.0] * len(block.ops)
        for number, (fact, home) in enumerate(zip(facts, homes, strict=True)):
            if fact is None:
                continue
            for kernel in (number,) if home is None else home:
                flops[kernel] += fact.work.flops
                transcendentals[kernel] += fact.work.transcendentals
        made: list[Kernel] = []
        for number, op in enumerate(block.ops):
            fact = facts[number]
            if fact is not None and (homes[number] is not None or fact.role is Role.VIEW):
                leaves[op.results[0]] = _joined(leaves, op.operands)
                continue
            for value in op.results:
                leaves[value] = (value,)
            if fact is None:
                made.append(self._other(op, leaves))
                continue
            reads = _joined(leaves, op.operands)
            work = fact.work
            made.append(
                Kernel(
                    op,
                    reads,
                    op.results,
                    flops[number],
                    transcendentals[number],
                    work.matmul,
                    fact.role,
                )
            )
        results = tuple((leaves[v] or (None,))[0] for v in block.results)
        return Kernels(block.arguments, made, results)

    def _other(self, op: SpmdOp, leaves: dict[int, tuple[int, ...]]) -> Kernel:
        if isinstance(op, Collective):
            reads = _joined(leaves, op.operands)
            return Kernel(op, reads, op.results, 0.0, 0.0, None, Role.OPAQUE)
        assert isinstance(op, Control)
        inner = tuple(self.block(block, leaves) for block in op.blocks)
        own = {v for block in inner for v in _defined(block)}
        reads = dict.fromkeys(_joined(leaves, op.operands))
        for block in inner:
            for kernel in block.kernels:
                reads.update(dict.fromkeys(v for v in kernel.reads if v not in own))
        return Kernel(
            op, tuple(reads), op.results, 0.0, 0.0, None, Role.OPAQUE, inner
        )


def _joined(
    leaves: dict[int, tuple[int, ...]], values: tuple[int, ...]
) -> tuple[int, ...]:
    """Values in memory that these are computed from."""
    if len(values) == 1:
        return leaves[values[0]]
    if not values:
        return ()
    found = dict.fromkeys(leaves[values[0]])
    for value in values[1:]:
        found.update(dict.fromkeys(leaves[value]))
    return tuple(found)


def _defined(block: Kernels) -> Iterator[int]:
    yield from block.arguments
    for kernel in block.kernels:
        yield from kernel.writes
