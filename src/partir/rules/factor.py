"""`Factor`: one loop that an op can be put into, and the notation for rules."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Dim = int | None


@dataclass(frozen=True, slots=True)
class Factor:
    """One way to loop over an op.

    `operands` and `results` name the dimension that the loop runs along in each, or
    None. A result without it is reduced with the monoid `reduce`; with no monoid it
    is the same in every iteration. Operands in `once` (scatter's operand, reduce's
    initial value) must count in one iteration only.
    """

    size: int
    operands: tuple[Dim, ...]
    results: tuple[Dim, ...]
    reduce: str | None = None
    once: tuple[int, ...] = ()

    def resized(self, size: int) -> Factor:
        """The same factor with another number of iterations."""
        return Factor(size, self.operands, self.results, self.reduce, self.once)

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
                    old = dims[dim]
                    dims[dim] = letters[number] if old == "_" else old + letters[number]
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
