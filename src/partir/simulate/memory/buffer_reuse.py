"""Buffers of results, lent to temporaries until the results are written.

A buffer takes temporaries that are no larger than it is. Sizes are told apart by their
binary logarithm only.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Buffer = tuple[int, int, int, int]
"""Size in bytes, first and last position, and count."""

Sizes = dict[int, np.ndarray]
"""Bytes at each place, by the logarithm of the size of what they belong to."""


def size_class(size: int) -> int:
    """The binary logarithm, rounded up."""
    return size.bit_length()


def by_size(buffers: Iterable[Buffer], places: int) -> Sizes:
    """Bytes at each place."""
    changes: dict[int, list[int]] = {}
    for size, first, last, times in buffers:
        kind = size_class(size)
        deltas = changes.get(kind)
        if deltas is None:
            deltas = changes[kind] = [0] * (places + 1)
        deltas[first] += size * times
        deltas[last + 1] -= size * times
    return {
        size: np.cumsum(np.array(change, float))[:places]
        for size, change in changes.items()
    }


def not_hosted(live: Sizes, lent: Sizes) -> np.ndarray:
    """Bytes that need memory of their own: large ones take what is lent first.

    >>> live = by_size([(8, 0, 1, 1), (4, 0, 1, 2)], 2)
    >>> not_hosted(live, by_size([(8, 0, 0, 1), (4, 0, 0, 1)], 2)).tolist()
    [4.0, 16.0]
    """
    places = len(next(iter((live or lent).values())))
    needed, free = np.zeros(places), np.zeros(places)
    for size in sorted({*live, *lent}, reverse=True):
        if size in lent:
            free += lent[size]
        if size in live:
            taken = np.minimum(live[size], free)
            free -= taken
            needed += live[size] - taken
    return needed
