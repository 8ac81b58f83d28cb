"""Loops of calls that hand on residuals, over the names of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partir.ir.core import Signature
from partir.ir.residual_pairs import Pair
from partir.ir.user_rule import RULE, WHOLE, parse
from partir.rules.nest import Nest, nest_of

PairLoop = tuple[str, int, int]
"""A mesh axis, its size, and the number of a pair's name."""


def pair_loops(nest: Nest, pair: Pair) -> tuple[PairLoop, ...]:
    """A call's loops over a pair's names, outermost first."""
    key = f"loops of pair {pair}"
    known: tuple[PairLoop, ...] | None = nest.cache.get(key)
    if known is None:
        known = nest.cache[key] = tuple(_pair_loops(nest, pair))
    return known


def _pair_loops(nest: Nest, pair: Pair) -> Iterator[PairLoop]:
    for loop in nest.loops:
        places = loop.factor.operands, loop.factor.results
        for number, name in enumerate(pair.names):
            if name != WHOLE and _places(nest.signature, name) == places:
                yield loop.axis, loop.size, number


def _places(op: Signature, name: str) -> tuple[tuple[int | None, ...], ...]:
    """The dimension of a name in each operand, and in each result."""
    return parse(op.attrs[RULE].strip('"')).places(name)


def in_pair_loops(nest: Nest, pair: Pair, loops: Sequence[PairLoop]) -> Nest | None:
    """A call in these loops over the pair's names; None if it can't be.

    Its loops over other names stay, unless the axes are taken now.
    """
    made: Nest | None = nest_of(nest.signature)
    for axis, size, number in loops:
        if number >= len(pair.names) or pair.names[number] == WHOLE:
            return None
        places = _places(nest.signature, pair.names[number])
        made = _inside(made, axis, size, places)
    left = {axis for axis, _, _ in (*loops, *pair_loops(nest, pair))}
    for loop in nest.loops if made else ():
        places = loop.factor.operands, loop.factor.results
        if loop.axis not in left:
            made = _inside(made, loop.axis, loop.size, places) or made
    return made


def _inside(
    nest: Nest | None, axis: str, size: int, places: tuple[tuple[int | None, ...], ...]
) -> Nest | None:
    """One more loop, along these places; None if there is no such factor."""
    for number, factor in enumerate(nest.factors if nest else ()):
        if (factor.operands, factor.results) == places and factor.size % size == 0:
            assert nest is not None
            return nest.inside(axis, size, number)
    return None
