"""Well-formedness of PartIR:Core: what must hold of every `State`, after every step.

A failure is a mistake of partir's, or of a tactic that went around the actions; it is
never repaired here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from partir.errors import PartirError
from partir.ir.types import TensorType
from partir.partition.state import Origin, State
from partir.rules.fixed_loops import fixed_loops_nest, has_fixed_loops
from partir.rules.nest import UNDECIDED, WHOLE, Loop, Nest, Tiling, nest_of
from partir.rules.reach import layout


def check(state: State) -> None:
    """Raise a PartirError that names the op or value, and the place, of what is wrong.

    Of every op (and tie): its loops are over different axes of the mesh, at their
    sizes, each along a factor that the op has inside the outer loops and that divides;
    local types and tilings follow from them; and the state's table of chosen axes says
    the same. Of every value: homes, tiling and what its readers see agree, no axis
    tiles it twice or where it is kept whole, axes stand in the order of the decisions,
    and together divide the dimension.
    """
    _Checker(state).run()


class _Wrong(Exception):
    """What is wrong, before it is known how to call the place."""


class _Checker:
    def __init__(self, state: State) -> None:
        self.state = state
        self.graph = state.graph
        self.program = state.graph.program
        self.sizes = state.mesh.axes
        self.sound: set[Nest] = set()  # layers share nests: each is looked at once

    def run(self) -> None:
        for node in range(len(self.graph.signatures)):
            try:
                self.node(node)
            except _Wrong as wrong:
                raise _failure(self.place(node), wrong) from None
        alike: set[object] = set()  # most values are as one before them is
        for value, decided in enumerate(self.decided()):
            if decided in alike:
                continue
            try:
                self.value(value, self.program.types[value])
            except _Wrong as wrong:
                raise _failure(self.program.describe(value), wrong) from None
            alike.add(decided)

    def decided(self) -> Iterator[object]:
        """All that `value` looks at, value by value."""
        state, types = self.state, self.program.types
        tables = *state.homes.values(), *state.seen.values()
        rows = zip(map(id, types), state.tilings, *tables, strict=True)
        for value, row in enumerate(rows):
            origins = [self.origin(axis, value) for axes in row[1] for axis in axes]
            epochs = tuple([None if o is None else o.epoch for o in origins])
            yield row, epochs, self.closed(value)

    def origin(self, axis: str, value: int) -> Origin | None:
        """What decided a value; a broken state may name any axis."""
        return self.state.value_origins.get(axis, {}).get(value)

    def closed(self, value: int) -> object:
        closed = self.state.closed
        return tuple(closed.get((axis, value)) for axis in self.sizes) if closed else ()

    # Ops and ties

    def node(self, node: int) -> None:
        nest, signature = self.state.nests[node], self.graph.signatures[node]
        if nest.signature is not signature:
            raise _Wrong(f"its nest is that of another op, {nest.signature}")
        if nest not in self.sound:
            self.loops(nest)
            self.types(nest)
            self.sound.add(nest)
        for axis, chosen in self.state.chosen.items():
            if chosen[node] and axis not in nest.axes:
                raise _Wrong(f'marked as looping over "{axis}", which it does not')
            if not chosen[node] and axis in nest.axes:
                raise _Wrong(f'loops over "{axis}" but is not marked so')

    def loops(self, nest: Nest) -> None:
        """Rebuild the nest from the outside in; every loop must be possible there."""
        if has_fixed_loops(nest.signature):
            if (
                nest.loops
                and nest.loops != fixed_loops_nest(nest.signature, self.sizes).loops
            ):
                raise _Wrong("its loops are not those that it was written for")
            return
        outer = nest_of(nest.signature)
        for loop in nest.loops:
            if loop.axis in outer.axes:
                raise _Wrong(f'two loops over axis "{loop.axis}"')
            self.axis(loop.axis)
            self.loop(loop, outer)
            number = outer.factors.index(loop.factor)
            outer = outer.inside(loop.axis, loop.size, number)

    def loop(self, loop: Loop, outer: Nest) -> None:
        size = self.sizes[loop.axis]
        inside = f"inside loops {outer.axes}" if outer.axes else "inside no other loop"
        if loop.size != size:
            raise _Wrong(f'loop "{loop.axis}" has size {loop.size}, the axis {size}')
        if loop.factor not in outer.factors:
            raise _Wrong(
                f'loop "{loop.axis}" is along {loop.factor}, which the op does not '
                f"have {inside}"
            )
        if not loop.factor.fits(size):
            raise _Wrong(
                f'loop "{loop.axis}" of size {size} does not divide its factor, of '
                f"size {loop.factor.size} {inside}"
            )

    def types(self, nest: Nest) -> None:
        """Local types and tilings follow from the loops."""
        wholes = (*nest.signature.operands, *nest.signature.results)
        tilings = (*nest.needs, *nest.gives)
        inner = (*nest.operand_types, *nest.result_types)
        for position, whole in enumerate(wholes):
            name = _position(nest, position)
            derived = _tiling(nest.loops, position, whole)
            if tilings[position] != derived:
                raise _Wrong(
                    f"{name} is said to be tiled {_shown(tilings[position])}, its "
                    f"loops make it {_shown(derived)}"
                )
            local = self.local(whole, derived, nest, position)
            if inner[position] != local:
                raise _Wrong(
                    f"{name} is {local} inside the loops, not {inner[position]}"
                )

    # Values

    def value(self, value: int, type_: TensorType) -> None:
        tiling = self.state.tilings[value]
        if len(tiling) != len(type_.shape):
            raise _Wrong(f"its tiling {_shown(tiling)} is not of {type_}'s rank")
        used = tuple(axis for axes in tiling for axis in axes)
        for axis in used:
            self.axis(axis)
            if used.count(axis) > 1:
                raise _Wrong(f'axis "{axis}" tiles it more than once: {_shown(tiling)}')
        if used:
            self.divides(value, type_, tiling)
            for dim, axes in enumerate(tiling):
                self.order(value, dim, axes)
        for axis in self.sizes:
            self.home(value, axis, axis in used)

    def order(self, value: int, dim: int, axes: tuple[str, ...]) -> None:
        """Axes of a dimension stand in the order in which they were decided."""
        origins = [self.origin(axis, value) for axis in axes]
        order = list(self.state.mesh)
        known = [
            (origin.epoch, order.index(axis))
            for origin, axis in zip(origins, axes, strict=True)
            if origin is not None
        ]
        if len(known) != len(origins):
            raise _Wrong(f"dimension {dim} is tiled over {axes}, unknown since when")
        if known != sorted(known):
            raise _Wrong(f"dimension {dim} is tiled over {axes}, not as decided")

    def home(self, value: int, axis: str, tiled: bool) -> None:
        """Home, tiling and what readers see agree on one axis."""
        home, seen = self.state.homes[axis][value], self.state.seen[axis][value]
        tiling = self.state.tilings[value]
        if home not in (UNDECIDED, WHOLE, *range(len(tiling))):
            raise _Wrong(f'its home on axis "{axis}" is {home}, no dimension')
        if home >= 0 and axis not in tiling[home]:
            raise _Wrong(
                f'its home on axis "{axis}" is dimension {home}, but its tiling is '
                f"{_shown(tiling)}"
            )
        if home in self.state.closed.get((axis, value), ()):
            raise _Wrong(f'dimension {home} is tiled over axis "{axis}", closed to it')
        if home == WHOLE and tiled:
            raise _Wrong(f'kept whole on axis "{axis}" but tiled {_shown(tiling)}')
        if home == UNDECIDED and tiled:
            raise _Wrong(f'tiled {_shown(tiling)} with no home on axis "{axis}"')
        closed = self.state.closed.get((axis, value), ())
        held = len(closed) == len(tiling) > 0  # whole, but readers may slice it
        if seen not in (home, WHOLE) and not (held and seen == UNDECIDED):
            raise _Wrong(f'home on axis "{axis}" is {home}, but readers see {seen}')

    # Parts

    def axis(self, axis: str) -> None:
        if axis not in self.sizes:
            raise _Wrong(f'the mesh {self.state.mesh} has no axis "{axis}"')

    def local(
        self, whole: TensorType, tiling: Tiling, nest: Nest, position: int
    ) -> TensorType:
        """The type of a tile, or of a window where an operand is read in windows."""
        shape = []
        for dim, (size, axes) in enumerate(zip(whole.shape, tiling, strict=True)):
            extent = nest.extent(position, dim)
            if extent.axes != axes:
                raise _Wrong(f"dimension {dim} is cut by {extent.axes}, not {axes}")
            windows = nest.windows[position] if position < len(nest.windows) else ()
            parts = [self.sizes[axis] for axis in axes]
            tile = layout(size, axes, parts)
            if dim not in dict(windows) and extent != tile:
                raise _Wrong(f"dimension {dim} is read as {extent}, it lies as {tile}")
            shape.append(extent.length)
        return whole.with_shape(tuple(shape))

    def divides(self, value: int, type_: TensorType, tiling: Tiling) -> None:
        """What callers hand over has equal tiles; no other is all padding."""
        for dim, (size, axes) in enumerate(zip(type_.shape, tiling, strict=True)):
            parts = math.prod(self.sizes[axis] for axis in axes)
            equal = value not in self.state.padded
            if size % parts and equal and value in self.graph.handed_over:
                raise _Wrong(
                    f"dimension {dim} of size {size} does not divide into "
                    f"{parts} parts over {axes}"
                )

    def place(self, node: int) -> str:
        """An op's address and source line; a tie by what it belongs to."""
        op = self.graph.op(node)
        if op is not None:
            name = op.signature.name
            if op.results:
                name = self.program.addresses.get(op.results[0], name)
            return f"{name} ({op.location})"
        tie = self.graph.tie(node)
        sources = ", ".join(map(self.program.describe, tie.sources))
        if tie.owner is None:
            return f"tie of {sources}"
        return f"tie of {sources} in {self.place(tie.owner)}"


def _failure(where: str, wrong: _Wrong) -> PartirError:
    return PartirError(f"ill-formed partition: {where}: {wrong}")


def _position(nest: Nest, position: int) -> str:
    count = len(nest.signature.operands)
    if position < count:
        return f"operand {position}"
    return f"result {position - count}"


def _tiling(loops: tuple[Loop, ...], position: int, whole: TensorType) -> Tiling:
    """Axes of each dimension, outermost loop first."""
    return tuple(
        tuple(loop.axis for loop in loops if loop.factor.dim(position) == dim)
        for dim in range(len(whole.shape))
    )


def _shown(tiling: Tiling) -> str:
    return "[" + ", ".join("{" + ",".join(axes) + "}" for axes in tiling) + "]"
