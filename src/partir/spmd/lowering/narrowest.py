"""Moves at the narrowest point: a value moved, or made again from what is moved.

A value that is wanted in another layout can be moved, or made once more in that layout
from operands in theirs: y repeated along rows is gathered as y and repeated afterwards.
Only ops that do little are made again, and only where fewer bytes move.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from functools import cached_property
from typing import NamedTuple

from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.mesh import Mesh
from partir.partition.state import State
from partir.rules.host import runs_once
from partir.rules.joins import laid_types
from partir.rules.nest import Nest, Tiling, nest_of
from partir.rules.traits import PASSED_ON, Role, role_of, window_bytes
from partir.spmd.lowering.delay_sums import Delays
from partir.spmd.lowering.reshard import joinable, plan, short_dims
from partir.spmd.lowering.reshard_steps import ReshardStep, cost
from partir.spmd.wishes import base_of, is_looped

_MADE_AGAIN = (Role.CHEAP, Role.VIEW)
_DEPTH = 8  # how many ops ahead are looked at
_LONGEST = 64  # how many ops in a row are made again


def steps_between(
    sizes: tuple[int, ...], have: Tiling, want: Tiling, mesh: Mesh
) -> tuple[ReshardStep, ...]:
    """Moves between tilings; short tiles are not put in another order."""
    between = joinable(sizes, have, want, mesh)
    short = short_dims(sizes, have, want, mesh)
    if between == want:
        return plan(have, want, mesh, short)
    return plan(have, between, mesh, short) + plan(between, want, mesh, short)


def bytes_between(type_: TensorType, have: Tiling, want: Tiling, mesh: Mesh) -> float:
    """Bytes that a device sends to bring a value from one tiling into another."""
    total, now = 0.0, have
    for step in steps_between(type_.shape, have, want, mesh):
        total += cost(now, step, mesh)
        now = step.after
    return total * type_.bytes


class Way(NamedTuple):
    """What it takes to have a value in a layout: bytes, and the op to make it again."""

    bytes: float
    nest: Nest | None  # None: the value itself is moved
    length: int = 0  # of the longest row of ops to make again


Asked = tuple[int, Tiling]  # a value and the layout in which it is wanted
Finding = Generator[Asked, Way, Way]  # asks for other ways on its way to one


class Narrowest:
    """Finds the cheapest way to have values in the layouts that readers want."""

    def __init__(self, state: State, delays: Delays) -> None:
        """Of a program in these loops; what waits for a sum is left as it is."""
        self.graph, self.mesh = state.graph, state.mesh
        self.program = state.graph.program
        self._kept: dict[int, frozenset[str]] = {}
        for (axis, value), how in state.gathers.items():
            if how == "keep":
                self._kept[value] = self._kept.get(value, frozenset()) | {axis}
        self.nests, self.tilings = delays.nests, delays.tilings
        self.fixed: Mapping[int, object] = delays.values
        self._ways: dict[tuple[int, Tiling], Way] = {}

    @cached_property
    def held(self) -> set[int]:
        """Values that are the program's own, or that loops carry: they stay at home."""
        held = {port.value for port in self.program.results}.union(self.fixed)
        return held.union(*((*t.sources, *t.targets) for t in self.program.ties))

    @cached_property
    def _handed_in(self) -> set[int]:
        """What others stand for in later repetitions, where nobody makes it again."""
        return {value for tie in self.program.ties for value in tie.targets}

    @cached_property
    def owners(self) -> dict[int, int]:
        """The op whose region an op is in, if there is one."""
        return {
            inner: owner
            for owner, op in enumerate(self.program.ops)
            for region in op.regions
            for inner in region.ops
        }

    def way(self, value: int, want: Tiling) -> Way:
        """The way with the fewest bytes; where equal, the value is moved."""
        key = value, want
        found = self._ways.get(key)
        if found is None:
            found = self._ways[key] = self._found(self._find(value, want))
        return found

    def _found(self, first: Finding) -> Way:
        """What a search ends with; ways that it asks for are looked for, or known.

        Without recursion: thousands of ops may lie between a value and its source.
        """
        running: list[tuple[Asked | None, Finding]] = [(None, first)]
        answer: Way | None = None
        while running:
            key, finding = running[-1]
            try:
                asked = finding.send(answer)  # type: ignore[arg-type]  # None: it starts
            except StopIteration as done:
                answer = done.value
                running.pop()
                if key is not None:
                    self._ways[key] = done.value
                continue
            answer = self._ways.get(asked)
            if answer is None:
                running.append((asked, self._find(*asked)))
        assert answer is not None
        return answer

    def _find(self, value: int, want: Tiling) -> Finding:
        have = self.tilings[value]
        if have == want:
            return Way(0.0, None)
        moved = bytes_between(self.program.types[value], have, want, self.mesh)
        if self._kept and self._is_kept_outside(value, want):
            return Way(moved, self._made_again(value, want))
        return (yield from self._again(value, want, moved))

    def made_at_home(self, value: int, made: Tiling) -> Nest | None:
        """Loops that make a value at home, if that moves less than it would itself."""
        type_, home = self.program.types[value], self.tilings[value]
        moved = bytes_between(type_, made, home, self.mesh)
        return self._found(self._again(value, home, moved)).nest

    def _again(self, value: int, want: Tiling, moved: float) -> Finding:
        """A value made in a tiling of operands in theirs, if fewer bytes move."""
        nest = self._made_again(value, want) if moved else None
        if nest is None:
            return Way(moved, None)
        op = self.program.ops[self.program.producers[value]]
        again, length = 0.0, 0
        for operand, need in zip(op.operands, nest.needs, strict=True):
            way = yield operand, need
            again, length = again + way.bytes, max(length, way.length)
            dearer = again > moved or (again == moved and not self._is_kept(value))
            if dearer or length >= _LONGEST:
                return Way(moved, None)
        return Way(again, nest, length + 1)

    def _is_kept(self, value: int) -> bool:
        """Whether it is another form, or a part, of what is kept once gathered."""
        if not self._kept or value in self._kept:
            return False
        return base_of(self.program, value) in self._kept

    def _made_again(self, value: int, want: Tiling) -> Nest | None:
        """Loops that make a value in a tiling, if it can be made again."""
        producer = self.program.producers.get(value)
        if producer is None or value in self.fixed or value in self._handed_in:
            return None
        op = self.program.ops[producer]
        if op.regions or not self.fixed.keys().isdisjoint(op.operands):
            return None
        return made_in(op.signature, want, self.mesh)

    def _is_kept_outside(self, value: int, want: Tiling) -> bool:
        """Whether loops make it of what is gathered once, before them, and kept."""
        base = base_of(self.program, value)
        if base == value or base not in self._kept:
            return False
        shape, have = self.program.types[value].shape, self.tilings[value]
        gathered = all(
            step.kind == "all_gather" and self._kept[base].issuperset(step.axes)
            for step in steps_between(shape, have, want, self.mesh)
        )
        return gathered and is_looped(self.program, self.owners, value, base)

    # Results moved instead of operands

    def followed(self, node: int, nest: Nest) -> Nest:
        """An op in its loops, or in those that read its one operand where it lies.

        Its result is then moved instead, if that is less: a sum over what is tiled.
        """
        position = self._one_operand(node, nest)
        if position is None:
            return self._with_less_work(node, nest)
        value = self.program.ops[node].operands[position]
        need = nest.needs[position]
        if self.tilings[value] == need or self._is_shared(value, need, node):
            return nest
        other = following(nest, position, self.tilings[value], self.mesh)
        if other is None:
            return nest
        before = self.way(value, need).bytes + self.left(node, nest)
        return other if self.left(node, other) < before else nest

    def _with_less_work(self, node: int, nest: Nest) -> Nest:
        """A look-up in its loops, or in those of what it looks up, or writes.

        Where table and indices are tiled, each device looks up all that lies in its
        tile, or its own indices in the whole table: less work, and here fewer bytes.
        """
        touched = window_bytes(nest)
        if touched is None or not self._may_follow(node, nest):
            return nest
        operands = self.program.ops[node].operands
        best, least = nest, self._bytes_around(node, nest, shared=True)
        for position, value in enumerate(operands):
            have = self.tilings[value]
            other = following(nest, position, have, self.mesh) if any(have) else None
            if other is None or (window_bytes(other) or touched) >= touched:
                continue
            bytes_ = self._bytes_around(node, other, shared=False)
            if bytes_ < least:
                best, least = other, bytes_
        return best

    def _bytes_around(self, node: int, nest: Nest, shared: bool) -> float:
        """Bytes that move before and behind an op; not those that others move too."""
        total = self.left(node, nest)
        for value, need in zip(
            self.program.ops[node].operands, nest.needs, strict=True
        ):
            if not (shared and self._is_shared(value, need, node)):
                total += self.way(value, need).bytes
        return total

    def stays(self, value: int, made: Tiling) -> bool:
        """Whether a value is better left in the tiling in which it was made."""
        return self._from(value, made, 0)[1]

    def _one_operand(self, node: int, nest: Nest) -> int | None:
        """The position of an op's one operand that is no scalar, if it may follow."""
        types = nest.signature.operands
        ranked = [position for position, type_ in enumerate(types) if type_.shape]
        if len(ranked) != 1 or not self._may_follow(node, nest):
            return None
        return ranked[0]

    def _may_follow(self, node: int, nest: Nest) -> bool:
        """Whether an op may be in other loops: it makes one value, by little work."""
        if node >= len(self.program.ops) or not _is_one_value(nest.signature):
            return False
        op = self.program.ops[node]
        fixed = not self.fixed.keys().isdisjoint((*op.operands, *op.results))
        return not (fixed or op.regions or role_of(nest) == Role.OPAQUE)

    def _is_shared(self, value: int, need: Tiling, node: int) -> bool:
        """Whether another op reads the value in this tiling as well."""
        readers = self._readers(value)
        return any(wanted == need for reader, wanted in readers if reader != node)

    def _readers(self, value: int) -> list[tuple[int, Tiling]]:
        """Nodes that read a value, each with the tiling that it needs."""
        operands, nests = self.graph.operands, self.nests
        return [
            (reader, need)
            for reader in dict.fromkeys(self.graph.neighbours[value])
            for one, need in zip(operands[reader], nests[reader].needs, strict=False)
            if one == value
        ]

    def left(self, node: int, nest: Nest, depth: int = 0) -> float:
        """Bytes that it takes to bring what an op's loops leave to where it is read."""
        (result,) = self.program.ops[node].results
        home, left = self.tilings[result], nest.gives[0]
        if nest.joins:
            laid = laid_types(nest, nest.result_types)[0].bytes
            return laid + self._from(result, left, depth)[0]
        tiled = {axis for axes in home for axis in axes}
        total, local = 0.0, float(nest.result_types[0].bytes)
        for axis, _ in sorted(nest.pending[0], key=lambda one: one[0] not in tiled):
            share = local * (1 - 1 / self.mesh.axes[axis])
            total += share if axis in tiled else 2 * share
            if axis in tiled:
                local /= self.mesh.axes[axis]
        summed = {axis for axis, _ in nest.pending[0]}
        if not summed:
            return self._from(result, left, depth)[0]
        rest = tuple(tuple(a for a in axes if a not in summed) for axes in home)
        type_ = self.program.types[result]
        return total + bytes_between(type_, left, rest, self.mesh)

    def _from(self, value: int, made: Tiling, depth: int) -> tuple[float, bool]:
        """Bytes more than if a value were made at home, and whether it stays."""
        type_, home = self.program.types[value], self.tilings[value]
        moved = bytes_between(type_, made, home, self.mesh) if made != home else 0.0
        readers = self._readers(value)
        if not moved or depth > _DEPTH or value in self.held:
            return moved, False
        block = self.owners.get(self.program.producers.get(value, -1))
        if any(self.owners.get(reader) != block for reader, _ in readers):
            return moved, False  # a loop would move it every time
        more = 0.0
        for reader, need in readers:
            position = self._one_operand(reader, self.nests[reader])
            if position is None:
                more += bytes_between(type_, made, need, self.mesh)
                more -= bytes_between(type_, home, need, self.mesh)
            else:
                more += self._more(reader, position, value, made, depth)
        return (more, True) if more < moved else (moved, False)

    def _more(
        self, reader: int, position: int, value: int, made: Tiling, depth: int
    ) -> float:
        """Bytes more for an op of one operand if that lies in another tiling."""
        type_, nest = self.program.types[value], self.nests[reader]
        need = nest.needs[position]
        at_home = bytes_between(type_, self.tilings[value], need, self.mesh)
        now = self.left(reader, nest, depth + 1)
        best = bytes_between(type_, made, need, self.mesh) + now
        other = following(nest, position, made, self.mesh)
        if other is not None:
            best = min(best, self.left(reader, other, depth + 1))
        return best - at_home - now


