"""`Factor`: one loop that an op can be put into, and the notation for rules."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from partir.rules.reach import Reach, fills_all

Dim = int | None

JOIN = "join"
"""A reduction by the op itself: tiles give partial results, which it puts together."""

# Places in windows and short tiles are counted in 32 bits, sums of them included.
LARGEST = 2**29


@dataclass(frozen=True, slots=True)
class Factor:
    """One way to loop over an op.

    `operands` and `results` name the dimension that the loop runs along in each, or
    None. A result without it is reduced with the monoid `reduce`, by the op itself if
    that is `JOIN`; with none it is the same in every iteration. Operands in `once`
    (scatter's operand, reduce's initial value) must count in one iteration only. An
    operand with a `reach` is read in windows, which may overlap, instead of tiles. A
    `loose` factor need not divide: what is computed behind the end of the last, short
    tile never counts.
    """

    size: int
    operands: tuple[Dim, ...]
    results: tuple[Dim, ...]
    reduce: str | None = None
    once: tuple[int, ...] = ()
    reach: tuple[Reach | None, ...] = ()
    loose: bool = False

    def resized(self, size: int) -> Factor:
        """The same factor with another number of iterations."""
        return replace(self, size=size)

    def runs_like(self, other: Factor) -> bool:
        """Whether both run along the same dimensions and recombine alike."""
        return (self.operands, self.results, self.reduce, self.once) == (
            other.operands,
            other.results,
            other.reduce,
            other.once,
        )

    def fits(self, parts: int) -> bool:
        """Whether a loop may cut it into so many parts: equal ones, or a last short."""
        exact = self.size % parts == 0
        if self.size >= LARGEST and (self.reach or not exact):
            return False
        return self.size > 0 if exact else self.loose and fills_all(self.size, parts)

    def reach_of(self, position: int) -> Reach | None:
        """How an operand is read, None if in tiles."""
        return self.reach[position] if position < len(self.reach) else None

    def dim(self, position: int) -> Dim:
        """Dimension in the value at `position`, operands counted before results."""
        count = len(self.operands)
        if position < count:
            return self.operands[position]
        return self.results[position - count]


def notation(
    factors: Sequence[Factor], operand_ranks: Iterable[int], result_ranks: Iterable[int]
) -> str:
    """Print a rule as ``(i, k), (k, j) -> (i, j) sum=k``; `_` is no factor's.

    ``~i`` is read in windows, which may reach beside the tile.

    >>> rule = [Factor(4, (0, None), (0,)), Factor(8, (1, 0), (None,), "sum")]
    >>> notation(rule, (2, 2), (2,))
    '(a, b), (b, _) -> (a, _) sum=b'
    """
    letters = dict(zip(range(len(factors)), _letters(), strict=False))

    def side(ranks: Iterable[int], results: bool) -> str:
        shown = []
        for position, rank in enumerate(ranks):
            dims = ["_"] * rank
            for number, factor in enumerate(factors):
                dim = (factor.results if results else factor.operands)[position]
                if dim is not None:
                    window = not results and factor.reach_of(position) is not None
                    shown_as = f"~{letters[number]}" if window else letters[number]
                    dims[dim] = dims[dim].replace("_", "") + shown_as
            shown.append(f"({', '.join(dims)})")
        return ", ".join(shown)

    text = f"{side(operand_ranks, False)} -> {side(result_ranks, True)}"
    reduced = [
        f"{factor.reduce}={letters[number]}"
        for number, factor in enumerate(factors)
        if factor.reduce
    ]
    return " ".join([text, *reduced])


def _letters() -> Iterable[str]:
    yield from string.ascii_lowercase
    yield from (f"f{i}" for i in range(10_000))
