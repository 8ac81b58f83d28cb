"""The sequential meaning of PartIR:Core: loops run one by one, on one device.

Between ops every value is whole. An op inside loops becomes one `while` over the
product of their trip counts, the innermost loop counting fastest. An iteration slices
the whole operands, runs the local form and puts its results into the whole ones: a tile
in its place, a reduction combined with what is there already, which at first is the
monoid's identity. So this shares rules and local forms with the SPMD program, but
nothing of how values are stored, moved and reduced there: it is the oracle for these.

A `while` and not the iterations written out: what takes time is XLA's compiling, which
follows the number of instructions. On one layer's training step (667 ops, three axes,
up to eight iterations per op) it took 5.4 s instead of 12.9 s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from partir.errors import PartirError
from partir.ir.core import Op, Region
from partir.ir.types import TensorType, tensor
from partir.partition.state import State
from partir.partition.tied import tied
from partir.rules.joins import Types, iterations, join_of, whole_of
from partir.rules.local import (
    INDEX,
    Ssa,
    binary,
    constant,
    converted,
    selected,
    sliced,
    tile_starts,
)
from partir.rules.masks import rows_between, valid_rows
from partir.rules.monoids import OPS, anything, garbage, neutral
from partir.rules.nest import Nest, nest_of
from partir.rules.shape import slice_tile
from partir.rules.slices import window_of_whole
from partir.spmd.lowering.padding import cut_tiles, divides
from partir.spmd.stablehlo.emit import TextEmitter
from partir.spmd.stablehlo.opaque_functions import MakeText


def sequential_text(state: State, opaque: MakeText | None = None) -> str:
    """A single-device StableHLO module that runs a partition loop by loop."""
    return _Sequential(tied(state), opaque).run()


class _Sequential(TextEmitter):
    def __init__(self, state: State, opaque: MakeText | None = None) -> None:
        super().__init__(opaque)
        self.state = state
        self.program = state.graph.program
        self.env: dict[int, Ssa] = {}
        self._indices: dict[str, Ssa] = {}

    def run(self) -> str:
        body, types = self.program.body, self.program.types
        for number, value in enumerate(body.arguments):
            self.env[value] = Ssa(f"%arg{number}", types[value])
        self.region_ops(body)
        arguments = [self.env[v] for v in body.arguments]
        results = [self.env[port.value] for port in self.program.results]
        return self.module(self.program.name, arguments, results)

    def index(self, axis: str) -> Ssa:
        """The loop counter of the op being emitted."""
        return self._indices[axis]

    # Ops

    def region_ops(self, region: Region) -> None:
        owned = self.state.graph.owned
        for number in region.ops:
            op = self.program.ops[number]
            self.at(op.location)
            operands = [self.env[v] for v in op.operands]
            if op.regions or number in owned:
                made = self.control(op, operands)
            else:
                splats = [self.program.splats.get(v) for v in op.operands]
                nest = self.state.nests[number]
                run = self.loops if nest.loops else self.local
                made = run(nest, operands, splats)
            self.env.update(zip(op.results, made, strict=True))

    def control(self, op: Op, operands: list[Ssa]) -> tuple[Ssa, ...]:
        regions = [self.block(region) for region in op.regions]
        signature = op.signature
        return self.op(
            op.kind, operands, signature.results, signature.attrs, regions=regions
        )

    def block(self, region: Region) -> str:
        env, types = self.env, self.program.types
        for value in region.arguments:
            env[value] = Ssa(self.fresh(), types[value])

        def body() -> list[Ssa]:
            self.region_ops(region)
            return [env[v] for v in region.results]

        return self.region([env[v] for v in region.arguments], body)

    # An op inside its loops

    def loops(
        self, nest: Nest, operands: Sequence[Ssa], splats: Sequence[str | None]
    ) -> tuple[Ssa, ...]:
        """All iterations of a nest, counted by one `while`."""
        inits = [constant(self, INDEX, "0"), *self._starts(nest)]
        types = [init.type for init in inits]

        def condition() -> list[Ssa]:
            trips = math.prod(loop.size for loop in nest.loops)
            return [self._less(tested[0], constant(self, INDEX, str(trips)))]

        def body() -> list[Ssa]:
            counter, *wholes = carried
            self._indices = self._counters(nest, counter)
            made = self.local(nest, self._tiles(nest, operands), splats)
            merged = [
                self._merge(nest, position, whole, result)
                for position, (whole, result) in enumerate(
                    zip(wholes, made, strict=True)
                )
            ]
            return [binary(self, "add", counter, constant(self, INDEX, "1")), *merged]

        tested = [Ssa(self.fresh(), type_) for type_ in types]
        carried = [Ssa(self.fresh(), type_) for type_ in types]
        regions = [self.region(tested, condition), self.region(carried, body)]
        made = self.op("stablehlo.while", inits, types, regions=regions)[1:]
        if nest.joins:
            made = self._joined(nest, operands, made)
        return tuple(
            value
            if value.type == type_
            else sliced(self, value, [0] * len(type_.shape), type_.shape)
            for value, type_ in zip(made, nest.signature.results, strict=True)
        )

    def _starts(self, nest: Nest) -> list[Ssa]:
        """Whole results before the first iteration."""
        return [
            constant(self, kept, neutral(monoid, kept) if monoid else anything(kept))
            for position, kept in enumerate(_kept(nest))
            for monoid in [_monoid(nest, position)]
        ]

    def _less(self, left: Ssa, right: Ssa) -> Ssa:
        attrs = {"comparison_direction": "#stablehlo<comparison_direction LT>"}
        boolean = tensor((), "i1")
        return self.op("stablehlo.compare", (left, right), (boolean,), attrs)[0]

    def _counters(self, nest: Nest, counter: Ssa) -> dict[str, Ssa]:
        """Each loop's index out of the common counter."""
        made = {}
        for loop in reversed(nest.loops):
            size = constant(self, INDEX, str(loop.size))
            made[loop.axis] = binary(self, "remainder", counter, size)
            counter = binary(self, "divide", counter, size)
        return made

    def _tiles(self, nest: Nest, operands: Sequence[Ssa]) -> list[Ssa]:
        """This iteration's part of each operand."""
        return [
            self._part(nest, operand, position)
            for position, operand in enumerate(operands)
        ]

    def _part(self, nest: Nest, value: Ssa, position: int) -> Ssa:
        """Windows of the whole value, garbage outside of it."""
        for dim, axes in enumerate((*nest.needs, *nest.gives)[position]):
            if axes:
                extent = nest.extent(position, dim)
                parts, outside = nest.parts(axes), garbage(value.type)
                value = window_of_whole(self, value, dim, extent, parts, outside)
        return value

    def _merge(self, nest: Nest, position: int, whole: Ssa, made: Ssa) -> Ssa:
        """The whole result with this iteration's added."""
        place = len(nest.signature.operands) + position
        if nest.joins:
            return self._laid(nest, place, whole, made)
        tiled = any(nest.gives[position])
        monoid = _monoid(nest, position)
        if monoid is not None:
            so_far = slice_tile(nest, self, whole, place) if tiled else whole
            (made,) = self.op(OPS[monoid], (so_far, made), (made.type,))
        if not tiled:
            return made
        made = self._existing(nest, place, whole, made)
        starts = tile_starts(nest, self, place)
        kind = "stablehlo.dynamic_update_slice"
        return self.op(kind, (whole, made, *starts), (whole.type,))[0]

    def _laid(self, nest: Nest, place: int, whole: Ssa, made: Ssa) -> Ssa:
        """All partial results with this iteration's in its place."""
        join = join_of(nest)
        dim, rows = join.dim(nest), join.rows(nest)[0]
        starts = tile_starts(nest, self, place)
        index = constant(self, INDEX, "0")
        for loop in nest.joins:
            size = constant(self, INDEX, str(loop.size))
            index = binary(self, "multiply", index, size)
            index = binary(self, "add", index, self.index(loop.axis))
        start = binary(self, "multiply", index, constant(self, INDEX, str(rows)))
        starts[dim : dim + (not join.adds)] = [start]
        kind = "stablehlo.dynamic_update_slice"
        same = [converted(self, one, INDEX.dtype) for one in starts]
        return self.op(kind, (whole, made, *same), (whole.type,))[0]

    def _joined(
        self, nest: Nest, operands: Sequence[Ssa], laid: Sequence[Ssa]
    ) -> tuple[Ssa, ...]:
        """Results of all partial ones."""
        join, parts = join_of(nest), [loop.size for loop in nest.joins]
        dim, rows = join.dim(nest), join.rows(nest)[1]
        cut = [cut_tiles(self, value, dim, rows, parts) for value in laid]
        whole = nest_of(whole_of(nest, _roomy_types(nest)))
        starts = [operands[position] for position in join.starts(nest)]
        values = (*cut, *starts)
        return self.local(whole, values, [None] * len(values))

    def _existing(self, nest: Nest, place: int, whole: Ssa, made: Ssa) -> Ssa:
        """A tile with what was there behind its end, if it is short."""
        size = nest.signature.results[place - len(nest.signature.operands)].shape
        tiling = nest.gives[place - len(nest.signature.operands)]
        for dim, axes in enumerate(tiling):
            if not axes or divides(size[dim], nest.parts(axes)):
                continue
            length = valid_rows(self, size[dim], axes, nest.parts(axes))
            inside = rows_between(self, made, dim, None, length)
            made = selected(self, inside, made, slice_tile(nest, self, whole, place))
        return made


