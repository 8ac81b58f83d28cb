"""Products that read an operand where it lies: the other one is moved instead.

Propagation tiles a product over the data axis by its batch, and a weight that is tiled
over the same axis is gathered for it (ZeRO-3). With few tokens and wide weights fewer
bytes move if the weight rests: the product is looped over the weight's own tiles, what
it multiplies is brought there, and what it makes is summed or moved back. A gradient of
which every device keeps a tile is likewise made tile by tile, of operands that are
brought there, instead of being summed over the batch and scattered.

Schedules say what rests (`Gathered`). Which products gain is a matter of shapes alone;
homes stay as they are, and so does the work of a device. All products that gain by
themselves are changed if the whole program, lowered both ways, then sends less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from partir.ir.trips import trip_count
from partir.mesh import Mesh
from partir.partition.state import REST, State
from partir.rules.identities import PARTS, TILED, cites
from partir.rules.linear import multiplies
from partir.rules.nest import WHOLE, Nest, Tiling, nest_of
from partir.spmd.lowering.delay_sums import Delays, delay_carried_sums
from partir.spmd.lowering.lower import lower
from partir.spmd.lowering.narrowest import Narrowest, following
from partir.spmd.program import Collective, FoldedRepeats, SpmdProgram
from partir.spmd.rewrites.table import rewrite
from partir.spmd.wishes import base_of

CLEARLY = 2 / 3
"""A product is changed if no more than this share of the bytes around it is left."""


@cites(TILED, PARTS)
def rest_operands(state: State, repeats: FoldedRepeats | None = None) -> State:
    """The state, or a copy in which products read large operands where they lie.

    Lowered, ``dot_general(%x, all_gather 0 {B} %w)`` becomes
    ``reduce_scatter 0 {B} dot_general(all_to_all 0 1 {B} %x, %w)``. `repeats` if it is
    of a folded program.
    """
    said = REST in state.gathers.values()
    changes = dict(Products(state).changes()) if said else {}
    if not changes:
        return state
    made = in_loops(state, changes)
    before, after = (_bytes_sent(one, repeats) for one in (state, made))
    return made if after < before else state


def in_loops(state: State, changes: Mapping[int, Nest]) -> State:
    """A copy in which these products are in other loops, of the same axes."""
    made = state.copy()
    for node, nest in changes.items():
        made.nests[node] = nest
    made.resting = frozenset(changes)
    return made


def _bytes_sent(state: State, repeats: FoldedRepeats | None) -> int:
    """Bytes that a device sends in a step of the whole program."""
    spmd: SpmdProgram = rewrite(lower(state))
    if repeats is None:
        return spmd.bytes_communicated
    return sum(
        trips * repeats.times(op) * spmd.bytes_sent(op)
        for op, trips in spmd.walk()
        if isinstance(op, Collective)
    )


class Products:
    """Finds products around which fewer bytes move in other loops."""

    def __init__(self, state: State) -> None:
        """Of a partition in which all is decided."""
        self.state, self.mesh, self.graph = state, state.mesh, state.graph
        self.program, self.tilings = state.graph.program, state.tilings
        plain = Delays(list(state.nests), list(state.tilings), {}, {})
        self.narrowest = Narrowest(state, plain)
        said = state.gathers.items()
        self._resting = frozenset(one for one, how in said if how == REST)
        self._axes = {axis for axis, _ in self._resting}
        self._values = {value for _, value in self._resting}

    def changes(self) -> Iterator[tuple[int, Nest]]:
        """Nodes that gain, each with its new loops."""
        for node, others in self.others():
            nest = self.state.nests[node]
            best = min(others, key=lambda other: self._bytes(node, other))
            before, after = self._bytes_now(node, nest), self._bytes(node, best)
            if after <= CLEARLY * before:
                yield node, best

    def others(self) -> Iterator[tuple[int, list[Nest]]]:
        """Products, each with the other loops that it might be in."""
        for node in range(len(self.program.ops)) if self._resting else ():
            nest = self.state.nests[node]
            if nest.loops and multiplies(nest.signature):
                others = dict.fromkeys(self._others(node, nest))
                if others:
                    yield node, list(others)

    def _others(self, node: int, nest: Nest) -> Iterator[Nest]:
        """Loops that read an operand, or leave the result, as it lies at home."""
        operands = self.program.ops[node].operands
        for position, value in enumerate(operands):
            have, need = self.tilings[value], nest.needs[position]
            if self._rests(value, _gathered(have, need)):
                other = following(nest, position, have, self.mesh)
                if other is not None and self._may_be(node, nest, other):
                    yield other
        if nest.pending[0] and self._values.isdisjoint(map(self._base, operands)):
            home = self.tilings[self.program.ops[node].results[0]]
            other = leaving(nest, home, self.mesh)
            if other is not None and self._may_be(node, nest, other):
                yield other

    def _rests(self, value: int, axes: set[str]) -> bool:
        """Whether a schedule says so of all axes that it would be gathered over."""
        base = self._base(value)
        return bool(axes) and all((axis, base) in self._resting for axis in axes)

    def _base(self, value: int) -> int:
        """What a value is another form or a part of, be it behind barriers."""
        program = self.program
        while True:
            base = base_of(program, value)
            node = program.producers.get(base)
            if node not in self.graph.owned or program.ops[node].regions:
                return base
            value = program.ops[node].operands[program.ops[node].results.index(base)]

    def _may_be(self, node: int, nest: Nest, other: Nest) -> bool:
        """Whether it does the same work, and nothing else than what was said."""
        exact = all(loop.factor.size % loop.size == 0 for loop in other.loops)
        if not exact or other.joins or set(other.axes) != set(nest.axes):
            return False
        summed, left = ({axis for axis, _ in n.pending[0]} for n in (nest, other))
        return summed - left <= self._axes and not self._touches_whole(node, other)

    def _touches_whole(self, node: int, other: Nest) -> bool:
        """Whether it would tile, for itself, what is to be kept whole."""
        op = self.program.ops[node]
        homes = {axis: self.state.known(node, axis) for axis in other.axes}
        tilings = *other.needs, *other.gives
        return any(
            homes[axis][position] == WHOLE
            for position in range(len((*op.operands, *op.results)))
            for axes in tilings[position]
            for axis in axes
        )

    # Bytes in a step

    def _bytes(self, node: int, nest: Nest) -> float:
        """Bytes that move before and behind a product in these loops."""
        return self._trips(node) * (self._brought(node, nest) + self._left(node, nest))

    def _bytes_now(self, node: int, nest: Nest) -> float:
        """The same as it is: sums that a loop delays are done once, behind it."""
        (result,) = self.program.ops[node].results
        if not nest.pending[0] or result not in self._delays.values:
            return self._bytes(node, nest)
        end = result
        while end in self._delays.ends:
            end = self._delays.ends[end]
        types, loop = self.program.types, self.program.producers[end]
        ratio = types[end].bytes / max(1, types[result].bytes)
        summed = self._trips(loop) * ratio * self._left(node, nest)
        return self._trips(node) * self._brought(node, nest) + summed

    def _brought(self, node: int, nest: Nest) -> float:
        read = zip(self.program.ops[node].operands, nest.needs, strict=True)
        return sum(self.narrowest.way(value, need).bytes for value, need in read)

    def _left(self, node: int, nest: Nest) -> float:
        return self.narrowest.left(node, nest)

    @cached_property
    def _delays(self) -> Delays:
        return delay_carried_sums(self.state)

    def _trips(self, node: int) -> int:
        """How often a node is run, as far as is known."""
        trips, owners = 1, self.narrowest.owners
        around = owners.get(node)
        while around is not None:
            trips *= trip_count(self.program, around) or 1
            around = owners.get(around)
        return trips


def leaving(nest: Nest, home: Tiling, mesh: Mesh) -> Nest | None:
    """An op inside the loops that leave its one result in a tiling, and those beside.

    None if there are none.
    """
    made = nest_of(nest.signature)
    for dim, axes in enumerate(home):
        for axis in axes:
            size, factors = mesh.axes[axis], enumerate(made.factors)
            fitting = (n for n, f in factors if f.results[0] == dim and f.fits(size))
            index = next(fitting, None)
            if index is None:
                return None
            made = made.inside(axis, size, index)
    for loop in nest.loops:
        if loop.axis not in made.axes:
            like = made.factor_like(loop.factor)
            if like is None or not made.factors[like].fits(loop.size):
                return None
            made = made.inside(loop.axis, loop.size, like)
    return None if made.reads_windows else made


def _gathered(have: Tiling, need: Tiling) -> set[str]:
    """Axes over which a value is gathered for a reader."""
    wanted = {axis for axes in need for axis in axes}
    return {axis for axes in have for axis in axes if axis not in wanted}
