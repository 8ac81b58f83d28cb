"""Collects a `Program` op by op, cloning cheap producers per use.

Without cloning, one shared constant makes unrelated tensors conflict. A *cone* is a
constant, an iota, a broadcast of a scalar, or a few elementwise ops over such; it is
kept back until an op outside the cone reads it, and copied there. A copy shares nothing
within itself either (a causal mask compares one iota with itself, crosswise): a cone's
size counts what it reads twice twice, so copies stay small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from partir.frontend.batched_lookups import Counts
from partir.frontend.branches import taken_branch
from partir.frontend.static_shapes import as_static, takes_sizes
from partir.ir.attributes import CONSTRAINT, MESH
from partir.ir.core import (
    Lambda,
    Op,
    Port,
    Program,
    Region,
    Signature,
    Tag,
    Tie,
)
from partir.ir.filled import CONSTANT, literal_of
from partir.ir.garbage import collection_paused
from partir.ir.source import Location
from partir.ir.types import TensorType
from partir.normal.table import normalized

CONE_LIMIT = 8
_TAG = "partir.tag"
RegionImporter = Callable[[Sequence[int]], tuple[int, ...]]

_CHEAP = frozenset(
    "stablehlo." + name
    for name in (
        "add subtract multiply divide negate convert compare select and or not xor "
        "maximum minimum abs sign sqrt rsqrt exponential log power reshape remainder "
        "shift_left shift_right_logical floor"
    ).split()
)

_CONES = _CHEAP | {CONSTANT, "stablehlo.iota", "stablehlo.broadcast_in_dim"}
_BY_HAND = frozenset(
    f"stablehlo.{name}" for name in ("gather", "optimization_barrier", "scatter")
)

# Not cheap, or too large for a cone: what may make counts of counts.
_COUNTED = frozenset(
    "stablehlo." + name
    for name in "broadcast_in_dim compare concatenate convert reshape select".split()
)


_op = partial(tuple.__new__, Op)  # what `Op` does, at half the price


class _Cone(NamedTuple):
    """An op kept back: what to emit, and how many ops a copy takes."""

    signature: Signature
    operands: tuple[int, ...]
    location: Location
    size: int


class Builder:
    """Mutable collector; `finish` gives the Program."""

    def __init__(self) -> None:
        """Start empty."""
        self.name = "main"
        self.body: Region | None = None
        self.argument_names: tuple[str, ...] = ()
        self.types: list[TensorType] = []
        self.ops: list[Op | None] = []
        self.splats: dict[int, str] = {}
        self._counts = Counts(self.splats)
        self.tags: list[Tag] = []
        self.ties: list[Tie] = []
        self._notes: dict[str, int] = {}
        self._cones: dict[int, _Cone] = {}
        self._blocks: list[list[int]] = []

    # Values and blocks

    def value(self, type_: TensorType) -> int:
        """A new value."""
        self.types.append(type_)
        return len(self.types) - 1

    def begin(self) -> None:
        """Open a block; ops go into the innermost open one."""
        self._blocks.append([])

    def end(self, arguments: tuple[int, ...], results: tuple[int, ...]) -> Region:
        """Close the innermost block."""
        return Region(arguments, tuple(self._blocks.pop()), results)

    def note(self, text: str) -> None:
        """Count a remark about the import."""
        self._notes[text] = self._notes.get(text, 0) + 1

    def constrain(
        self, value: int, sharding: str, mesh: str, location: Location
    ) -> int:
        """The same value in the layout that the model asks for."""
        (value,) = self.settle((value,))
        attrs = {"sharding": sharding, MESH: mesh}
        type_ = (self.types[value],)
        signature = Signature.of(CONSTRAINT, attrs, type_, type_)
        (made,) = self._emit(signature, (value,), location)
        if value in self.splats:
            self.splats[made] = self.splats[value]
        return made

    # Ops

    def add(
        self,
        kind: str,
        attrs: dict[str, str],
        operands: tuple[int, ...],
        results: tuple[TensorType, ...],
        location: Location,
        lambdas: tuple[Lambda, ...] = (),
    ) -> tuple[int, ...]:
        """Add an op, or keep it back if it is cheap. Returns its result values."""
        if _TAG in attrs:
            return self._tag(attrs, operands, location)
        static = as_static(kind, attrs, operands, self._number)
        if static is not None:
            kind, attrs, operands = static
        types = tuple([self.types[v] for v in operands])
        signature = Signature.of(kind, attrs, types, results, lambdas)
        return self.place(signature, operands, location)

    def place(
        self, signature: Signature, operands: tuple[int, ...], location: Location
    ) -> tuple[int, ...]:
        """The same for an op that is neither a tag nor of sizes that are operands."""
        kind = signature.kind
        settled = self._cones.keys().isdisjoint(operands)
        if kind in _CONES and not (settled and kind in _CHEAP):
            size = self._cone_size(signature, operands)
            if size:
                return (self._keep_back(signature, operands, location, size),)
        if kind in _BY_HAND:
            if kind == "stablehlo.optimization_barrier":
                return self._barrier(signature, operands, location)
            signature, operands = self._batched(signature, operands, location)
            settled = False
        read = operands if settled else self.settle(operands)
        made = self._emit(signature, read, location)
        if kind in _COUNTED:
            self._counts.note(signature, operands, made[0])
        return made

    def _keep_back(
        self,
        signature: Signature,
        operands: tuple[int, ...],
        location: Location,
        size: int,
    ) -> int:
        (type_,) = signature.results
        value = self.value(type_)
        self._cones[value] = _Cone(signature, operands, location, size)
        self._note_splat(signature, operands, value)
        self._counts.note(signature, operands, value)
        return value

    def _number(self, value: int) -> str | None:
        """The constant that a value is, in MLIR's spelling."""
        cone = self._cones.get(value)
        if cone is None or cone.signature.kind != CONSTANT:
            return None
        return cone.signature.attrs["value"]

    def _batched(
        self, signature: Signature, operands: tuple[int, ...], location: Location
    ) -> tuple[Signature, tuple[int, ...]]:
        """A lookup, without the indices that only count along its batch."""
        found = self._counts.batched(signature, operands)
        if found is None:
            return signature, operands
        indices = found.columns[0]
        if len(found.columns) > 1:
            shape = list(self.types[indices].shape)
            shape[found.vector] = len(found.columns)
            type_ = self.types[indices].with_shape(tuple(shape))
            attrs = {"dimension": f"{found.vector} : i64"}
            kind = "stablehlo.concatenate"
            (indices,) = self.add(kind, attrs, found.columns, (type_,), location)
        at = found.position
        operands = (*operands[:at], indices, *operands[at + 1 :])
        types = tuple([self.types[v] for v in operands])
        made = Signature.of(
            signature.kind, found.attrs, types, signature.results, signature.lambdas
        )
        return made, operands

    def _barrier(
        self, signature: Signature, operands: tuple[int, ...], location: Location
    ) -> tuple[int, ...]:
        """Each operand goes through on its own: a tie each."""
        settled = tuple([v for o in operands for v in self.settle((o,))])
        index = self._reserve()
        results = self._emit(signature, settled, location, (), index)
        for source, target in zip(settled, results, strict=True):
            self.ties.append(Tie((source,), (target,), index))
        return results

    def _emit(
        self,
        signature: Signature,
        operands: tuple[int, ...],
        location: Location,
        regions: tuple[Region, ...] = (),
        index: int | None = None,
    ) -> tuple[int, ...]:
        types, made_types = self.types, signature.results
        first = len(types)
        types += made_types
        one = len(made_types) == 1
        results = (first,) if one else tuple(range(first, len(types)))
        made = _op((signature, operands, results, location, regions))
        if index is None:
            self._blocks[-1].append(len(self.ops))
            self.ops.append(made)
        else:
            self._blocks[-1].append(index)
            self.ops[index] = made
        return results

    def _reserve(self) -> int:
        self.ops.append(None)
        return len(self.ops) - 1

    def _tag(
        self, attrs: dict[str, str], operands: tuple[int, ...], location: Location
    ) -> tuple[int, ...]:
        """A tag is an identity that names its operand; only the name is kept."""
        (value,) = self.settle(operands)
        name = attrs[_TAG].strip('"')
        text = attrs.get("partir.tag_dims", '""').strip('"')
        dims = tuple(int(d) for d in text.split(",") if d)
        self.tags.append(Tag(name, value, dims))
        return (value,)

    # Cones

    def _cone_size(self, signature: Signature, operands: tuple[int, ...]) -> int:
        """Ops that a copy of one of `_CONES` would take, 0 if it is not cheap."""
        kind = signature.kind
        if kind in (CONSTANT, "stablehlo.iota"):
            return 1
        cones = self._cones
        scalar = (
            kind == "stablehlo.broadcast_in_dim" and not signature.operands[0].shape
        )
        if scalar and operands[0] not in cones:
            return 1
        size = 1
        for operand in operands:
            cone = cones.get(operand)
            if cone is None:
                return 0
            size += cone.size
        return size if size <= CONE_LIMIT else 0

    def settle(self, operands: Iterable[int]) -> tuple[int, ...]:
        """Copies of the cones among these values, for one reader."""
        cones = self._cones
        operands = tuple(operands)
        for operand in operands:
            if operand in cones:
                break
        else:
            return operands
        return tuple([self._copy(v) if v in cones else v for v in operands])

    def _copy(self, value: int) -> int:
        cone = self._cones.get(value)
        if cone is None:
            return value
        operands = tuple([self._copy(v) for v in cone.operands])
        (made,) = self._emit(cone.signature, operands, cone.location)
        if value in self.splats:
            self.splats[made] = self.splats[value]
        return made

    def _note_splat(
        self, signature: Signature, operands: tuple[int, ...], value: int
    ) -> None:
        """Remember values that are one known number everywhere."""
        if signature.kind == CONSTANT:
            number = literal_of(signature)
            if number is not None:
                self.splats[value] = number
        elif signature.name in ("broadcast_in_dim", "reshape", "convert"):
            known = self.splats.get(operands[0])
            if known is not None and _keeps_splat(signature, known):
                self.splats[value] = known

    # Control flow

    def loop(
        self,
        operands: tuple[int, ...],
        changing: tuple[bool, ...],
        regions: Sequence[RegionImporter],
        location: Location,
    ) -> tuple[int, ...]:
        """A while. Operands that its body returns unchanged become captures."""
        carried = [v for v, c in zip(operands, changing, strict=True) if c]
        inits = tuple([v for c in carried for v in self.settle((c,))])
        index = self._reserve()
        made = [
            self._loop_region(operands, changing, run, keep_all)
            for run, keep_all in zip(regions, (True, False), strict=True)
        ]
        types = tuple(self.types[v] for v in inits)
        signature = Signature.of("stablehlo.while", {}, types, types)
        results = self._emit(signature, inits, location, tuple(made), index)
        condition, body = made
        for position, (init, result) in enumerate(zip(inits, results, strict=True)):
            sources = (init, body.results[position])
            targets = (body.arguments[position], condition.arguments[position], result)
            self.ties.append(Tie(sources, targets, index))
        fresh = iter(results)
        return tuple(
            next(fresh) if c else v for v, c in zip(operands, changing, strict=True)
        )

    def _loop_region(
        self,
        operands: tuple[int, ...],
        changing: tuple[bool, ...],
        run: RegionImporter,
        keep_all: bool,
    ) -> Region:
        self.begin()
        arguments = [
            self.value(self.types[v]) if c else v
            for v, c in zip(operands, changing, strict=True)
        ]
        results = run(arguments)
        if not keep_all:
            results = tuple(r for r, c in zip(results, changing, strict=True) if c)
        results = tuple([v for r in results for v in self.settle((r,))])
        own = tuple(a for a, c in zip(arguments, changing, strict=True) if c)
        return self.end(own, results)

    def branch(
        self,
        kind: str,
        attrs: dict[str, str],
        operands: tuple[int, ...],
        results: tuple[TensorType, ...],
        regions: Sequence[RegionImporter],
        location: Location,
    ) -> tuple[int, ...]:
        """A case or if: branches read outer values and yield the results."""
        taken = taken_branch(kind, self.splats.get(operands[0]), len(regions))
        if taken is not None:
            return regions[taken](())
        operands = self.settle(operands)
        index = self._reserve()
        made = []
        for run in regions:
            self.begin()
            yielded = tuple([v for r in run(()) for v in self.settle((r,))])
            made.append(self.end((), yielded))
        signature = Signature.of(
            kind, attrs, tuple(self.types[v] for v in operands), results
        )
        values = self._emit(signature, operands, location, tuple(made), index)
        for position, value in enumerate(values):
            sources = tuple(region.results[position] for region in made)
            self.ties.append(Tie(sources, (value,), index))
        return values

    # The end

    @collection_paused
    def finish(
        self,
        arguments: Sequence[Port],
        results: Sequence[Port],
        ties: Sequence[Tie] = (),
    ) -> Program:
        """The Program in normal form, with its arguments and results named."""
        assert self.body is not None
        notes = tuple(f"{n} (x{c})" for n, c in sorted(self._notes.items()))
        program = Program(
            name=self.name,
            types=tuple(self.types),
            ops=tuple(op for op in self.ops if op is not None),
            body=self.body,
            arguments=tuple(arguments),
            results=tuple(results),
            tags=tuple(self.tags),
            splats=self.splats,
            ties=(*self.ties, *ties),
            notes=notes,
        )
        return normalized(program)


def is_plain(kind: str, attrs: Mapping[str, str]) -> bool:
    """Whether an op can be placed by its signature alone."""
    return _TAG not in attrs and not takes_sizes(kind)


def _keeps_splat(signature: Signature, literal: str) -> bool:
    """Whether a known number is the same number after the op."""
    before, after = signature.operands[0].dtype, signature.results[0].dtype
    if before == after:
        return True
    try:
        number = float(literal)
    except ValueError:
        return False
    # Small whole numbers are the same in every type that is not boolean.
    return number.is_integer() and abs(number) <= 127 and "i1" not in (before, after)
