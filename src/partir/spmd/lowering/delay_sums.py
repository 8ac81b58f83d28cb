"""Sums that a loop only accumulates are done once, after the loop.

If a loop's body does nothing with a carried value but add summands to it that still
have to be summed over a mesh axis (or write such slices into zeros), the carry itself
can stay unsummed: ``loop(acc + all_reduce g)`` becomes ``all_reduce(loop(acc + g))``.
Gradient accumulation then pays one reduction per parameter and step, also where it adds
up gradients in a wider type than they are computed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from partir.ir.core import Op, Program, Region
from partir.ir.trips import trip_count
from partir.partition.state import State
from partir.rules.bounds import Bounds
from partir.rules.identities import ACCUMULATED, cites
from partir.rules.linear import adds_up, widens
from partir.rules.monoids import is_identity
from partir.rules.nest import Nest, Tiling
from partir.rules.registry import sums_pieces

Axes = tuple[str, ...]
_LONGEST = 100  # how many ops in a row a summand goes through


@dataclass(frozen=True)
class Delays:
    """Nests and tilings to lower with, and the sums that values still wait for.

    `loops` are sums that a loop leaves to be done on its result, `values` those that
    are not done where a value is made. A result of an inner loop may be in both: an
    outer loop goes on accumulating it. `ends` are the results of loops in which values
    that wait, summands, end up.
    """

    nests: list[Nest]
    tilings: list[Tiling]
    loops: dict[int, Axes]
    values: dict[int, Axes]
    ends: dict[int, int] = field(default_factory=dict)


@cites(ACCUMULATED)
def delay_carried_sums(state: State) -> Delays:
    """Leave sums pending through loops wherever that is sound; inner loops first."""
    program = state.graph.program
    loops = [i for i, op in enumerate(program.ops) if len(op.regions) == 2]
    refused: set[int] = set()
    while True:
        delays = Delays(list(state.nests), list(state.tilings), {}, {})
        if not loops:
            return delays
        finder = _Finder(state, delays)
        for index in reversed(loops):
            for tie in state.graph.owned.get(index, ()):
                finder.delay(index, tie, refused)
        dear = finder.dear()
        if not dear:
            return delays
        refused |= dear


@dataclass(frozen=True)
class _Chain:
    """Ops that a carried value goes through, and what is added to it on the way."""

    values: tuple[int, ...]
    links: tuple[int, ...]
    summands: tuple[int, ...]


class _Finder:
    def __init__(self, state: State, delays: Delays) -> None:
        self.state, self.delays = state, delays
        self.program: Program = state.graph.program
        self.reads = Counter(_all_reads(self.program))
        self._saved: dict[int, float] = {}  # bytes not summed before results

    def dear(self) -> set[int]:
        """Results of which more bytes are summed than there were, being wider.

        Only where no loop around them goes on: that sums them less often.
        """
        types, ongoing = self.program.types, self.delays.values
        return {
            result
            for result, saved in self._saved.items()
            if result not in ongoing and types[result].bytes > saved
        }

    def delay(self, index: int, tie: int, refused: set[int]) -> None:
        """Leave one carry pending, if it qualifies."""
        loop = self.program.ops[index]
        body = loop.regions[1]
        sources = self.state.graph.operands[tie]
        targets = self.state.graph.results[tie]
        if len(sources) != 2 or len(targets) != 3:
            return
        (init, out), (argument, tested, result) = sources, targets
        once = self.reads[argument] == 1 and self.reads[out] == 1
        if result in refused or not once or self.reads[tested] or not self._zero(init):
            return
        chain = self._follow(argument, out, body)
        if chain is None or not chain.summands or not self._takes_pieces(chain):
            return
        axes = self._shared_axes(chain)
        if axes and self._worth_it(chain, axes):
            self._apply(chain, axes, tie, init, tested, result)
            self._note_saved(chain, result, trip_count(self.program, index) or 2)

    def _note_saved(self, chain: _Chain, result: int, trips: int) -> None:
        """Remember the bytes of all sums that are not done, if one came to be wider."""
        ops, types = self.program.ops, self.program.types
        if any(widens(ops[link].signature) for link in chain.links) or any(
            value in self._saved for value in chain.summands
        ):
            each = (self._saved.get(v, types[v].bytes) for v in chain.summands)
            self._saved[result] = trips * sum(each)

    # Finding

    def _follow(self, argument: int, out: int, body: Region) -> _Chain | None:
        """From the body's argument to what it returns, through linear ops only."""
        inside, value = set(body.ops), argument
        values = [argument]
        links: list[int] = []
        summands: list[int] = []
        while value != out:
            readers = self.program.uses.get(value, ())
            if len(readers) != 1 or readers[0] not in inside:
                return None
            op = self.program.ops[readers[0]]
            found = self._summands(op, inside, skip=value)
            flowing = {value, *found}
            positions = {i for i, v in enumerate(op.operands) if v in flowing}
            if not self._passes(op, positions):
                return None
            for summand in found.values():
                values += summand.values
                links += summand.links
                summands += summand.summands
            value = op.results[0]
            values.append(value)
            links.append(readers[0])
        return _Chain(tuple(values), tuple(links), tuple(summands))

    def _summands(
        self, op: Op, inside: set[int], skip: int, most: int = _LONGEST
    ) -> dict[int, _Chain]:
        found = {}
        for operand in op.operands if most else ():
            chain = self._summand(operand, inside, most) if operand != skip else None
            if chain is not None:
                found[operand] = chain
        return found

    def _summand(self, value: int, inside: set[int], most: int) -> _Chain | None:
        """A value that waits for a sum, or a linear op of such."""
        producer = self.program.producers.get(value)
        if producer not in inside or producer is None or self.reads[value] != 1:
            return None
        if self._sums(value, producer):
            return _Chain((value,), (), (value,))
        op = self.program.ops[producer]
        if op.regions:
            return None
        found = self._summands(op, inside, -1, most - 1)
        positions = {i for i, v in enumerate(op.operands) if v in found}
        if not positions or not self._passes(op, positions):
            return None
        chains = list(found.values())
        return _Chain(
            (*(v for c in chains for v in c.values), value),
            (*(x for c in chains for x in c.links), producer),
            tuple(s for c in chains for s in c.summands),
        )

    def _sums(self, value: int, producer: int) -> Axes:
        """Mesh axes over which a value still has to be summed."""
        if value in self.delays.loops:
            return self.delays.loops[value]
        op = self.program.ops[producer]
        if producer in self.state.graph.owned:  # ties speak for it: it has no sums
            return ()
        pending = self.delays.nests[producer].pending[op.results.index(value)]
        return tuple(axis for axis, monoid in pending if monoid == "sum")

    def _passes(self, op: Op, positions: set[int]) -> bool:
        plain = len(op.results) == 1 and not op.regions
        if not plain or self.reads[op.results[0]] != 1:
            return False
        return self._adds_up(op, positions)

    def _adds_up(self, op: Op, positions: set[int], pieces: bool = False) -> bool:
        if widens(op.signature):  # a sum of wider floats, but once
            return True
        found = frozenset(positions)
        bounds = Bounds.of(self.program)
        return adds_up(op.signature, op.operands, found, bounds, pieces)

    def _takes_pieces(self, chain: _Chain) -> bool:
        """Whether no summand is of pieces, or they move through all of the chain."""
        ops, producers = self.program.ops, self.program.producers
        makers = [ops[producers[value]] for value in chain.summands]
        if not any(op.regions or sums_pieces(op.signature) for op in makers):
            return True
        summed = set(chain.values)
        return all(
            self._adds_up(
                op, {i for i, v in enumerate(op.operands) if v in summed}, True
            )
            for op in (ops[link] for link in chain.links)
        )

    def _zero(self, value: int) -> bool:
        splat = self.program.splats.get(value)
        return is_identity("sum", self.program.types[value], splat)

    def _shared_axes(self, chain: _Chain) -> Axes:
        producers = self.program.producers
        each = [set(self._sums(v, producers[v])) for v in chain.summands]
        shared = set.intersection(*each)
        return tuple(axis for axis in self.state.mesh if axis in shared)

    def _worth_it(self, chain: _Chain, axes: Axes) -> bool:
        """A sharded carry is kept whole only if that saves bytes, not just calls."""
        sharded = any(self._tiled(value, axes) for value in chain.values)
        types = self.program.types
        largest = max(types[v].bytes for v in chain.summands)
        return not sharded or largest >= types[chain.values[-1]].bytes

    def _tiled(self, value: int, axes: Axes) -> bool:
        return any(axis in axes for dim in self.delays.tilings[value] for axis in dim)

    # Applying

    def _apply(
        self, chain: _Chain, axes: Axes, tie: int, init: int, tested: int, result: int
    ) -> None:
        cones = self._cones(chain, axes, init)
        if cones is None:
            return
        nodes = [*chain.links, tie, *cones]
        nests = {node: self.delays.nests[node].without(axes) for node in nodes}
        if any(nest is None for nest in nests.values()):
            return
        for node, nest in nests.items():
            assert nest is not None
            self.delays.nests[node] = nest
        made = [v for node in cones for v in self.program.ops[node].results]
        for value in (*chain.values, tested, *made):
            self.delays.tilings[value] = tuple(
                tuple(axis for axis in dim if axis not in axes)
                for dim in self.delays.tilings[value]
            )
        self.delays.values.update(dict.fromkeys(chain.values, axes))
        self.delays.loops[result] = axes
        self.delays.ends.update(dict.fromkeys(chain.summands, result))

    def _cones(self, chain: _Chain, axes: Axes, init: int) -> list[int] | None:
        """Ops that make the constants that the chain reads.

        None if it reads something else that is tiled over the axes: outside their
        loops, that would have to be gathered in every iteration.
        """
        found = self._cone(init) or []
        for link in chain.links:
            for value in self.program.ops[link].operands:
                tiled = any(
                    a in axes for dim in self.delays.tilings[value] for a in dim
                )
                if value in chain.values or not tiled:
                    continue
                cone = self._cone(value)
                if cone is None:
                    return None
                found += cone
        return found

    def _cone(self, value: int) -> list[int] | None:
        """Ops over nothing but scalars, cloned for this use; None if there is more."""
        if not self.program.types[value].shape:
            return []
        node = self.program.producers.get(value)
        if node is None or self.reads[value] != 1 or node in self.state.graph.owned:
            return None
        found = [node]
        for operand in self.program.ops[node].operands:
            inner = self._cone(operand)
            if inner is None:
                return None
            found += inner
        return found


def _all_reads(program: Program) -> Iterator[int]:
    for op in program.ops:
        yield from op.operands
        for region in op.regions:
            yield from region.results
    yield from program.body.results