def _kept(nest: Nest) -> Types:
    """What iterations put their results into: the results, or all partial ones."""
    roomy = _roomy_types(nest)
    if not nest.joins:
        return roomy
    join = join_of(nest)
    return join.types(nest, roomy, join.rows(nest)[0] * iterations(nest))


def _roomy_types(nest: Nest) -> Types:
    return tuple(_roomy(nest, n) for n in range(len(nest.signature.results)))


def _roomy(nest: Nest, position: int) -> TensorType:
    """A result's type with room for whole tiles."""
    type_, place = nest.signature.results[position], len(nest.signature.operands)
    shape = list(type_.shape)
    for dim, axes in enumerate(nest.gives[position]):
        if axes:
            extent = nest.extent(place + position, dim)
            last = max(extent.starts(nest.parts(axes)))
            shape[dim] = max(shape[dim], last + extent.length)
    return type_.with_shape(tuple(shape))


def _monoid(nest: Nest, position: int) -> str | None:
    """What a result is reduced with, None if it is not."""
    monoids = {monoid for _, monoid in nest.pending[position]}
    if len(monoids) > 1:
        raise PartirError(
            f"{nest.signature} is inside loops that reduce one result in different "
            f"ways ({', '.join(sorted(monoids))}); their order would matter"
        )
    return monoids.pop() if monoids else None
