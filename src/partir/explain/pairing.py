"""Which collectives of two partitions are the same, though inner names may shift."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from partir.explain.changes import name_stem


class Traits(NamedTuple):
    """What tells collectives apart."""

    kind: str
    axes: tuple[str, ...]
    value: str
    bytes: int
    cause: str

    @property
    def given_name(self) -> str:
        """Its value's name; nothing of an address."""
        return "%" if self.value.startswith("%") else self.value


# One after another: an op more or less in a model gives the others new numbers.
_KEYS: tuple[Callable[[Traits], Hashable], ...] = (
    lambda one: one,
    lambda one: (one.kind, one.axes, name_stem(one.value), one.bytes),
    lambda one: (one.kind, one.axes, one.given_name, one.bytes, one.cause),
    lambda one: (one.kind, one.axes, one.value),
)


def unpaired(a: Sequence[Traits], b: Sequence[Traits]) -> tuple[list[int], list[int]]:
    """Places of those that the other has not."""
    left, right = list(range(len(a))), list(range(len(b)))
    for key in _KEYS:
        left, right = _without_pairs(a, b, left, right, key)
    return left, right


def _without_pairs(
    a: Sequence[Traits],
    b: Sequence[Traits],
    left: list[int],
    right: list[int],
    key: Callable[[Traits], Hashable],
) -> tuple[list[int], list[int]]:
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for place in left:
        waiting[key(a[place])].append(place)
    gained = []
    for place in right:
        same = waiting[key(b[place])]
        if same:
            same.pop(0)
        else:
            gained.append(place)
    return sorted(place for places in waiting.values() for place in places), gained
