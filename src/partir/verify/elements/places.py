"""Where windows start: known places, in every case of the integers that say so."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NoReturn

from partir.verify.elements.cases import GARBAGE, Algebra, Scalar
from partir.verify.elements.field import Point
from partir.verify.elements.integers import starts_from
from partir.verify.elements.rings import Integers, Plain
from partir.verify.layouts.layout import Unreadable

NOWHERE = -(1 << 62)  # further back than any window reaches


class _Places:
    """Places are for looking up: nothing is computed with them."""

    zero = one = 0

    def add(self, x: Plain, y: Plain) -> NoReturn:
        """There are too many cases to look at each."""
        raise Unreadable("places that depend on too many unknown integers")

    mul = scaled = add

    def neg(self, x: Plain) -> NoReturn:
        """As above."""
        self.add(x, x)

    def unknown(self, point: Point, *key: Hashable) -> NoReturn:
        """As above."""
        self.add(0, 0)


PLACES: Any = _Places()


def clamped(algebra: Algebra, ring: Integers, start: Scalar, most: int) -> Scalar:
    """The nearest place from zero to the most."""
    return _placed(
        algebra, ring, start, lambda n: min(max(n, 0), most), range(most + 1)
    )


def within(algebra: Algebra, ring: Integers, start: Scalar, most: int) -> Scalar:
    """The place itself, or `NOWHERE` if it is not from zero to the most."""
    return _placed(
        algebra,
        ring,
        start,
        lambda n: n if 0 <= n <= most else NOWHERE,
        range(max(most, 0) + 2),
    )


def _placed(
    algebra: Algebra,
    ring: Integers,
    start: Scalar,
    place: Callable[[int], int],
    changes: range,
) -> Scalar:
    """What `place` makes of an integer, which changes at some of them."""

    def plain(x: Plain) -> Scalar:
        if x is GARBAGE:
            return GARBAGE
        known = ring.known(x)
        if known is not None:
            return place(known)
        unknown = algebra.unknown_of(x[0], ring)
        edges = [n - x[1] for n in (ring.least, *changes)]
        starts = starts_from(edges, ring, unknown)
        values = [place(ring.typed(x[1] + s)) for s in starts]
        return algebra.cases(unknown, starts, values, PLACES)

    return algebra.apply(plain, PLACES, (ring,), start)
