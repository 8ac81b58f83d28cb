"""The SPMD program as data: local ops and collectives over mesh axes.

Values are numbered anew; each has a local type. An op's place is its position in its
block. Frozen: rewrites build new blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeGuard, cast

from partir.ir.core import Program
from partir.ir.types import TensorType
from partir.mesh import Mesh
from partir.partition.state import Gathers
from partir.rules.nest import Nest, Tiling
from partir.spmd.exchange import Window
from partir.spmd.manual_collectives import KINDS as KINDS, manual_collectives

SLICE = "all_slice"
EXCHANGE = "exchange"
BARRIER = "stablehlo.optimization_barrier"


class Cause(NamedTuple):
    """Why a collective is there: the source value, who makes it, who wants it."""

    value: int
    producer: int | None
    consumer: int | None


class Compute(NamedTuple):
    """A source op at its local types. `node` is the op's number in the program."""

    node: int
    nest: Nest
    operands: tuple[int, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """A region: argument values, ops in order, yielded values."""

    arguments: tuple[int, ...]
    ops: tuple[SpmdOp, ...]
    results: tuple[int, ...]

    @cached_property
    def moves(self) -> tuple[Collective, ...]:
        """Collectives and slices among its own ops."""
        return tuple([op for op in self.ops if type(op) is Collective])

    @cached_property
    def places(self) -> dict[Nest, list[int]]:
        """Where its own ops of each nest stand, in order."""
        found: dict[Nest, list[int]] = {}
        for place, op in enumerate(self.ops):
            if type(op) is Compute:
                if op.nest in found:
                    found[op.nest].append(place)
                else:
                    found[op.nest] = [place]
        return found

    def computing(self, asked: Callable[[Nest], object]) -> dict[int, Compute]:
        """Its own ops by place whose nests say yes; each nest is asked once.

        A pass begins with what it is about: most programs have little of that, or none.
        """
        found = [at for nest, at in self.places.items() if asked(nest)]
        places = sorted(chain.from_iterable(found))
        ops = cast("tuple[Compute, ...]", self.ops)
        return {place: ops[place] for place in places}


@dataclass(frozen=True, slots=True)
class Control:
    """A source op with regions or with operands that map to results one to one.

    `trips` is how often its regions run, None if that is not known.
    """

    node: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    blocks: tuple[Block, ...] = ()
    trips: int | None = 1


class Collective(NamedTuple):
    """Communication, or a slice of what is there (`all_slice`).

    `dim` is the dimension gathered, sliced or scattered; all_to_all moves `axes` from
    `dim` to `to_dim`; collective_permute reorders `axes` of `dim` into `order`. An
    exchange turns tiles along `dim` into windows; so does a slice of a whole dimension.
    """

    kind: str
    operand: int
    result: int
    axes: tuple[str, ...]
    cause: Cause
    dim: int = -1
    to_dim: int = -1
    order: tuple[str, ...] = ()
    monoid: str = ""
    after: int = -1  # a value that must be there first; none if negative
    window: Window | None = None
    joint: int = -1  # the first of those that are done as one with it

    @property
    def operands(self) -> tuple[int, ...]:
        """What it reads."""
        return (self.operand,) if self.after < 0 else (self.operand, self.after)

    @property
    def results(self) -> tuple[int, ...]:
        """What it makes."""
        return (self.result,)


SpmdOp = Compute | Control | Collective


def is_barrier(op: SpmdOp) -> TypeGuard[Control]:
    """Whether an op only hands on its operands, once all of them are there."""
    return isinstance(op, Control) and not op.blocks


def is_written(program: SpmdProgram, barrier: Control) -> bool:
    """Whether the model's author has written a barrier."""
    return program.program.ops[barrier.node].kind == BARRIER


def has_barriers(program: SpmdProgram, written: bool) -> bool:
    """Whether there are barriers that the model's author has written, or others."""
    return any(
        is_barrier(op) and is_written(program, op) is written
        for block in program.blocks
        for op in block.ops
        if type(op) is Control
    )


def node_of(op: SpmdOp) -> int | None:
    """The node that an op stands at; moves stand where they are needed."""
    if isinstance(op, Collective):
        _, producer, consumer = op.cause
        return producer if consumer is None else consumer
    return op.node


class NamedCollective(NamedTuple):
    """A collective and its name, ``all_gather#12``, which texts and traces share.

    `number` counts those that the model's author wrote within one op.
    """

    id: str
    op: SpmdOp
    number: int
    trips: int


@dataclass(frozen=True)
class FoldedRepeats:
    """Of a folded program: what each node stands for, what layers hand on."""

    nodes: Sequence[int]
    handed: Collection[int]

    def times(self, op: SpmdOp) -> int:
        """For how many ops of the whole program this one stands."""
        node = node_of(op)
        return 1 if node is None else self.nodes[node]


@dataclass(frozen=True)
class SpmdProgram:
    """A program as each device runs it."""

    program: Program
    mesh: Mesh
    types: tuple[TensorType, ...]
    body: Block
    splats: dict[int, str]
    in_tilings: tuple[Tiling, ...]
    out_tilings: tuple[Tiling, ...]
    gathers: Gathers = field(default_factory=dict)
    repeats: FoldedRepeats | None = None  # if the program is folded

    def walk(
        self, block: Block | None = None, trips: int = 1
    ) -> Iterator[tuple[SpmdOp, int]]:
        """Every op with how often it runs; loops of unknown length count once."""
        for op in (block or self.body).ops:
            yield op, trips
            if isinstance(op, Control):
                for inner in op.blocks:
                    yield from self.walk(inner, trips * (op.trips or 1))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The body, and the blocks of loops and branches, outer ones first."""
        inner: tuple[Block, ...] = ()
        if self.program.nested:
            controls = [op for op, _ in self.walk() if isinstance(op, Control)]
            inner = tuple(block for op in controls for block in op.blocks)
        return self.body, *inner

    @property
    def moves(self) -> list[Collective]:
        """Its collectives and slices, those in loops and branches behind the others."""
        return [op for block in self.blocks for op in block.moves]

    @cached_property
    def collectives(self) -> dict[str, int]:
        """Executed counts on one device, all kinds present."""
        return self.count(lambda op: 1)

    def count(self, times: Callable[[SpmdOp], int]) -> dict[str, int]:
        """Executed counts if each op stands for so many."""
        counts = dict.fromkeys(KINDS, 0)
        for op, trips in self.walk():
            if isinstance(op, Collective):
                if op.kind == EXCHANGE:
                    assert op.window is not None
                    permutes = len(op.window.plan[1])
                    counts["collective_permute"] += trips * permutes * times(op)
                elif op.kind != SLICE:
                    counts[op.kind] += trips * times(op)
            elif isinstance(op, Compute) and op.nest.signature.lambdas:
                for move in manual_collectives(op.nest.signature):
                    counts[move.kind] += trips * move.times * times(op)
        return counts

    @cached_property
    def named_collectives(self) -> tuple[NamedCollective, ...]:
        """Every collective with its name, in program order, numbered by kind."""
        counts, found = dict.fromkeys(KINDS, 0), list[NamedCollective]()
        for op, trips in self.walk():
            for number, kind in enumerate(collective_kinds(op)):
                found.append(
                    NamedCollective(f"{kind}#{counts[kind]}", op, number, trips)
                )
                counts[kind] += 1
        return tuple(found)

    @cached_property
    def collective_ids(self) -> dict[int, str]:
        """Names of collectives by the value that each makes.

        An op with several that the model's author wrote has the name of the first.
        """
        named = self.named_collectives
        return {one.op.results[0]: one.id for one in named if not one.number}

    @cached_property
    def bytes_communicated(self) -> int:
        """Bytes that one device sends in a step, by ring algorithms."""
        total = 0
        for op, trips in self.walk():
            if isinstance(op, Collective):
                total += trips * self.bytes_sent(op)
            elif isinstance(op, Compute) and op.nest.signature.lambdas:
                for move in manual_collectives(op.nest.signature):
                    size = len(move.devices) or self.mesh.size
                    sent = sent_bytes(move.kind, move.bytes, size)
                    total += trips * move.times * sent
        return total

    def bytes_sent(self, op: Collective) -> int:
        """Bytes that one device sends for a collective."""
        if op.kind == EXCHANGE:
            assert op.window is not None
            type_ = self.types[op.operand]
            return op.window.rows_sent * type_.bytes // type_.shape[op.dim]
        size = math.prod(self.mesh.axes[axis] for axis in op.axes)
        whole = max(self.types[op.operand].bytes, self.types[op.result].bytes)
        return sent_bytes(op.kind, whole, size)

    @property
    def unknown_trip_counts(self) -> tuple[int, ...]:
        """Loops (op numbers) whose length is not known."""
        return tuple(
            op.node
            for op, _ in self.walk()
            if isinstance(op, Control) and op.trips is None
        )


def collective_kinds(op: SpmdOp) -> tuple[str, ...]:
    """Kinds of the collectives that an op is or has inside.

    An exchange is one, unless every window lies in its own device's tile.
    """
    if isinstance(op, Collective):
        if op.kind == EXCHANGE:
            assert op.window is not None
            return ("collective_permute",) if op.window.plan[1] else ()
        return () if op.kind == SLICE else (op.kind,)
    if isinstance(op, Compute) and op.nest.signature.lambdas:
        return tuple(m.kind for m in manual_collectives(op.nest.signature))
    return ()


def sent_bytes(kind: str, whole: int, size: int) -> int:
    """Bytes that each of so many devices sends for a collective, by rings."""
    share = whole * (size - 1) // size
    factors = {SLICE: 0, "all_reduce": 2 * share, "collective_permute": whole}
    return factors.get(kind, share)
