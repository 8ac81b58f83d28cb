"""Ops fused into kernels, as a device's `FusionPolicy` says.

A compiler fuses an op into those that read it, and computes it again in each of them,
unless it is costly or one of its readers wants it in memory. The same is done here with
a pass over the ops from last to first, and one from first to last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain

from partir.ir.types import TensorType
from partir.rules.traits import Role, puts_part, takes_part
from partir.simulate.device.fusion_policy import FusionPolicy
from partir.simulate.kernels.computed_again import ComputedAgain
from partir.simulate.kernels.facts import Facts, facts_of
from partir.simulate.kernels.kept_values import KeptValues
from partir.simulate.kernels.kernel import Kernel, Kernels
from partir.simulate.kernels.operand_layouts import has_own_form
from partir.spmd.program import (
    Block,
    Collective,
    Compute,
    Control,
    SpmdOp,
    SpmdProgram,
    node_of,
)
from partir.spmd.rewrites.sweep import reads_of

ComputedIn = frozenset[int] | None
"""Kernels that compute an op, each by the number of the op that it ends with.

None for an op that ends a kernel of its own, and whose result is in memory.
"""


class Leaves(dict[int, tuple[int, ...]]):
    """Where values lie in memory; what nobody makes, a folded constant, in none."""

    def __missing__(self, value: int) -> tuple[int, ...]:
        """Nowhere."""
        return ()


_NOWHERE: frozenset[int] = frozenset()


class _Width:
    """Values that each kernel reads so far, so that none reads too many."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.reads: dict[int, set[int]] = {}

    def limited(self, number: int, op: SpmdOp, kernels: ComputedIn) -> ComputedIn:
        """These kernels, or None if one of them would read too much with the op."""
        wider = {
            kernel: self.reads[kernel].difference(op.results).union(op.operands)
            for kernel in kernels or ()
        }
        if kernels is None or any(len(reads) > self.most for reads in wider.values()):
            self.reads[number] = set(op.operands)
            return None
        self.reads |= wider
        return kernels