def made_in(signature: Signature, want: Tiling, mesh: Mesh) -> Nest | None:
    """An op that does little inside the loops that leave its result in a tiling."""
    made = nest_of(signature)
    if not _is_one_value(signature) or role_of(made) not in _MADE_AGAIN:
        return None
    for dim, axes in enumerate(want):
        for axis in axes:
            size = mesh.axes[axis]
            index = _along(made, dim, size)
            if index is None:
                return None
            made = made.inside(axis, size, index)
    return None if made.reads_windows or made.gives[0] != want else made


def _is_one_value(signature: Signature) -> bool:
    """Whether an op makes one value and does nothing else, nor asks for a layout."""
    own = signature.kind in PASSED_ON or runs_once(signature)
    return len(signature.results) == 1 and not own


def following(nest: Nest, position: int, have: Tiling, mesh: Mesh) -> Nest | None:
    """An op inside the loops that read an operand as it lies, and those beside it.

    None if there are none, or fewer devices would share the work.
    """
    made = nest_of(nest.signature)
    tiled = {axis for axes in have for axis in axes}
    for dim, axes in enumerate(have):
        for axis in axes:
            size, factors = mesh.axes[axis], enumerate(made.factors)
            fitting = (
                n for n, f in factors if f.operands[position] == dim and f.fits(size)
            )
            index = next(fitting, None)
            if index is None:
                return None
            made = made.inside(axis, size, index)
    for loop in nest.loops:
        if loop.axis not in tiled:
            index = made.factor_like(loop.factor)
            if index is None or not made.factors[index].fits(loop.size):
                return None
            made = made.inside(loop.axis, loop.size, index)
    shared = math.prod(loop.size for loop in made.loops)
    if made.reads_windows or shared < math.prod(loop.size for loop in nest.loops):
        return None
    return made


def _along(nest: Nest, dim: int, size: int) -> int | None:
    """The loop that makes tiles of a result's dimension, whole in what it reads."""
    for number, factor in enumerate(nest.factors):
        if factor.results[0] == dim and factor.fits(size) and factor.reduce is None:
            return number
    return None
