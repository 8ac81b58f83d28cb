"""Where tiling stopped, and every op that is computed whole because of that.

An op without a loop over an axis is computed whole by each of its devices. That is as
it should be where nobody tiled what the op reads, or where somebody asked for the whole
value. Else tiling *stopped*: a value was gathered for an op that could not be tiled, or
an op takes one slice of what is tiled. What such an op makes is whole too, and so is
what the next op makes of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from partir.partition.state import State
from partir.rules.indexing import taken_dims
from partir.rules.nest import UNDECIDED, WHOLE
from partir.rules.traits import PASSED_ON
from partir.spmd.program import (
    SLICE,
    Block,
    Collective,
    Compute,
    Control,
    SpmdOp,
    SpmdProgram,
)

_TILES_AGAIN = (SLICE, "reduce_scatter")


class Stop(NamedTuple):
    """A node where tiling stopped: it reads the whole, takes a slice, or makes one."""

    node: int
    how: Literal["reads", "takes", "makes"] = "reads"


class Yield(NamedTuple):
    """A block hands a value on to the op that it is in."""

    control: Control
    block: Block
    position: int


Readers = dict[int, list[SpmdOp | Yield]]
_Reached = Iterator[tuple[int, Stop | None]]


def readers_of(program: SpmdProgram) -> Readers:
    """Who reads each value."""
    readers: Readers = {}
    _read(program.body, readers)
    return readers


def _read(block: Block, readers: Readers) -> None:
    for op in block.ops:
        for value in dict.fromkeys(op.operands):
            readers.setdefault(value, []).append(op)
        if isinstance(op, Control):
            _read_inside(op, readers)


def _read_inside(op: Control, readers: Readers) -> None:
    for block in op.blocks:
        _read(block, readers)
        if block is op.blocks[-1] or not block.arguments:  # no loop's condition
            for position, value in enumerate(block.results):
                readers.setdefault(value, []).append(Yield(op, block, position))


def behind_stops(
    state: State, program: SpmdProgram, readers: Readers, axis: str
) -> dict[int, Stop]:
    """Ops that are whole on an axis because tiling stopped, each with where.

    That is the first place in the program from which it is reached.
    """
    spread = _Spread(state, readers, axis)
    for op, _ in program.walk():
        for value, stop in spread.starts(op):
            spread.follow(value, stop)
    return spread.found


class _Spread:
    """Values that are whole on an axis because tiling stopped before them.

    Each comes with the stop. A value that was just gathered has none yet: whoever reads
    it whole is one; for those that have a loop over the axis it had to be gathered.
    """

    def __init__(self, state: State, readers: Readers, axis: str) -> None:
        self.state, self.readers, self.axis = state, readers, axis
        self.found: dict[int, Stop] = {}
        self.reached: set[int] = set()

    def starts(self, op: SpmdOp) -> _Reached:
        """What an op makes whole of something tiled."""
        if isinstance(op, Collective):
            if op.kind == "all_gather" and self.axis in op.axes and not op.monoid:
                yield from self._gathered(op)
        elif isinstance(op, Compute):
            for loop in op.nest.loops:
                if loop.axis == self.axis and loop.factor.reduce:
                    taken = taken_dims(op.nest.signature)
                    if taken and loop.factor.operands[0] in taken:
                        yield from self._made(op, Stop(op.node, "takes"))

    def _gathered(self, op: Collective) -> _Reached:
        value, producer, consumer = op.cause
        home = self.state.homes[self.axis][value]
        if WHOLE in (home, self.state.seen[self.axis][value]):
            return
        if self._is_constrained(value, consumer):
            return
        at_use = home >= 0 or producer is None
        yield op.result, None if at_use else Stop(producer or 0, "makes")

    def _is_constrained(self, value: int, consumer: int | None) -> bool:
        """Whether the model itself keeps the axis away, here or in the next layout."""
        graph, values = self.state.graph, [value]
        if consumer is not None and graph.signatures[consumer].kind in PASSED_ON:
            values += graph.results[consumer]
        return any((self.axis, one) in self.state.closed for one in values)

    def follow(self, value: int, stop: Stop | None) -> None:
        """Go on from a value to all that is computed whole from it."""
        todo = [(value, stop)]
        while todo:
            value, stop = todo.pop()
            if value in self.reached:
                continue
            self.reached.add(value)
            for reader in self.readers.get(value, ()):
                todo += self._through(reader, value, stop)

    def _through(
        self, reader: SpmdOp | Yield, value: int, stop: Stop | None
    ) -> _Reached:
        if isinstance(reader, Compute):
            yield from self._computed(reader, stop)
        elif isinstance(reader, Collective):
            again = reader.kind in _TILES_AGAIN and self.axis in reader.axes
            if reader.operand == value and not again:
                yield reader.result, stop
        elif isinstance(reader, Yield):
            control, block, position = reader
            if stop := stop or self._carried(control, position):
                yield control.results[position], stop
                if block.arguments:
                    yield block.arguments[position], stop
        else:
            for position, operand in enumerate(reader.operands):
                if operand == value:
                    yield from self._entered(reader, position, stop)

    def _entered(self, op: Control, position: int, stop: Stop | None) -> _Reached:
        arguments = [
            block.arguments[position] for block in op.blocks if block.arguments
        ]
        stop = stop or (self._carried(op, position) if arguments else None)
        for argument in arguments if stop else ():
            yield argument, stop

    def _computed(self, op: Compute, stop: Stop | None) -> _Reached:
        if self.axis in op.nest.axes:
            return
        if self.state.chosen[self.axis][op.node]:  # a gather that moved before its op
            yield from ((value, stop) for value in op.results)
            return
        if stop is None and self._is_asked_for(op.node):
            return
        stop = stop or Stop(op.node)
        self.found.setdefault(op.node, stop)
        yield from self._made(op, stop)

    def _made(self, op: Compute, stop: Stop) -> _Reached:
        """Results of an op, but for those that are to be whole."""
        sources = self.state.graph.program.ops[op.node].results
        for value, source in zip(op.results, sources, strict=True):
            if self.state.seen[self.axis][source] != WHOLE:
                yield value, stop

    def _carried(self, control: Control, position: int) -> Stop | None:
        """The tie that a value is gathered for, unless it is to be whole."""
        tie = self.state.graph.owned[control.node][position]
        return None if self._is_asked_for(tie) else Stop(tie)

    def _is_asked_for(self, node: int) -> bool:
        """Whether a node would have its loop but for values that are kept whole."""
        known = self.state.known(node, self.axis)
        if WHOLE not in known:
            return False
        free = tuple(UNDECIDED if home == WHOLE else home for home in known)
        return self.state.nests[node].judge(self.state.mesh.axes[self.axis], free) >= 0
