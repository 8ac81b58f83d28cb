"""Loops -> local ops and collectives.

Each op's nest says which tiling it reads and leaves; each value has its home. Where
they differ, the value is moved: a result to its home at its producer, an operand at
its use. A reduction loop leaves a pending reduction, done at the producer. Rewrites
improve on this afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from partir.ir.core import Op, Program, Region
from partir.ir.trips import trip_count
from partir.ir.types import TensorType
from partir.mesh import Mesh
from partir.partition.state import State
from partir.partition.tied import tied
from partir.rules.factor import JOIN
from partir.rules.host import runs_once
from partir.rules.identities import (
    AGAIN,
    BESIDE,
    JOINED,
    LARGEST,
    PARTS,
    PIECES,
    TILED,
    cites,
)
from partir.rules.joins import join_of, partial_types, whole_of
from partir.rules.monoids import additive
from partir.rules.nest import Nest, Tiling, nest_of
from partir.rules.traits import PASSED_ON
from partir.spmd.exchange import Window
from partir.spmd.lowering.delay_sums import delay_carried_sums
from partir.spmd.lowering.narrowest import Narrowest, steps_between
from partir.spmd.lowering.result_tilings import result_tilings
from partir.spmd.program import (
    EXCHANGE,
    SLICE,
    Block,
    Cause,
    Collective,
    Compute,
    Control,
    SpmdOp,
    SpmdProgram,
)


def lower(state: State, results: Sequence[Tiling] | None = None) -> SpmdProgram:
    """The SPMD program of a partition; results arrive in these tilings if given."""
    out_tilings = result_tilings(state) if results is None else results
    return _Lowering(tied(state)).run(tuple(out_tilings))


def local_type(type_: TensorType, tiling: Tiling, mesh: Mesh) -> TensorType:
    """A value's type on one device."""
    if not any(tiling):
        return type_
    shape = list(type_.shape)
    for dim, axes in enumerate(tiling):
        for axis in axes:
            shape[dim] = -(-shape[dim] // mesh.axes[axis])
    return type_.with_shape(tuple(shape))


class _Homes(dict[int, int]):
    """SPMD value of each source value, tiled as at home.

    One that nobody makes, a constant left out of a folded program, comes when read.
    """

    def __init__(self, lowering: _Lowering) -> None:
        super().__init__()
        self.lowering = lowering

    def __missing__(self, source: int) -> int:
        lowering = self.lowering
        value = lowering.value(source, lowering.tilings[source])
        self[source] = value
        if source in lowering.program.splats:
            lowering.splats[value] = lowering.program.splats[source]
        return value


_compute = partial(tuple.__new__, Compute)  # what `Compute` does, at half the price
_ENDS, _PLAIN = "ends here", "lowered as it is"
_MOVES = -1  # stands for an operand that has to be moved


def _ends_here(nest: Nest) -> bool:
    """Whether results need no reduction."""
    return not any(nest.pending) and not runs_once(nest.signature)


def _is_plain(nest: Nest) -> bool:
    """Whether an op has one result, and nothing is to be done for that behind it."""
    done = nest.signature.kind not in PASSED_ON and not nest.joins
    return done and len(nest.result_types) == 1 and _ends_here(nest)


class _Lowering:
    def __init__(self, state: State) -> None:
        self.state = state
        self.mesh = state.mesh
        self.program: Program = state.graph.program
        self.types: list[TensorType] = []
        self.local: dict[tuple[TensorType, Tiling], TensorType] = {}
        self.home = _Homes(self)
        self.ops: list[SpmdOp] = []
        self.splats: dict[int, str] = {}
        self.known_splats = self.program.splats
        delays = delay_carried_sums(state)
        self.nests, self.tilings = delays.nests, delays.tilings
        self.left_by_loops, self.delayed = delays.loops, delays.values
        # The value and the reader that others are moved for, if there is such a value.
        self.asked: tuple[int, int | None] | None = None
        self.narrowest = Narrowest(state, delays)

    def run(self, out_tilings: tuple[Tiling, ...]) -> SpmdProgram:
        program, tilings = self.program, self.tilings
        for value in program.body.arguments:
            self.home[value] = self.value(value, tilings[value])
        arguments = tuple(self.home[v] for v in program.body.arguments)
        self.region_ops(program.body)
        results = tuple(
            self.use(port.value, tiling, None)
            for port, tiling in zip(program.results, out_tilings, strict=True)
        )
        self.home.clear()
        del self.home.lowering  # else both wait for the garbage collector
        return SpmdProgram(
            program=program,
            mesh=self.mesh,
            types=tuple(self.types),
            body=Block(arguments, tuple(self.ops), results),
            splats=self.splats,
            in_tilings=tuple(tilings[v] for v in program.body.arguments),
            out_tilings=out_tilings,
            gathers=self.state.gathers,
        )

    # Values

    def value(self, source: int, tiling: Tiling) -> int:
        key = self.program.types[source], tiling
        type_ = self.local.get(key)
        if type_ is None:
            type_ = self.local[key] = local_type(*key, self.mesh)
        return self.new(type_)

    def new(self, type_: TensorType) -> int:
        self.types.append(type_)
        return len(self.types) - 1

    def use(self, source: int, tiling: Tiling, consumer: int | None) -> int:
        """A source value in this tiling, moved here if its home differs."""
        have = self.tilings[source]
        if have != tiling:
            nest = self.narrowest.way(source, tiling).nest
            if nest is not None:
                return self.made_again(source, nest, consumer)
        return self.move(self.home[source], source, have, tiling, consumer)

    @cites(AGAIN)
    def made_again(self, source: int, nest: Nest, consumer: int | None) -> int:
        """A source value in the tiling that these loops leave, from its operands."""
        producer = self.program.producers[source]
        operands = zip(self.program.ops[producer].operands, nest.needs, strict=True)
        outer, self.asked = self.asked, self.asked or (source, consumer)
        read = tuple([self.use(v, need, consumer) for v, need in operands])
        self.asked = outer
        value = self.new(nest.result_types[0])
        self.ops.append(Compute(producer, nest, read, (value,)))
        if source in self.program.splats:
            self.splats[value] = self.program.splats[source]
        return value

    @cites(TILED)
    def move(
        self, value: int, source: int, have: Tiling, want: Tiling, consumer: int | None
    ) -> int:
        if have == want:
            return value
        moved, consumer = self.asked or (source, consumer)
        cause = Cause(moved, self.program.producers.get(moved), consumer)
        sizes = self.program.types[source].shape
        for step in steps_between(sizes, have, want, self.mesh):
            result = self.value(source, step.after)
            order = step.after[step.dim] if step.kind == "collective_permute" else ()
            self.ops.append(
                Collective(
                    step.kind,
                    value,
                    result,
                    step.axes,
                    cause,
                    step.dim,
                    step.to_dim,
                    order,
                )
            )
            value = result
        return value

    def arrive(self, value: int, source: int, tiling: Tiling) -> None:
        """A result, just made in `tiling`, goes to its home."""
        home = self.tilings[source]
        if home != tiling:
            value = self.move(value, source, tiling, home, None)
        self.home[source] = value
        if source in self.program.splats:
            self.splats[value] = self.program.splats[source]

    # Ops

    def region_ops(self, region: Region) -> None:
        owned, ops = self.state.graph.owned, self.program.ops
        for index in region.ops:
            if index in owned or ops[index].regions:
                self.control(index, owned.get(index, []))
            else:
                self.compute(index, ops[index])

    def compute(self, index: int, op: Op) -> None:
        nest, tilings, home, types = (
            self.nests[index],
            self.tilings,
            self.home,
            self.types,
        )
        operands = tuple(
            [
                home[v] if tilings[v] == need else _MOVES
                for v, need in zip(op.operands, nest.needs)  # noqa: B905 (often called)
            ]
            if not nest.reads_windows
            else [self.windowed(v, nest, i, index) for i, v in enumerate(op.operands)]
        )
        source, place = op.results[0] if op.results else -1, len(types)
        if _MOVES in operands:
            nest, operands = self.moved(index, op, operands)
        elif self._is_plain(nest, source):  # most ops
            types += nest.result_types
            self.ops.append(_compute((index, nest, operands, (place,))))
            home[source] = place
            return
        if nest.signature.kind in PASSED_ON:
            self.arrive(operands[0], op.results[0], nest.gives[0])
            return
        if nest.joins:
            self.join(index, op, operands)
            self.asked = None
            return
        first = len(types)
        types += nest.result_types
        results = op.results
        made = (first,) if len(results) == 1 else tuple(range(first, len(types)))
        self.ops.append(_compute((index, nest, operands, made)))
        ends_here = nest.cache.get(_ENDS)
        if ends_here is None:
            ends_here = nest.cache[_ENDS] = _ends_here(nest)
        for source, value, given in zip(results, made, nest.gives, strict=True):
            if not ends_here:
                value = self.reduced(value, source, index, value - first)
            if tilings[source] != given:
                self.settle(value, source, given)
            elif source in self.known_splats:
                self.arrive(value, source, given)
            else:
                home[source] = value
        self.asked = None

    def moved(
        self, index: int, op: Op, operands: tuple[int, ...]
    ) -> tuple[Nest, tuple[int, ...]]:
        """An op some of whose operands have to be moved, and what it reads."""
        own = self.nests[index]
        nest = self.narrowest.followed(index, own)
        if nest is not own:  # its result is moved for the operand
            self.nests[index] = nest
            self.asked = op.operands[operands.index(_MOVES)], index
        needs = zip(op.operands, nest.needs, strict=True)
        return nest, tuple([self.use(v, need, index) for v, need in needs])

    def _is_plain(self, nest: Nest, source: int) -> bool:
        """Whether an op's only result is at home where it is made."""
        plain = nest.cache.get(_PLAIN)
        if plain is None:
            plain = nest.cache[_PLAIN] = _is_plain(nest)
        return (
            plain
            and self.tilings[source] == nest.gives[0]
            and source not in self.known_splats
        )

    def settle(self, value: int, source: int, given: Tiling) -> None:
        """A result goes home, stays as it was made, or is made at home instead."""
        nest = self.narrowest.made_at_home(source, given)
        if nest is not None:
            self.home[source] = self.made_again(source, nest, None)
            return
        if self.narrowest.stays(source, given):
            self.tilings[source] = given
        self.arrive(value, source, given)

    @cites(BESIDE)
    def windowed(self, source: int, nest: Nest, position: int, consumer: int) -> int:
        """An operand as the loops read it, with what neighbours hold of its windows.

        What is whole is sliced; so is what is better gathered.
        """
        have, aligned = self.tilings[source], list(nest.needs[position])
        wanted: list[tuple[int, Window]] = []
        for dim, extent in nest.windows[position]:
            size = self.program.types[source].shape[dim]
            window = Window(size, nest.parts(extent.axes), extent)
            if not (have[dim] and window.is_worth_its_messages):
                aligned[dim] = ()
            wanted.append((dim, window))
        value = self.use(source, tuple(aligned), consumer)
        cause = Cause(source, self.program.producers.get(source), consumer)
        for dim, window in wanted:
            kind = EXCHANGE if aligned[dim] else SLICE
            shape, type_ = list(self.types[value].shape), self.types[value]
            shape[dim] = window.extent.length
            result = self.new(type_.with_shape(tuple(shape)))
            axes = window.extent.axes
            self.ops.append(
                Collective(kind, value, result, axes, cause, dim, window=window)
            )
            value = result
        return value

    def reduced(self, value: int, source: int, index: int, position: int) -> int:
        """A result with the reductions that its loops leave, spread if made once."""
        type_ = self.program.types[source]
        if runs_once(self.program.ops[index].signature) and type_.tensor:
            monoid = additive(type_.dtype)
            everywhere = [(axis, monoid) for axis in self.mesh]
            value = self.reduce(value, source, everywhere, index)
        pending = self.nests[index].pending[position]
        return self.reduce(value, source, pending, index) if pending else value

    @cites(JOINED, LARGEST)
    def join(self, index: int, op: Op, operands: tuple[int, ...]) -> None:
        """Results of partial ones, which are gathered in the order of their tiles."""
        nest = self.nests[index]
        join, whole = join_of(nest), nest_of(whole_of(nest, nest.result_types))
        partial = tuple(map(self.new, partial_types(nest, nest.result_types)))
        gathered = tuple(map(self.new, whole.operand_types[: len(partial)]))
        results = tuple(map(self.new, whole.result_types))
        axes, dim = tuple(loop.axis for loop in nest.joins), join.dim(nest)
        starts = [operands[position] for position in join.starts(nest)]
        self.ops.append(Compute(index, nest, operands, partial))
        self.ops += (
            Collective(
                "all_gather",
                one,
                all_,
                axes,
                Cause(source, index, None),
                dim,
                monoid=JOIN,
            )
            for source, one, all_ in zip(op.results, partial, gathered, strict=True)
        )
        self.ops.append(Compute(index, whole, (*gathered, *starts), results))
        for source, value, given in zip(op.results, results, nest.gives, strict=True):
            self.arrive(value, source, given)

    @cites(PARTS, PIECES)
    def reduce(
        self, value: int, source: int, pending: Sequence[tuple[str, str]], index: int
    ) -> int:
        """Reduce a value just made, but for sums that a loop around it will do."""
        delayed = self.delayed.get(source, ())
        pending = [one for one in pending if one[0] not in delayed]
        cause = Cause(source, index, None)
        for monoid in dict.fromkeys(m for _, m in pending):
            axes = tuple(axis for axis, m in pending if m == monoid)
            result = self.new(self.types[value])
            self.ops.append(
                Collective("all_reduce", value, result, axes, cause, monoid=monoid)
            )
            value = result
        return value

    # Control flow: each carried value is a tie, whose nest says how it is tiled.

    def control(self, index: int, ties: list[int]) -> None:
        op, nests = self.program.ops[index], self.nests
        operands = [
            self.use(v, self._carried(ties, position, v, nests), index)
            for position, v in enumerate(op.operands)
        ]
        gives = [nests[tie].gives[0] for tie in ties]
        blocks = tuple(self.block(index, region, ties, gives) for region in op.regions)
        results = tuple(
            self.value(v, tiling) for v, tiling in zip(op.results, gives, strict=True)
        )
        trips = trip_count(self.program, index)
        self.ops.append(Control(index, tuple(operands), results, blocks, trips))
        for source, value, tiling in zip(op.results, results, gives, strict=True):
            pending = [(axis, "sum") for axis in self.left_by_loops.get(source, ())]
            value = self.reduce(value, source, pending, index)
            self.arrive(value, source, tiling)

    def block(
        self, index: int, region: Region, ties: list[int], gives: list[Tiling]
    ) -> Block:
        outer, self.ops = self.ops, []
        arguments = []
        for source, tiling in zip(region.arguments, gives, strict=False):
            arguments.append(self.value(source, tiling))
            self.arrive(arguments[-1], source, tiling)
        self.region_ops(region)
        nests = self.nests
        results = tuple(
            self.use(v, self._carried(ties, position, v, nests), index)
            for position, v in enumerate(region.results)
        )
        made = Block(tuple(arguments), tuple(self.ops), results)
        self.ops = outer
        return made

    def _carried(
        self, ties: list[int], position: int, value: int, nests: list[Nest]
    ) -> Tiling:
        """Tiling that a tie wants of what flows into it; whole if none does."""
        if position < len(ties) and value in self.state.graph.operands[ties[position]]:
            return nests[ties[position]].needs[0]
        return ((),) * len(self.program.types[value].shape)