class Fuser:
    """Makes kernels of blocks; what it learns of a nest stays with that."""

    def __init__(
        self,
        program: SpmdProgram,
        policy: FusionPolicy,
        handed: Mapping[int, int] | None = None,
        waits: Mapping[int, tuple[int, ...]] | None = None,
    ) -> None:
        """`handed` is what repetitions hand on, with what the first one gets instead.

        If the one is in memory, so is the other: readers are the same kernels. `waits`
        are values that must be there before the product, or loop, of a source op.
        """
        self.program, self.policy, self.handed = program, policy, handed or {}
        self.waits = waits or {}
        self._waited = [v for values in self.waits.values() for v in values]
        self.types = program.types
        self._bytes = [type_.bytes for type_ in program.types]
        self._windows: dict[int, tuple[int, ...]] = {}

    def run(self) -> Kernels:
        """Kernels of the whole program."""
        return self.block(self.program.body, Leaves())

    def block(self, block: Block, outer: Leaves) -> Kernels:
        """Kernels of a block; `outer` says where values from outside lie."""
        key, policy = self.policy.key, self.policy
        facts = [
            (op.nest.cache.get(key) if type(op) is Compute else None)
            or facts_of(op, policy)
            for op in block.ops
        ]
        again = ComputedAgain(block, facts, self.program.splats, policy.computes_again)
        computed = self._backward(block, facts, again)
        return self._forward(block, facts, computed, outer, again)

    # From last to first: who computes what

    def _backward(
        self, block: Block, facts: list[Facts | None], again: ComputedAgain
    ) -> list[ComputedIn]:
        """Kernels that each op is computed in."""
        wanted: dict[int, ComputedIn] = dict.fromkeys((*block.results, *self._waited))
        computed: list[ComputedIn] = [None] * len(block.ops)
        roots, handed = again.roots, self.handed
        kept = KeptValues(
            block, facts, self._bytes, handed, self.policy.prefers_sources
        )
        width = _Width(self.policy.most_operands) if self.policy.most_operands else None
        for number in range(len(block.ops) - 1, -1, -1):
            op, fact = block.ops[number], facts[number]
            if fact is None or fact.role is Role.OPAQUE or fact.role is Role.UPDATE:
                if self._takes_in(fact):
                    _want(wanted, op.operands, frozenset((number,)))
                else:
                    wanted.update(dict.fromkeys(reads_of(op)))
                kept.read(tuple(reads_of(op)), number)
                wanted.update(self._wanted_with(op.results) if handed else {})
                continue
            kernels = own = wanted.get(op.results[0], _NOWHERE)
            if fact.role is Role.ROOT:
                roots.add(number)
            if not kernels or not self._fuses(fact, kernels, roots, kept, number):
                kernels = None
            if width is not None:
                kernels = width.limited(number, op, kernels)
            computed[number] = kernels
            if kernels is None and handed:
                wanted.update(self._wanted_with(op.results))
            here = kernels or frozenset((number,))
            here = again.with_more(number, op, fact, here, stored=own is None)
            _want(wanted, op.operands, here)
            kept.read(op.operands, max(here))
            if kernels is None and self._is_alias(op, fact, kept):
                wanted[op.operands[0]] = None
                computed[number] = _NOWHERE
        return computed

    def _is_alias(self, op: SpmdOp, fact: Facts, kept: KeptValues) -> bool:
        """Whether it is a view, and not written with what it reads."""
        if fact.role is not Role.VIEW or not self.policy.writes_views:
            return fact.role is Role.VIEW
        read = kept.maker_of(op.operands[0])
        return read is None or not read.recomputed

    def _wanted_with(self, values: tuple[int, ...]) -> dict[int, ComputedIn]:
        """What is in memory if these values are: what the first repetition gets."""
        handed = self.handed
        return {handed[value]: None for value in values if value in handed}

    def _takes_in(self, fact: Facts | None) -> bool:
        """Whether a product computes what is elementwise in its operands."""
        products = self.policy.into_products
        return products and fact is not None and fact.work.matmul is not None

    def _fuses(
        self,
        fact: Facts,
        kernels: frozenset[int],
        roots: set[int],
        kept: KeptValues,
        number: int,
    ) -> bool:
        """Whether an op is computed in the kernels that want it; else it is stored."""
        policy = self.policy
        if fact.role is Role.VIEW or (fact.repeats and policy.repeats_in_reductions):
            return fact.fused or fact.role is Role.VIEW
        if len(kernels) == 1 or not fact.fused:
            return fact.fused
        if fact.repeats:
            return fact.single or kernels.isdisjoint(roots)
        if not fact.recomputed:
            return False
        if policy.keeps_sources:
            return kept.lasts(number, kernels)
        if len(kernels) > policy.most_kernels:
            return False
        return policy.shared_with_reductions or kernels.isdisjoint(roots)

    # From first to last: what is read

    def _forward(
        self,
        block: Block,
        facts: list[Facts | None],
        computed: list[ComputedIn],
        leaves: Leaves,
        again: ComputedAgain,
    ) -> Kernels:
        leaves.update({value: (value,) for value in block.arguments})
        flops, transcendentals = _work(facts, computed, again)
        kernels: list[Kernel] = []
        for number, op in enumerate(block.ops):
            fact = facts[number]
            if fact is None:
                kernels.append(self._other(op, leaves))
                for value in op.results:
                    leaves[value] = (value,)
            elif computed[number] is not None:
                reads = _read(number, op, fact, computed[number], leaves, again)
                if reads and fact.window is not None:
                    self._windows[op.results[0]] = self._bases(reads)
                    reads = op.results
                leaves[op.results[0]] = reads
            else:
                pair = flops[number], transcendentals[number]
                reads = _read(number, op, fact, None, leaves, again)
                kernels.append(self._kernel(op, fact, pair, leaves, reads))
                if number in again.kernels:
                    again.sources[op.results[0]] = reads
                for value in op.results:
                    leaves[value] = (value,)
        results = tuple((self._bases(leaves[v]) or (None,))[0] for v in block.results)
        carried = tuple(zip(block.arguments, results, strict=False))  # a loop's
        handed = self._handed(block, leaves)
        return Kernels(block.arguments, kernels, results, carried, handed)

    def _handed(self, block: Block, leaves: Leaves) -> dict[int, tuple[int, ...]]:
        """What is handed on within a block, in memory."""
        own = self.handed
        if own and block is not self.program.body:
            here = {value for op in block.ops for value in op.results}
            own = {v: first for v, first in own.items() if v in here}
        return {
            lies[0]: self._bases(leaves[value])
            for value, first in own.items()
            if len(lies := self._bases(leaves[first])) == 1
        }

    def _bases(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """Values in memory, windows replaced by what they look at."""
        windows = self._windows
        if not windows or windows.keys().isdisjoint(values):
            return values
        bases: dict[int, None] = {}
        for value in values:
            bases.update(dict.fromkeys(windows.get(value, (value,))))
        return tuple(bases)

    def _kernel(
        self,
        op: SpmdOp,
        fact: Facts,
        work: tuple[float, float],
        leaves: Leaves,
        reads: tuple[int, ...],
    ) -> Kernel:
        size = self._bytes.__getitem__
        written = sum(map(size, op.results))
        moved: float = sum(map(size, reads)) + written
        if fact.window is not None:
            first = sum(map(size, leaves[op.operands[0]]))
            whole = first + written if fact.role is Role.UPDATE else first
            moved = max(moved - whole, 0.0) + (fact.window or written)
        own = fact.work
        waits = self._waits_for(op, leaves) if own.matmul else ()
        if own.moved_bytes > moved:
            moved = own.moved_bytes
        if self.policy.in_place and not any(work) and _only_moves(op, reads):
            moved = 0.0
        return Kernel(
            op,
            self._bases((*reads, *(v for v in waits if v not in reads))),
            op.results,
            work[0],
            work[1],
            own.matmul,
            moved,
            fact.role,
            moves=own.moves,
            by_hand=own.by_hand,
            apart=self.policy.writes_views and _has_own_form(op),
            made_bytes=written,
            waits=bool(waits),
        )

    def _waits_for(self, op: SpmdOp, leaves: Leaves) -> tuple[int, ...]:
        """Values in memory that a product or a loop waits for."""
        node = node_of(op)
        waits = () if node is None else self.waits.get(node, ())
        return _joined(leaves, waits) if waits else ()

    def _other(self, op: SpmdOp, leaves: Leaves) -> Kernel:
        reads = dict.fromkeys(self._bases(_joined(leaves, op.operands)))
        if isinstance(op, Collective):
            count = _moved_bytes(op, self.types[op.operand], self.types[op.result])
            elements = math.prod(self.types[op.result].shape)
            flops = elements if op.kind == "all_reduce" else 0
            return Kernel(
                op,
                tuple(reads),
                op.results,
                flops,
                moved_bytes=count,
                members=(op,),
                made_bytes=self._bytes[op.result],
            )
        assert isinstance(op, Control)
        if self._is_one_kernel(op):
            return self._unrolled(op, tuple(reads))
        inner = tuple(self.block(block, leaves) for block in op.blocks)
        own = {v for block in inner for v in _defined(block)}
        for block in inner:
            for kernel in block.kernels:
                reads.update(dict.fromkeys(v for v in kernel.reads if v not in own))
        waits = self._bases(self._waits_for(op, leaves)) if inner else ()
        reads.update(dict.fromkeys(waits))
        same = () if inner else self._handed_on(op, leaves)
        made = Kernel(op, tuple(reads), op.results, inner=inner, waits=bool(waits))
        return made._replace(handed_on=same)

    def _handed_on(self, op: Control, leaves: Leaves) -> tuple[tuple[int, int], ...]:
        """Where what a barrier hands on lies in memory."""
        lies = [self._bases(leaves[value]) for value in op.operands]
        pairs = zip(op.results, lies, strict=True)
        return tuple((value, bases[0]) for value, bases in pairs if len(bases) == 1)

    def _is_one_kernel(self, op: Control) -> bool:
        """Whether it is a short loop of nothing but ops that fuse."""
        if op.trips is None or not 1 < op.trips <= self.policy.unrolled_trips:
            return False
        facts = [facts_of(one, self.policy) for b in op.blocks for one in b.ops]
        return all(f is not None and (f.fused or f.role is Role.VIEW) for f in facts)

    def _unrolled(self, op: Control, reads: tuple[int, ...]) -> Kernel:
        inside = {v for b in op.blocks for one in b.ops for v in one.results}
        inside.update(v for b in op.blocks for v in b.arguments)
        outer = [v for v in reads_of(op) if v not in inside]
        reads = tuple(dict.fromkeys((*reads, *outer)))
        works = [
            fact.work
            for block in op.blocks
            for one in block.ops
            if (fact := facts_of(one, self.policy)) is not None
        ]
        trips, size = op.trips or 1, self._bytes.__getitem__
        return Kernel(
            op,
            reads,
            op.results,
            trips * sum(work.flops for work in works),
            trips * sum(work.transcendentals for work in works),
            moved_bytes=sum(map(size, (*reads, *op.results))),
            role=Role.COSTLY,
        )


def _only_moves(op: SpmdOp, reads: tuple[int, ...]) -> bool:
    """Whether a kernel without arithmetic cuts out, puts in, or fills."""
    if not isinstance(op, Compute):
        return False
    return takes_part(op.nest) or puts_part(op.nest) or not reads


def _want(
    wanted: dict[int, ComputedIn], values: tuple[int, ...], here: frozenset[int]
) -> None:
    """These kernels want values, unless they are wanted in memory already."""
    for value in values:
        known = wanted.get(value, _NOWHERE)
        if known is not None:
            wanted[value] = known | here if known else here


def _has_own_form(op: SpmdOp) -> bool:
    return isinstance(op, Compute) and has_own_form(op.nest)


def _moved_bytes(op: Collective, operand: TensorType, result: TensorType) -> int:
    """Bytes of a collective's whole; of an exchange, what a device sends."""
    if op.window is None:
        return max(operand.bytes, result.bytes)
    return op.window.rows_sent * operand.bytes // max(operand.shape[op.dim], 1)


def _read(
    number: int,
    op: SpmdOp,
    fact: Facts,
    kernels: ComputedIn,
    leaves: Leaves,
    again: ComputedAgain,
) -> tuple[int, ...]:
    """Values in memory that an op is computed from, in kernels or in its own."""
    if (
        again.values.isdisjoint(op.operands)
        or fact.role is Role.OPAQUE
        or fact.role is Role.UPDATE
        or not again.roots.isdisjoint(kernels or (number,))
    ):
        return _joined(leaves, op.operands)
    known = [again.sources.get(v, leaves[v]) for v in op.operands]
    return tuple(dict.fromkeys(chain.from_iterable(known)))


def _work(
    facts: list[Facts | None],
    computed: list[ComputedIn],
    again: ComputedAgain,
) -> tuple[list[float], list[float]]:
    """Flops and transcendentals of each kernel, with all that is computed in it."""
    flops = [0.0] * len(facts)
    transcendentals = [0.0] * len(facts)
    for number, (fact, kernels) in enumerate(zip(facts, computed, strict=True)):
        if fact is None:
            continue
        done, costly, *_ = fact.work
        if done or costly:
            where = (number,) if kernels is None else kernels
            if number in again.kernels:
                where = (*where, *again.kernels[number])
            for kernel in where:
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
