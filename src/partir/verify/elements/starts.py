"""Whether what a reduction starts from counts nothing where it comes again.

Tiles that are reduced each from the same row s, and then once more from s, make what
all of their rows do if s changes nothing behind what began with s. That is shown in one
of two ways: by formulas, of rows of which nothing is known; or, of a reducer that only
compares numbers and chooses among them, by all ways in which numbers can be ordered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from partir.ir.core import Lambda
from partir.verify.classes.monoids import WITHOUT_INFINITY
from partir.verify.elements.cases import FALSE, GARBAGE, TRUE, Cases, Scalar
from partir.verify.elements.constants import constant
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import Floats, Integers, Plain, Ring, Truths, ring_of

Row = tuple[Scalar, ...]
Reducer = Callable[[Row, Row], Row]
_ORDERING = frozenset(f"stablehlo.{name}" for name in ("compare", "constant", "select"))
_OF_TRUTHS = frozenset(f"stablehlo.{name}" for name in ("and", "not", "or", "xor"))
_MOST = 1 << 10  # rows that are tried


def any_row(ops: Elementwise, which: str, rings: Sequence[Ring]) -> Row:
    """A row of which nothing is known."""
    return tuple(
        ops.algebra.truth("any row", which, n)
        if isinstance(ring, Truths)
        else ring.unknown(ops.algebra.point, "any row", which, n)
        for n, ring in enumerate(rings)
    )


class Start:
    """A row that a reducer starts from, and what it changes."""

    def __init__(
        self, ops: Elementwise, body: Lambda, run: Reducer, start: Row
    ) -> None:
        """Of a region, which `run` runs."""
        self.ops, self._body, self._run, self._start = ops, body, run, start
        self._dtypes = [body.types[value].dtype for value in body.results]
        self._rings = [ring_of(dtype) for dtype in self._dtypes]
        self.ends = self._shown(self._at_the_end) or self._is_by_order()
        self.inside = self.ends or self._shown(self._between)

    def _shown(self, holds: Callable[[], bool]) -> bool:
        known = GARBAGE not in self._start
        return known and bool(self.ops.algebra.tried(holds))

    def _flat(self, row: Row) -> tuple[Plain, ...]:
        return self.ops.monoids.flat_row(row, self._rings)

    def _at_the_end(self) -> bool:
        """Whether it changes nothing before or behind what began with it."""
        return self._leaves(self._start, any_row(self.ops, "one", self._rings))

    def _leaves(self, start: Row, row: Row) -> bool:
        made = self._run(start, row)
        both = self._run(made, start), self._run(start, made), made
        first, second, third = map(self._flat, both)
        return GARBAGE not in third and first == second == third

    def _between(self) -> bool:
        """Whether it changes nothing between that and another row."""
        start, run = self._start, self._run
        one, other = (any_row(self.ops, n, self._rings) for n in ("one", "other"))
        first = run(start, one)
        pairs = (
            (run(run(first, start), other), run(first, other)),
            (run(start, first), first),
        )
        return all(self._flat(x) == self._flat(y) for x, y in pairs)

    # By order

    def _is_by_order(self) -> bool:
        """Whether it is at no end seen to change one of all rows that can differ.

        Of rows with nan only if the order of steps does not matter to them: if it does,
        nobody says what is made of these.
        """
        if GARBAGE in self._start or not all(map(_orders, self._body.ops)):
            return False
        free = [n for n, x in enumerate(self._start) if not self._is_known(n, x)]
        chosen = [self._numbers(n) for n in (*free, *range(len(self._start)))]
        if any(one is None for one in chosen):
            return False
        kept = [one for one in chosen if one is not None]
        if math.prod(map(len, kept)) > _MOST:
            return False
        tried, nan = self.ops.algebra.tried, self.ops.numbers.special["nan"]
        if tried(partial(self._holds_of, free, kept)):
            return True
        rows = [*itertools.product(*kept[len(free) :])]
        plain = [[number for number in one if number != nan] for one in kept]
        if len(rows) ** 3 > _MOST or not tried(partial(self._holds_of, free, plain)):
            return False
        return tried(partial(self._is_associative, rows)) is False

    def _is_associative(self, rows: Sequence[Row]) -> bool:
        """Whether steps on any three rows may be done in either order."""
        run, flat = self._run, self._flat
        return all(
            flat(run(run(x, y), z)) == flat(run(x, run(y, z)))
            for x, y, z in itertools.product(rows, repeat=3)
        )

    def _holds_of(self, free: Sequence[int], chosen: Sequence[list[Scalar]]) -> bool:
        for numbers in itertools.product(*chosen):
            start = list(self._start)
            for place, number in zip(free, numbers, strict=False):
                start[place] = number
            if not self._leaves(tuple(start), tuple(numbers[len(free) :])):
                return False
        return True

    def _is_known(self, place: int, x: Scalar) -> bool:
        return x in (FALSE, TRUE) or self._number(place, x) is not None

    def _number(self, place: int, x: Scalar) -> Any:
        ring = self._rings[place]
        if type(x) is Cases:
            return None
        if isinstance(ring, Integers):
            return ring.known(x)
        return self.ops.numbers.read(x, self._dtypes[place]) if type(x) is int else None

    def _numbers(self, place: int) -> list[Scalar] | None:
        """As many numbers of a type as there can be orders of; None if not known."""
        dtype, ring = self._dtypes[place], self._rings[place]
        if isinstance(ring, Truths):
            return [FALSE, TRUE]
        own = [n for n, other in enumerate(self._dtypes) if other == dtype]
        known = {self._number(n, self._start[n]) for n in own}
        count = len(own) + sum(self._number(n, self._start[n]) is None for n in own)
        spelled = {*self._spelled(dtype), *known} - {None}
        if isinstance(ring, Integers):
            return [ring.number(n) for n in _integers(ring, spelled, count)]
        if not isinstance(ring, Floats):
            return None
        rounded = partial(self.ops.numbers.rounded, dtype=dtype)
        found = _floats(rounded, spelled, count, WITHOUT_INFINITY.get(dtype, math.inf))
        formula = self.ops.numbers.formula
        return None if found is None else [formula(n) for n in (*found, math.nan)]

    def _spelled(self, dtype: str) -> Iterator[Any]:
        """Numbers of a type that the reducer has."""
        for op in self._body.ops:
            (type_,) = op.signature.results
            if op.kind == "stablehlo.constant" and type_.dtype == dtype:
                text = op.signature.attrs["value"]
                (made,) = constant(self.ops, text, type_.shape, dtype)
                whole = isinstance(ring_of(dtype), Integers)
                yield made[1] if whole else self.ops.numbers.number(made)


def _orders(op: Any) -> bool:
    """Whether an op only compares numbers, or chooses."""
    dtypes = [type_.dtype for type_ in op.signature.operands]
    if any(dtype.startswith("complex") for dtype in dtypes):
        return False
    if "TOTALORDER" in op.signature.attrs.get("compare_type", ""):
        return False
    return op.kind in _ORDERING or (op.kind in _OF_TRUTHS and {*dtypes} == {"i1"})


def _integers(ring: Integers, known: Iterable[int], count: int) -> list[int]:
    """Known ones, and so many before, behind and between them; or all there are."""
    edges = sorted({ring.typed(n) for n in known})
    found = set(edges)
    for first, last in itertools.pairwise((ring.least - 1, *edges, ring.largest + 1)):
        found.update(range(first + 1, min(first + 1 + count, last)))
    return sorted(found)


def _floats(
    rounded: Callable[[float], float], known: Iterable[Any], count: int, end: float
) -> list[float] | None:
    """The same, up to the largest; None if a type may have others than are found."""
    edges = sorted({float(n) for n in known if not math.isnan(n)})
    found = set(edges)
    for first, last in itertools.pairwise((None, *edges, None)):
        low, high = -end if first is None else first, end if last is None else last
        more = [*map(rounded, itertools.islice(_between(low, high), count))]
        if len({*more, *edges}) < len(more) + len(edges):
            return None
        if not all(low <= number <= high for number in more):
            return None
        found.update(more)
    return sorted(found)


def _between(low: float, high: float) -> Iterator[float]:
    """Numbers behind one and before another, if there are."""
    if low == high:  # nothing is beyond an infinity
        return
    if math.isinf(low) and math.isinf(high):
        yield from map(float, range(1 << 10))
    elif math.isinf(high):
        yield from (low + n * max(1.0, abs(low)) for n in range(1, 1 << 10))
    elif math.isinf(low):
        yield from (high - n * max(1.0, abs(high)) for n in range(1, 1 << 10))
    else:
        yield from (low + (high - low) / (1 << n) for n in range(1, 1 << 10))
