"""Numbers that a reduction starts from, and what it makes of the same over and over."""

from __future__ import annotations

import numpy as np

from partir.verify.classes.classes import Classes, Made
from partir.verify.classes.monoids import is_identity, sum_of
from partir.verify.classes.rows import GARBAGE, Rows, fill, filled
from partir.verify.classes.terms import FREE, ClassTerm, Use

TIMES, POWER = "times", "power"
IDEMPOTENT = frozenset({"max", "min", "and", "or"})
STARTS = frozenset({"affine", "constant"})  # what reductions may start from


def starts_reduction(monoid: str, term: ClassTerm) -> bool:
    """Whether a class is the number that a reduction starts from."""
    if term.kind == "affine":
        first, steps = term.attrs  # as counting.py makes it
        return not steps and is_identity(monoid, str(first), term.dtype)
    one = term.kind == "constant" and not term.new
    return one and is_identity(monoid, str(term.attrs), term.dtype)


def is_zero(classes: Classes, node: int) -> bool:
    """Whether a class is the number zero, whatever its type."""
    term = classes.terms[node]
    if term.kind.removeprefix("stablehlo.") in ("convert", "negate", "add", "subtract"):
        return all(is_zero(classes, ref.node) for ref in term.refs)
    return starts_reduction(sum_of(term.dtype), term)


def counts_nothing(classes: Classes, monoid: str, node: int) -> bool:
    """Whether a class is the number that a reduction starts from."""
    if monoid == "sum":
        return is_zero(classes, node)
    return starts_reduction(monoid, classes.terms[node])


def times(classes: Classes, node: int, count: int) -> int:
    """The sum of `count` times the same."""
    return _again(classes, TIMES, node, count)


def power(classes: Classes, node: int, count: int) -> int:
    """The product of `count` times the same."""
    return _again(classes, POWER, node, count)


REPEATED = {"sum": (TIMES, times), "product": (POWER, power)}
OFTEN = dict(REPEATED.values())  # by kind


def _again(classes: Classes, kind: str, node: int, count: int) -> int:
    """What a reduction makes of the same over and over."""
    term, monoid = classes.terms[node], "sum" if kind == TIMES else "product"
    if count == 1 or starts_reduction(monoid, term):
        return node
    if term.kind == kind:
        return _again(classes, kind, term.refs[0].node, count * int(str(term.attrs)))
    dims = tuple((n,) for n in range(len(term.dims)))
    sizes = dict(enumerate(term.dims))
    use = Use(sizes, dict.fromkeys(sizes, FREE))
    like = ClassTerm(kind, str(count), (), (), (), dtype=term.dtype)
    return classes.make(like, [(node, dims)], use).node


def repeated_often(
    classes: Classes, made: Made, monoid: str, count: int
) -> Made | None:
    """A reduction over `count` copies; None if that is nothing simple."""
    if count == 1 or monoid in IDEMPOTENT:
        return made
    if monoid not in REPEATED:
        return None
    rows = {
        v: numbers_often(classes, monoid, held, count) for v, held in made.rows.items()
    }
    _, often = REPEATED[monoid]
    return made._replace(node=often(classes, made.node, count), rows=rows)


def numbers_often(classes: Classes, monoid: str, rows: Rows, count: int) -> Rows:
    """Rows of what is reduced so often: numbers in place of some are, too."""
    made = rows.copy()
    for code in np.unique(rows[rows < GARBAGE]):
        made[rows == code] = fill(_often(classes, monoid, filled(int(code)), count))
    return made


def _often(classes: Classes, monoid: str, number: int, count: int) -> int:
    """A number, reduced with itself."""
    if monoid in IDEMPOTENT or counts_nothing(classes, monoid, number):
        return number
    _, often = REPEATED[monoid]
    return often(classes, number, count)
