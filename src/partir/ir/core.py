"""`Program`: values, ops and regions. Values and ops are numbered; tables hold facts.

A value is an index into `Program.types`, an op an index into `Program.ops`, so that
algorithms keep their state in flat lists. Everything about an op but its operands is
its `Signature`, shared by all ops alike: a 32-layer model has a few hundred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

from partir.ir.interning import Interned
from partir.ir.source import Location
from partir.ir.types import TensorType

T = TypeVar("T")
_LARGE = 4096  # attributes of so many characters have a constant among them


class Signature:
    """All of an op but its operands: kind, attributes, types, closed regions.

    Interned: equal signatures are one object, so caches key on identity.
    """

    __slots__ = (
        *("attrs", "cache", "key", "kind", "lambdas", "name", "operands", "results"),
        "__weakref__",
    )
    _known: ClassVar[Interned[Signature]] = Interned(recent=1 << 11)

    kind: str
    name: str  # kind without its dialect: ``dot_general``
    attrs: dict[str, str]
    lambdas: tuple[Lambda, ...]
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    key: tuple[Any, ...]
    cache: dict[Any, Any]

    @classmethod
    def of(
        cls,
        kind: str,
        attrs: Mapping[str, str],
        operands: tuple[TensorType, ...],
        results: tuple[TensorType, ...],
        lambdas: tuple[Lambda, ...] = (),
    ) -> Signature:
        """The one object for these."""
        key = (kind, tuple(sorted(attrs.items())), operands, results, lambdas)
        found = cls._known.get(key)
        if found is None:
            made = cls.__new__(cls)
            made.kind, made.name = kind, kind.rpartition(".")[2]
            made.attrs, made.lambdas = dict(attrs), lambdas
            made.operands, made.results = operands, results
            made.key, made.cache = key, {}
            small = sum(map(len, attrs.values())) < _LARGE
            found = cls._known.add(key, made, keep=small)
        return found

    @classmethod
    def known(cls) -> tuple[Signature, ...]:
        """All that there are."""
        return cls._known.all()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by content, so that the copy is interned where it arrives."""
        return Signature.of, (
            self.kind,
            self.attrs,
            self.operands,
            self.results,
            self.lambdas,
        )

    def __repr__(self) -> str:
        """``dot_general(f32[2,3], f32[3,4]) -> f32[2,4]``."""
        ins = ", ".join(map(str, self.operands))
        return f"{self.name}({ins}) -> {', '.join(map(str, self.results))}"


@dataclass(frozen=True, slots=True)
class Region:
    """A block: argument values, op numbers in order, yielded values."""

    arguments: tuple[int, ...]
    ops: tuple[int, ...]
    results: tuple[int, ...]


class Op(NamedTuple):
    """One operation. `regions` are control flow's, which may see outer values."""

    signature: Signature
    operands: tuple[int, ...]
    results: tuple[int, ...]
    location: Location
    regions: tuple[Region, ...] = ()

    @property
    def kind(self) -> str:
        """Op kind with its dialect, ``stablehlo.add``."""
        return self.signature.kind


@dataclass(frozen=True, slots=True)
class Lambda:
    """A closed region (a reducer, a comparator) with its own numbering from zero."""

    types: tuple[TensorType, ...]
    arguments: tuple[int, ...]
    ops: tuple[Op, ...]
    results: tuple[int, ...]
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        """Computed once: signatures are looked up by it."""
        if not self._hash:
            found = hash((self.types, self.arguments, self.ops, self.results))
            object.__setattr__(self, "_hash", found)
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the hash: it is another one in another process."""
        return Lambda, (self.types, self.arguments, self.ops, self.results)


@dataclass(frozen=True, slots=True)
class Port:
    """A named argument or result.

    `rank` is the number of dimensions that users see; a PRNG key hides trailing ones.
    """

    name: str
    value: int
    rank: int
    dtype: str = ""

    def visible(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The user's part of the shape."""
        return shape[: self.rank]


@dataclass(frozen=True, slots=True)
class Tag:
    """One value named by `partir.tag`; user dimension i is value dimension dims[i]."""

    name: str
    value: int
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tie:
    """Values that form one decision: a loop's carry, a branch's result, state carried.

    `sources` flow into `targets`; all have one type.
    """

    sources: tuple[int, ...]
    targets: tuple[int, ...]
    owner: int | None = None  # the control-flow op; None: between result and argument


@dataclass(frozen=True)
class Program:
    """A whole program, calls inlined. See the module's docstring for the numbering."""

    name: str
    types: tuple[TensorType, ...]
    ops: tuple[Op, ...]
    body: Region
    arguments: tuple[Port, ...]
    results: tuple[Port, ...]
    tags: tuple[Tag, ...] = ()
    splats: Mapping[int, str] = field(default_factory=dict)
    ties: tuple[Tie, ...] = ()
    notes: tuple[str, ...] = ()

    def once(self, find: Callable[[Program], T]) -> T:
        """What `find` finds out about this program, at the first time it is asked."""
        known = self._found
        if find not in known:
            known[find] = find(self)
        answer: T = known[find]
        return answer

    @cached_property
    def _found(self) -> dict[Callable[[Program], Any], Any]:
        return {}

    def walk(self, region: Region | None = None) -> Iterator[int]:
        """Op numbers in program order, those inside regions after their owner."""
        for index in (region or self.body).ops:
            yield index
            for inner in self.ops[index].regions:
                yield from self.walk(inner)

    @cached_property
    def producers(self) -> dict[int, int]:
        """Op that makes each value; arguments have none."""
        return {v: i for i, op in enumerate(self.ops) for v in op.results}

    @cached_property
    def uses(self) -> dict[int, tuple[int, ...]]:
        """Ops that read each value, in program order."""
        found: dict[int, list[int]] = {}
        for index, op in enumerate(self.ops):
            for value in dict.fromkeys(op.operands):
                found.setdefault(value, []).append(index)
        return {value: tuple(users) for value, users in found.items()}

    @cached_property
    def nested(self) -> bool:
        """Whether an op has regions."""
        return any(op.regions for op in self.ops)

    @cached_property
    def names(self) -> dict[int, str]:
        """Name of each value that users have a name for."""
        found = {port.value: port.name for port in self.results}
        found.update({tag.value: tag.name for tag in self.tags})
        found.update({port.value: port.name for port in self.arguments})
        return found

    @cached_property
    def addresses(self) -> dict[int, str]:
        """A stable ``%`` address for every op result; layers differ in the number only.

        Made of the source function, the op's kind and a running number.
        """
        counts: dict[str, int] = {}
        found: dict[int, str] = {}
        for index in self.walk():
            op = self.ops[index]
            stem = f"%{op.location.function or 'main'}/{op.signature.name}"
            number = counts.get(stem, 0)
            counts[stem] = number + 1
            for position, value in enumerate(op.results):
                suffix = f"#{position}" if len(op.results) > 1 else ""
                found[value] = f"{stem}/{number}{suffix}"
        return found

    @cached_property
    def address_counts(self) -> Counter[str]:
        """How many ops there are of each address but for its number."""
        first = (op.results[0] for op in self.ops if op.results)
        return Counter(self.addresses[v].rpartition("/")[0] for v in first)

    def describe(self, value: int) -> str:
        """The user's name for a value, or its address and where it was written."""
        if value in self.names:
            return self.names[value]
        address = self.addresses.get(value, f"%{value}")
        producer = self.producers.get(value)
        if producer is None:
            return address
        return f"{address} ({self.ops[producer].location})"

    def text(self) -> str:
        """The program as text, for people."""
        from partir.ir.printer import program_text

        return program_text(self)
