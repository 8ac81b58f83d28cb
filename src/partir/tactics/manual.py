"""`ManualPartition`: tile named values over one axis."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from partir.errors import PartitionError, nearest
from partir.partition.actions import Partition
from partir.partition.patterns import ByPattern, Optional, Pattern, pattern_text
from partir.partition.values import Value


class Placement(enum.Enum):
    """What a tactic can say of a value other than a dimension."""

    FIRST_DIVISIBLE_DIM = "the first dimension that divides"
    REPLICATED = "whole on this axis"
    UNKNOWN = "nothing"

    def __repr__(self) -> str:
        """As users write it."""
        return f"partir.{self.name}"


@dataclass(frozen=True)
class Padded:
    """A dimension of an argument or result whose size need not divide."""

    dim: int

    def __repr__(self) -> str:
        """As users write it."""
        return f"partir.padded({self.dim})"


def padded(dim: int) -> Padded:
    """In a tactic: tile this dimension, padding the array if it does not divide.

    JAX cuts arrays into equal tiles. So the array that lies on the devices is longer:
    a call pads what it is given, takes what is padded already, and returns state as it
    went in. `Partitioned.unpadded` cuts results to their size. What is in the padding
    never counts.

    Example:
        >>> import jax, partir
        >>> rows = partir.ManualPartition({"x": partir.padded(0)}, axis="B")
        >>> x = jax.ShapeDtypeStruct((10, 3), "float32")
        >>> p = partir.partition(lambda x: x.sum(0), {"B": 4}, [rows], args=(x,))
        >>> p.collectives["all_reduce"], p.spmd.in_tilings
        (1, ((('B',), ()),))
    """
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise PartitionError(f"padded takes the number of a dimension, got {dim!r}")
    return Padded(int(dim))


FIRST_DIVISIBLE_DIM = Placement.FIRST_DIVISIBLE_DIM
REPLICATED = Placement.REPLICATED
UNKNOWN = Placement.UNKNOWN

_WISHES = (
    "a dimension, partir.padded(dimension), partir.FIRST_DIVISIBLE_DIM, "
    "partir.REPLICATED or partir.UNKNOWN"
)

Wish = (
    int
    | Placement
    | Padded
    | Callable[[str, tuple[int, ...], str], int | Placement | Padded]
)


@dataclass(frozen=True)
class ManualPartition:
    """A tactic that tiles the values whose names match over one mesh axis.

    Args:
        inputs: patterns over names of arguments and tags (or ``%`` addresses) to a
            dimension, `padded(dimension)`, FIRST_DIVISIBLE_DIM, REPLICATED, UNKNOWN, or
            a callable
            ``(name, shape, dtype)`` that returns one of these. Where several patterns
            match a name, the last one counts.
        axis: the mesh axis.
        name: shown in tables; by default made of the axis.
        outputs: the same for results, ``out/…``.
        reason: why, for whoever reads the schedule.
        expect: what must hold after it, as `partition` takes it.

    Example:
        >>> ManualPartition({"x": 0, "y": 0}, axis="B", name="BP").name
        'BP'
    """

    inputs: ByPattern[Wish]
    axis: str
    name: str = ""
    outputs: ByPattern[Wish] = field(default_factory=dict)
    reason: str = field(default="", compare=False)
    expect: Mapping[str, int | float | str] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check the mappings; fill in the name."""
        for which, given in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not isinstance(given, Mapping):
                raise PartitionError(
                    f"ManualPartition: {which} maps patterns to dimensions, for "
                    f'example {{"params/*/w1": 1}}; got {given!r}'
                )
        if not isinstance(self.axis, str):
            raise PartitionError(
                f"ManualPartition: axis is a mesh axis's name, got {self.axis!r}"
            )
        if not self.name:
            object.__setattr__(self, "name", f"manual over {self.axis}")
        for given in (self.inputs, self.outputs):
            for pattern, wish in given.items():
                text = pattern_text(pattern)
                if not callable(wish):
                    self._require_wish(wish, f'"{text}"')

    def apply(self, partition: Partition) -> None:
        """Take the actions; the schedule propagates them."""
        partition.require_axis(self.axis)
        for value, wish in self._wishes(partition, self.inputs, outputs=False):
            self._act(partition, value, wish)
        for value, wish in self._wishes(partition, self.outputs, outputs=True):
            self._act(partition, value, wish)

    def _wishes(
        self, partition: Partition, given: ByPattern[Wish], outputs: bool
    ) -> list[tuple[Value, Wish]]:
        """Each matching value with what the last matching pattern says of it."""
        wishes: dict[int, tuple[Value, Wish]] = {}
        for pattern, wish in given.items():
            look = partition.results if outputs else partition.values
            values = look(pattern)
            if not values and not isinstance(pattern, Optional):
                raise self._nothing(partition, pattern, outputs)
            for value in values:
                wishes[value.number] = (value, wish)
        return list(wishes.values())

    def _nothing(
        self, partition: Partition, pattern: Pattern, outputs: bool
    ) -> PartitionError:
        text = pattern_text(pattern)
        names = partition.names
        if outputs:
            kind = "result"
            close = nearest(text, [name for name, _, _ in names.results])
        else:
            kind = "inner value" if text.startswith("%") else "argument or tag"
            close = names.nearest(text)
        hint = ""
        if not outputs and names.results_matching(pattern):
            hint = f'. It names a result: write outputs={{"{text}": …}}'
        elif isinstance(pattern, str):
            look = names.results_matching if outputs else names.matching
            hint = _spelled_otherwise(text, look)
        return PartitionError(
            f'tactic "{self.name}": pattern "{text}" matches no {kind} of '
            f"{partition.program.name}; nearest names: {close}{hint}. If it may match "
            f'nothing, write partir.optional("{text}")'
        )

    def _act(self, partition: Partition, value: Value, wish: Any) -> None:
        if callable(wish):
            wish = self._ask(wish, value)
        if wish is UNKNOWN:
            return
        if wish is REPLICATED:
            partition.atomic(value, self.axis)
        elif wish is FIRST_DIVISIBLE_DIM:
            self._first_divisible(partition, value)
        elif isinstance(wish, Padded):
            partition.tile(value, wish.dim, self.axis, padded=True)
        else:
            partition.tile(value, wish, self.axis)

    def _ask(self, wish: Any, value: Value) -> Any:
        name = getattr(wish, "__name__", repr(wish))
        try:
            said = wish(value.name, value.shape, value.dtype)
        except Exception as error:
            raise PartitionError(
                f'tactic "{self.name}": {name}({value.name!r}, {value.shape}, '
                f"{value.dtype!r}) raised {type(error).__name__}: {error}. A callable "
                f"takes (name, shape, dtype) and returns {_WISHES}"
            ) from error
        self._require_wish(said, value.name, f" (from {name})")
        return said

    def _require_wish(self, wish: Any, what: str, source: str = "") -> None:
        whole = hasattr(wish, "__index__") and not isinstance(wish, bool)
        if not whole and not isinstance(wish, (Placement, Padded)):
            raise PartitionError(
                f'tactic "{self.name}" says {wish!r} for {what}{source}: say {_WISHES}'
            )

    def _first_divisible(self, partition: Partition, value: Value) -> None:
        size = partition.mesh[self.axis]
        scanned = partition.scanned_dims(value, self.axis)
        for dim, left in enumerate(value.local_shape):
            if value.decided(self.axis):
                break
            if left and left % size == 0 and dim not in scanned:
                partition.tile(value, dim, self.axis)
                return
        partition.skip(value, self.axis, self._skipped(partition, value, scanned))

    def _skipped(
        self, partition: Partition, value: Value, scanned: tuple[int, ...]
    ) -> str:
        """Why a value is left alone; a scalar needs no reason."""
        settled = partition.settled(value, self.axis)
        if settled or not value.shape:
            return settled
        sizes = "x".join(map(str, value.local_shape))
        within = " on a device" if value.local_shape != value.shape else ""
        loop = f", but for {_dims(scanned)}, which a loop steps through"
        return (
            f"no dimension of {sizes}{within} divides over an axis of size "
            f"{partition.mesh[self.axis]}{loop if scanned else ''}"
        )


def _dims(numbers: tuple[int, ...]) -> str:
    return f"dimension {' and '.join(map(str, numbers))}"


def _spelled_otherwise(text: str, look: Callable[[Any], Any]) -> str:
    """What to write for a pattern that follows other rules than ours, if that is so."""
    joined = re.sub(r"""[.\[\]'"/]+""", "/", text).strip("/")
    if joined != text and look(joined):
        return f'. Parts of a name are joined by /: write "{joined}"'
    try:
        expression = re.compile(text)
    except re.error:
        return ""
    if look(expression):
        return f'. To use a regular expression write re.compile("{text}")'
    return ""
