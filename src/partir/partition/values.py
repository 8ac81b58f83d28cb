"""Views of values and ops, by the names that users know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from partir.errors import nearest
from partir.ir.core import Program
from partir.ir.source import Location
from partir.ir.types import numpy_name
from partir.partition.graph import Graph
from partir.partition.patterns import Pattern, matcher, pattern_text
from partir.partition.state import Conflict, State
from partir.rules.factor import notation
from partir.rules.nest import UNDECIDED

Named = tuple[str, int, tuple[int, ...]]  # name, value, the user's dimensions

_SPECIAL = re.compile(r"[*{]")


class Values:
    """All names of a program."""

    def __init__(self, program: Program) -> None:
        """Read the names off the program's ports and tags."""
        self.program = program
        self.arguments: list[Named] = [
            (port.name, port.value, tuple(range(port.rank)))
            for port in program.arguments
        ]
        self.results: list[Named] = [
            (port.name, port.value, tuple(range(port.rank))) for port in program.results
        ]
        self.tags: list[Named] = [(t.name, t.value, t.dims) for t in program.tags]

    def matching(self, pattern: Pattern) -> list[Named]:
        """Arguments and tags that match; with a leading ``%``, inner values."""
        if pattern_text(pattern).startswith("%"):
            if isinstance(pattern, str) and not _SPECIAL.search(pattern):
                found = self._by_address.get(pattern)
                return [] if found is None else [found]
            return self._select(pattern, self._inner)
        return self._select(pattern, [*self.arguments, *self.tags])

    def results_matching(self, pattern: Pattern) -> list[Named]:
        """Results that match."""
        return self._select(pattern, self.results)

    def exactly(self, name: str) -> Named | None:
        """The value with this very name, and the user's dimensions of it."""
        found = self._exact.get(name)
        if found is None and name.startswith("%"):
            found = self._by_address.get(name)
        return found

    @cached_property
    def _exact(self) -> dict[str, Named]:
        named = [*self.results, *self.tags, *self.arguments]
        return {one[0]: one for one in named}

    def _select(self, pattern: Any, among: list[Named]) -> list[Named]:
        expression = matcher(pattern)
        return [named for named in among if expression.fullmatch(named[0])]

    @cached_property
    def _by_address(self) -> dict[str, Named]:
        return {named[0]: named for named in self._inner}

    @cached_property
    def _inner(self) -> list[Named]:
        types = self.program.types
        return [
            (address, value, tuple(range(len(types[value].shape))))
            for value, address in self.addresses.items()
        ]

    @cached_property
    def addresses(self) -> dict[int, str]:
        """A ``%`` address for every op result and every argument of a region."""
        found = dict(self.program.addresses)
        for op in self.program.ops:
            owner = found[op.results[0]].partition("#")[0] if op.results else ""
            for number, region in enumerate(op.regions if owner else ()):
                for position, value in enumerate(region.arguments):
                    found[value] = f"{owner}/region_{number}#{position}"
        return found

    def nearest(self, name: str) -> str:
        """Names close to one that matched nothing."""
        plain = re.sub(r"[*?]+", "", name)
        among = self._inner if name.startswith("%") else self.arguments + self.tags
        return nearest(plain, dict.fromkeys(n for n, _, _ in among))

    @cached_property
    def port_dtypes(self) -> dict[int, str]:
        """Dtypes that only jax knows: a PRNG key's."""
        ports = (*self.program.results, *self.program.arguments)
        return {port.value: port.dtype for port in ports if port.dtype[:4] == "key<"}

    @cached_property
    def by_value(self) -> dict[int, str]:
        """Best name for each value that has one."""
        named = [*self.results, *self.tags, *self.arguments]
        return {value: name for name, value, _ in named}

    def name(self, value: int) -> str:
        """The user's name for a value, else its address."""
        return self.by_value.get(value) or self.addresses.get(value, f"%{value}")

    def unique_name(self, value: int) -> str:
        """A name that no other value has: an argument's or result's, or the address."""
        return self._unique.get(value) or self.addresses.get(value, f"%{value}")

    @cached_property
    def _unique(self) -> dict[int, str]:
        return {value: name for name, value, _ in [*self.results, *self.arguments]}

    def node_name(self, graph: Graph, node: int) -> str:
        """Name of a node: the address of its first result."""
        results = graph.results[node] or graph.program.ops[node].results
        if graph.op(node) is None:
            return f"the state carried in {self.unique_name(results[0])}"
        return self.program.addresses.get(results[0], f"%{results[0]}")


