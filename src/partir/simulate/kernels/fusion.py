"""What a back end would launch: ops fused into kernels, values kept in memory.

XLA fuses an op into those that read it, and computes it again in each of them, unless
it is costly or one of its readers wants it in memory. The same is done here with a
pass over the ops from last to first, and one from first to last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.simulate.kernels.roles import Role, repeats, role_of, window_bytes
from partir.simulate.kernels.work import Work, work_of
from partir.spmd.program import (
    SLICE,
    Block,
    Collective,
    Compute,
    Control,
    SpmdOp,
    SpmdProgram,
)
from partir.spmd.sweep import reads_of

Homes = frozenset[int] | None


class Leaves(dict[int, tuple[int, ...]]):
    """Where values lie in memory; what nobody makes, a folded constant, in none."""

    def __missing__(self, value: int) -> tuple[int, ...]:
        """Nowhere."""
        return ()


_NOWHERE: frozenset[int] = frozenset()
_MOST_HOMES = 8  # what more kernels than this would compute is kept


class Facts(NamedTuple):
    """What does not depend on where an op stands.

    `window` is the bytes that it reads of its first operand, if not all of it.
    """

    role: Role
    work: Work
    repeats: bool
    window: float | None


_FACTS = "facts"
_SLICE = Facts(Role.CHEAP, Work(), False, 0.0)


class Fuser:
    """Makes kernels of blocks; what it learns of a nest stays with that."""

    def __init__(self, program: SpmdProgram) -> None:
        """Start with a program."""
        self.program = program
        self.types = program.types
        self._bytes = [type_.bytes for type_ in program.types]
        self._windows: dict[int, tuple[int, ...]] = {}

    def run(self) -> Kernels:
        """Kernels of the whole program."""
        return self.block(self.program.body, Leaves())

    def block(self, block: Block, outer: Leaves) -> Kernels:
        """Kernels of a block; `outer` says where values from outside lie."""
        facts = [
            (op.nest.cache.get(_FACTS) if type(op) is Compute else None)
            or self.facts(op)
            for op in block.ops
        ]
        homes = self._homes(block, facts)
        return self._forward(block, facts, homes, outer)

    def facts(self, op: SpmdOp) -> Facts | None:
        """Role and work of an op; None for communication and control flow."""
        if not isinstance(op, Compute):
            sliced = isinstance(op, Collective) and op.kind == SLICE
            return _SLICE if sliced else None
        nest = op.nest
        found = nest.cache.get(_FACTS)
        if not isinstance(found, Facts):
            found = Facts(
                role_of(nest), work_of(nest), repeats(nest), window_bytes(nest)
            )
            nest.cache[_FACTS] = found
        return found

    # From last to first: who computes what

    def _homes(self, block: Block, facts: list[Facts | None]) -> list[Homes]:
        """Kernels (by op number) that each op is computed in; None if in its own."""
        wanted: dict[int, Homes] = dict.fromkeys(block.results)
        homes: list[Homes] = [None] * len(block.ops)
        roots: set[int] = set()
        for number in range(len(block.ops) - 1, -1, -1):
            op, fact = block.ops[number], facts[number]
            role = Role.OPAQUE if fact is None else fact.role
            if role is Role.OPAQUE or role is Role.UPDATE:
                wanted.update(dict.fromkeys(reads_of(op)))
                continue
            home = wanted.get(op.results[0], _NOWHERE)
            if role is Role.ROOT:
                roots.add(number)
                home = None
            elif role is Role.VIEW:
                home = home or None
            elif not home:
                home = None
            elif len(home) > 1 and fact is not None and not fact.repeats:
                # Costly ones are computed once. A reduction takes nothing into its
                # kernel that others compute as well.
                many = len(home) > _MOST_HOMES or not home.isdisjoint(roots)
                home = None if many or role is Role.COSTLY else home
            homes[number] = home
            here = home or frozenset((number,))
            for value in op.operands:
                known = wanted.get(value, _NOWHERE)
                if known is not None:
                    wanted[value] = known | here if known else here
            if home is None and role is Role.VIEW:
                wanted[op.operands[0]] = None
        return homes

    # From first to last: what is read

    def _forward(
        self,
        block: Block,
        facts: list[Facts | None],
        homes: list[Homes],
        leaves: Leaves,
    ) -> Kernels:
        leaves.update({value: (value,) for value in block.arguments})
        flops, transcendentals = _work(facts, homes)
        made: list[Kernel] = []
        for number, op in enumerate(block.ops):
            fact = facts[number]
            if fact is None:
                made.append(self._other(op, leaves))
                for value in op.results:
                    leaves[value] = (value,)
            elif homes[number] is not None or fact.role is Role.VIEW:
                found = _joined(leaves, op.operands)
                if found and fact.window is not None:
                    self._windows[op.results[0]] = self._bases(found)
                    found = op.results
                leaves[op.results[0]] = found
            else:
                pair = flops[number], transcendentals[number]
                made.append(self._kernel(op, fact, pair, leaves))
                for value in op.results:
                    leaves[value] = (value,)
        results = tuple((self._bases(leaves[v]) or (None,))[0] for v in block.results)
        return Kernels(block.arguments, made, results)

    def _bases(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """Values in memory, windows replaced by what they look at."""
        windows = self._windows
        if not windows or windows.keys().isdisjoint(values):
            return values
        found: dict[int, None] = {}
        for value in values:
            found.update(dict.fromkeys(windows.get(value, (value,))))
        return tuple(found)

    def _kernel(
        self, op: SpmdOp, fact: Facts, work: tuple[float, float], leaves: Leaves
    ) -> Kernel:
        size = self._bytes.__getitem__
        found = _joined(leaves, op.operands)
        written = sum(map(size, op.results))
        moved: float = sum(map(size, found)) + written
        if fact.window is not None:
            first = sum(map(size, leaves[op.operands[0]]))
            whole = first + written if fact.role is Role.UPDATE else first
            moved = max(moved - whole, 0.0) + (fact.window or written)
        own = fact.work
        if own.moved_bytes > moved:
            moved = own.moved_bytes
        return Kernel(
            op,
            self._bases(found),
            op.results,
            work[0],
            work[1],
            own.matmul,
            moved,
            fact.role,
            (),
            (),
            (),
            own.moves,
        )

    def _other(self, op: SpmdOp, leaves: Leaves) -> Kernel:
        reads = dict.fromkeys(self._bases(_joined(leaves, op.operands)))
        if isinstance(op, Collective):
            count = max(self.types[op.operand].bytes, self.types[op.result].bytes)
            elements = math.prod(self.types[op.result].shape)
            flops = elements if op.kind == "all_reduce" else 0
            return Kernel(
                op, tuple(reads), op.results, flops, moved_bytes=count, members=(op,)
            )
        assert isinstance(op, Control)
        inner = tuple(self.block(block, leaves) for block in op.blocks)
        own = {v for block in inner for v in _defined(block)}
        for block in inner:
            for kernel in block.kernels:
                reads.update(dict.fromkeys(v for v in kernel.reads if v not in own))
        return Kernel(op, tuple(reads), op.results, inner=inner)


def _work(
    facts: list[Facts | None], homes: list[Homes]
) -> tuple[list[float], list[float]]:
    """Flops and transcendentals of each kernel; what is fused counts in each home."""
    flops = [0.0] * len(facts)
    transcendentals = [0.0] * len(facts)
    for number, (fact, home) in enumerate(zip(facts, homes, strict=True)):
        if fact is None:
            continue
        done, costly, *_ = fact.work
        if done or costly:
            for kernel in (number,) if home is None else home:
                flops[kernel] += done
                transcendentals[kernel] += costly
    return flops, transcendentals


def _joined(leaves: Leaves, values: tuple[int, ...]) -> tuple[int, ...]:
    """Values in memory that these are computed from."""
    if len(values) == 1:
        return leaves[values[0]]
    return tuple(dict.fromkeys(chain.from_iterable([leaves[v] for v in values])))


def _defined(block: Kernels) -> Iterator[int]:
    yield from block.arguments
    for kernel in block.kernels:
        yield from kernel.writes
