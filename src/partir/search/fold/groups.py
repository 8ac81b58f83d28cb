"""Which elementwise ops go together: what `contract.py` makes one op of.

An elementwise op goes into the one that reads it if nothing else does, so that a group
makes one value, as a kernel would; so does what is only repeated there. All values
inside are then tiled as that one is. What a rewrite or a tactic looks for stays
outside: a sum of two values that may each be a sum over devices, conversions next to
something that may be gathered, weights that a move may pin whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from partir.ir.core import Op, Program, Region
from partir.rules.bounds import Bounds
from partir.rules.fused import is_broadcast, is_conversion, is_pointwise
from partir.rules.linear import adds_up
from partir.rules.nest import nest_of
from partir.rules.traits import Role, changes_form, role_of
from partir.search.fold.folded import Folded
from partir.search.fold.heavy_readers import heavy_reads

_MOST_COPIES = 4

Alike = Callable[[int, int], bool]
"""Whether two nodes of the source are decided alike so far."""


class Groups:
    """Decides for each op of a folded program where it goes."""

    def __init__(self, folded: Folded, alike: Alike, dead: set[int]) -> None:
        """`dead` ops read nothing."""
        self.folded, self.alike, self.dead = folded, alike, dead
        self.program = folded.program
        self.region_of: dict[int, Region] = {}
        self.pinned = {port.value for port in self.program.results}
        for tie in self.program.ties:
            self.pinned.update((*tie.sources, *tie.targets))
        for region in _regions(self.program):
            self.region_of.update(dict.fromkeys(region.ops, region))
            self.pinned.update(region.results)
        self.merges = _merging(self.program)
        self.weights = _weights(self.program)

    def roots(self) -> list[frozenset[int]]:
        """The ops that each op goes into, by way of others; itself if into none.

        Most go into one. What only repeats or converts is computed again in each
        kernel that reads it, unless one reduces: it goes into all that make results.
        """
        ops, uses, dead = self.program.ops, self.program.uses, self.dead
        roots = [frozenset((index,)) for index in range(len(ops))]
        for index in reversed(range(len(ops))):
            if index in dead or not self._may_go(index):
                continue
            readers = [r for r in uses.get(ops[index].results[0], ()) if r not in dead]
            targets = frozenset().union(*(roots[reader] for reader in readers))
            if not targets or (len(targets) > 1 and not self._copies(index, targets)):
                continue
            inside = all(
                is_pointwise(ops[reader].signature) or reader not in roots[reader]
                for reader in readers
            )
            if inside and all(self._fits(index, t, readers) for t in targets):
                roots[index] = targets
        return roots

    def _copies(self, index: int, targets: frozenset[int]) -> bool:
        """Whether an op may go into several groups."""
        ops = self.program.ops
        return (
            len(targets) <= _MOST_COPIES
            and changes_form(nest_of(ops[index].signature))
            and all(not self.pinned.isdisjoint(ops[t].results) for t in targets)
        )

    def _may_go(self, index: int) -> bool:
        op = self.program.ops[index]
        if not is_pointwise(op.signature) and not is_broadcast(op.signature):
            return False
        return not (
            op.results[0] in self.pinned
            or index in self.merges
            or self.weights.issuperset(op.operands)
            or self._narrows_given(index)
        )

    def _fits(self, index: int, target: int, readers: Sequence[int]) -> bool:
        """Whether an op goes with the one that makes its group's value.

        Where something smaller is repeated, one op reads it.
        """
        nodes, counts = self.folded.nodes, self.folded.times.ops
        last = self.program.ops[target]
        repeated = any(is_broadcast(self.program.ops[r].signature) for r in readers)
        return (
            not (repeated and len(readers) > 1)
            and all(
                self.weights.isdisjoint(self.program.ops[r].operands) for r in readers
            )
            and counts[index] == counts[target]
            and self.region_of[index] is self.region_of[target]
            and not _widens(last)
            and not self._is_apart(index, target)
            and self.alike(nodes[index], nodes[target])
        )

    def _is_apart(self, index: int, target: int) -> bool:
        """A costly op is computed once, a cheap one again for each reader."""
        ops = self.program.ops
        if len(self.program.uses.get(ops[target].results[0], ())) < 2:
            return False
        roles = [role_of(nest_of(ops[n].signature)) for n in (index, target)]
        return roles == [Role.COSTLY, Role.CHEAP]

    def _narrows_given(self, index: int) -> bool:
        """A conversion to fewer bytes of what no group makes."""
        op = self.program.ops[index]
        if not is_conversion(op.signature) or _widens(op):
            return False
        maker = self.program.producers.get(op.operands[0])
        if maker is None:
            return True
        single = self.program.uses[op.operands[0]] == (index,)
        return not (single and is_pointwise(self.program.ops[maker].signature))


def _weights(program: Program) -> set[int]:
    """Arguments that heavy ops read, and what is computed of them alone.

    A move may pin them whole where everything else that an op reads is tiled.
    """
    weights = {
        v for v in program.body.arguments if any(True for _ in heavy_reads(program, v))
    }
    splats = program.splats.keys()
    for op in program.ops:
        light = is_pointwise(op.signature) or is_broadcast(op.signature)
        known = all(v in weights or v in splats for v in op.operands)
        if light and known and not weights.isdisjoint(op.operands):
            weights.update(op.results)
    return weights


def _regions(program: Program) -> Iterable[Region]:
    yield program.body
    for op in program.ops:
        yield from op.regions


def _widens(op: Op) -> bool:
    """Whether gathers would rather move what it reads."""
    (before, *_), (after, *_) = op.signature.operands, op.signature.results
    return is_conversion(op.signature) and after.bytes > before.bytes


def _merging(program: Program) -> set[int]:
    """Ops where sums over devices that several operands may need become one."""
    pending: set[int] = set()
    merging: set[int] = set()
    bounds = Bounds.of(program)
    for index, op in enumerate(program.ops):
        signature, operands = op.signature, op.operands
        if op.regions:
            pending.update(op.results)
            continue
        if any(factor.reduce == "sum" for factor in nest_of(signature).factors):
            pending.update(op.results)
        positions = frozenset(i for i, v in enumerate(operands) if v in pending)
        if positions and adds_up(signature, operands, positions, bounds):
            pending.update(op.results)
            if len({operands[i] for i in positions}) > 1:
                merging.add(index)
    return merging