class Value:
    """A value as tactics see it: its name, shape and place, and how it is tiled."""

    __slots__ = ("_names", "_state", "dims", "name", "number")

    def __init__(
        self,
        state: State,
        names: Values,
        number: int,
        dims: tuple[int, ...],
        name: str = "",
    ) -> None:
        """Wrap value `number`; `dims` are the dimensions that users see."""
        self._state, self._names = state, names
        self.number, self.dims = number, dims
        self.name = name or names.name(number)

    @property
    def unique_name(self) -> str:
        """A name that no other value has: one tag may name a value in every layer."""
        return self._names.unique_name(self.number)

    def belongs_to(self, names: Values) -> bool:
        """Whether this is a value of the program that has these names."""
        return self._names.program is names.program

    @property
    def shape(self) -> tuple[int, ...]:
        """Whole shape, as the user sees it."""
        shape = self._names.program.types[self.number].shape
        return tuple(shape[d] for d in self.dims)

    @property
    def dtype(self) -> str:
        """Element type as numpy and jax spell it: ``float32``, ``bfloat16``."""
        port = self._names.port_dtypes.get(self.number)
        return port or numpy_name(self._names.program.types[self.number].dtype)

    @property
    def uses(self) -> int:
        """How many ops read it."""
        return len(self._names.program.uses.get(self.number, ()))

    @property
    def location(self) -> Location:
        """Where it is made: file, line, scope, all frames; empty for an argument."""
        program = self._names.program
        producer = program.producers.get(self.number)
        return Location() if producer is None else program.ops[producer].location

    @property
    def source(self) -> str:
        """Where it is made: the user's line, or that it is an argument."""
        program = self._names.program
        if self.number in program.producers:
            return str(self.location)
        whose = "" if self.number in program.body.arguments else " of a loop or branch"
        return f"argument{whose}"

    @property
    def tiling(self) -> tuple[tuple[str, ...], ...]:
        """Axes of each dimension, major first."""
        tiling = self._state.tilings[self.number]
        return tuple(tiling[d] for d in self.dims)

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Shape on one device, so far."""
        return tuple(self._state.local_size(self.number, d) for d in self.dims)

    @property
    def type_text(self) -> str:
        """``float32[8,16]``."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def outer(self, dim: int) -> int:
        """The user's number for a dimension of the value."""
        return self.dims.index(dim) if dim in self.dims else dim

    def decided(self, axis: str) -> bool:
        """Whether this axis is settled for it: tiled, or kept whole."""
        return self._state.homes[axis][self.number] != UNDECIDED

    def __repr__(self) -> str:
        """Name, type and tiling."""
        return f"<{self.name}: {self.type_text} {self.tiling}>"


class OpView:
    """An op that propagation left, with the loops it could have and the evidence."""

    def __init__(self, state: State, names: Values, conflict: Conflict) -> None:
        """Wrap a conflict."""
        self._state, self._names, self._conflict = state, names, conflict
        self.node, self.axis = conflict.node, conflict.axis

    @property
    def name(self) -> str:
        """Address of the op."""
        return self._names.node_name(self._state.graph, self.node)

    @property
    def location(self) -> Location:
        """Where it was written: file, line, scope, all frames; empty if carried."""
        op = self._state.graph.op(self.node)
        return op.location if op else Location()

    @property
    def source(self) -> str:
        """The user's line."""
        carried = self._state.graph.op(self.node) is None
        return "carried state" if carried else str(self.location)

    @property
    def rule(self) -> str:
        """The op's factors in notation; factor numbers are the letters' positions."""
        signature = self._state.graph.signatures[self.node]
        return notation(
            self._state.nests[self.node].factors,
            (len(t.shape) for t in signature.operands),
            (len(t.shape) for t in signature.results),
        )

    @property
    def factors(self) -> tuple[int, ...]:
        """Numbers of the factors that the evidence asks for: candidates to choose."""
        known = self._state.known(self.node, self.axis)
        size = self._state.mesh.axes[self.axis]
        return self._state.nests[self.node].supported(size, known)

    @property
    def evidence(self) -> tuple[tuple[str, int, int | None], ...]:
        """Triples of value name, its tiled dimension, and the step that decided it."""
        return tuple(self._evidence())

    def _evidence(self) -> Iterator[tuple[str, int, int | None]]:
        for value, dim, origin in self._conflict.evidence:
            yield self._names.name(value), dim, origin.step if origin else None

    def __repr__(self) -> str:
        """Where, which axis, and what disagrees."""
        asked = ", ".join(f"{name} on {dim}" for name, dim, _ in self.evidence)
        return f'<conflict at {self.name} ({self.source}) on "{self.axis}": {asked}>'
