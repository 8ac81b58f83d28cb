"""Rules as users write them: ``b s d, d f -> b s f sum=d``, one name per dimension."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from partir.errors import PartitionError

OPAQUE = "partir.opaque"  # target of calls to functions that partir.opaque keeps whole
FLOPS = "partir.flops"  # how much such a function computes
PRODUCTS = "partir.products"  # how much of that in matrix products
FUNCTION_ID = "partir.function"  # attribute of such a call: the function's id,
RULE = "partir.rule"  # its rule,
PAIRS = "partir.pairs"  # and what residuals it saves or resumes from

WHOLE = "_"
DOTS = "..."
DimNames = tuple[str, ...]
SAME = "same"  # not reduced: results that lack the name don't depend on it
GROUPED = "grouped"  # sizes may be multiples of the smallest: heads that share keys
MARKS = ("sum", "mul", "max", "min", "and", "or", SAME)

_NAME = re.compile(r"[A-Za-z]\w*")
_MARK = re.compile(r"(\w+)=(\S+)")
_EXAMPLE = '"b s d, d f -> b s f sum=d"'


@dataclass(frozen=True)
class UserRule:
    """A rule: the names of each operand's and result's dimensions; `_` stays whole.

    `reduced` are pairs of a name that some result lacks and the monoid that puts its
    parts together. Names have one size wherever they stand, but for those in `grouped`.
    """

    operands: tuple[DimNames, ...]
    results: tuple[DimNames, ...]
    reduced: tuple[tuple[str, str], ...] = ()
    grouped: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As it is written.

        >>> str(parse("(b, s), (s) -> (b) sum=s"))
        'b s, s -> b sum=s'
        """
        left, right = (
            ", ".join(" ".join(dims) or "()" for dims in side)
            for side in (self.operands, self.results)
        )
        marks = [f"{monoid}={name}" for name, monoid in self.reduced]
        marks += [f"{GROUPED}={name}" for name in self.grouped]
        return " ".join([left, "->", right, *marks]).strip()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name once, in the order in which they appear."""
        found = (name for dims in (*self.operands, *self.results) for name in dims)
        return tuple(dict.fromkeys(name for name in found if name != WHOLE))

    def places(self, name: str) -> tuple[tuple[int | None, ...], ...]:
        """The dimension of a name in each operand, and in each result, or None."""
        operands, results = (
            tuple(dims.index(name) if name in dims else None for dims in side)
            for side in (self.operands, self.results)
        )
        return operands, results


# Reading


def parse(text: str) -> UserRule:
    """Read a rule, or raise a PartitionError that names the factor and what would do.

    >>> parse("b s d, d f -> b s f sum=d").reduced
    (('d', 'sum'),)
    """
    if not isinstance(text, str) or text.count("->") != 1:
        raise error(text, f"expected operands, one ->, results, as in {_EXAMPLE}")
    return _parse(text)


@functools.lru_cache(maxsize=1 << 10)
def _parse(text: str) -> UserRule:
    left, right = text.split("->")
    start = re.search(r"\w+\s*=", right)
    marks = right[start.start() :] if start else ""
    right = right[: start.start()] if start else right
    made = UserRule(
        _values(text, left, "operand"),
        _values(text, right, "result"),
        *_marks(text, marks),
    )
    _check_names(text, made)
    _check_marks(text, made)
    return made


def error(text: object, problem: str) -> PartitionError:
    """What is wrong with a rule."""
    return PartitionError(f'rule "{text}": {problem}')


def _values(text: str, side: str, what: str) -> tuple[DimNames, ...]:
    """The dimensions of each operand, or of each result."""
    if not side.strip():
        return ()
    pieces = re.split(r",(?![^(]*\))", side)
    return tuple(
        tuple(_dims(text, piece.strip(), f"{what} {number}"))
        for number, piece in enumerate(pieces)
    )


def _dims(text: str, piece: str, where: str) -> Iterator[str]:
    if not piece:
        raise error(text, f"{where} is empty; write () for a scalar")
    if piece.startswith("(") and piece.endswith(")"):
        piece = piece[1:-1].replace(",", " ")
    for word in piece.split():
        if word in (WHOLE, "1"):
            yield WHOLE
        elif word == DOTS or _NAME.fullmatch(word):
            yield word
        else:
            raise error(
                text,
                f'"{word}" in {where} is no name of a dimension. A name is letters and '
                "digits, such as b; _ or 1 is a dimension that stays whole, ... is any "
                "number of dimensions. One name per dimension: a dimension that merges "
                "two is to be reshaped before the call",
            )


def _marks(
    text: str, marks: str
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    found: dict[str, str] = {}
    grouped: list[str] = []
    for word in re.sub(r"\s*=\s*", "=", marks).replace(",", " ").split():
        match = _MARK.fullmatch(word)
        monoid, name = (match[1], match[2]) if match else ("", "")
        if monoid == GROUPED:
            grouped.append(name)
            continue
        if monoid not in MARKS:
            raise error(
                text,
                f'"{word}" does not say how parts are put together: write one of '
                + ", ".join(f"{known}=NAME" for known in MARKS),
            )
        if name in found:
            raise error(text, f'"{name}" is marked twice; it can have one reduction')
        found[name] = monoid
    return tuple(found.items()), tuple(grouped)


def _check_names(text: str, rule: UserRule) -> None:
    for what, side in (("operand", rule.operands), ("result", rule.results)):
        for number, dims in enumerate(side):
            for name in set(dims) - {WHOLE}:
                if dims.count(name) > 1:
                    raise error(
                        text,
                        f'"{name}" is twice in {what} {number}; a device would get a '
                        "block of the diagonal only: write _ for both dimensions, or "
                        "two names",
                    )
    known = {name for dims in rule.operands for name in dims}
    for number, dims in enumerate(rule.results):
        for name in dims:
            if name not in known | {WHOLE}:
                raise error(
                    text,
                    f'"{name}" is in result {number} but in no operand, so nothing '
                    "tells a device which part to make: write _ there",
                )


def _check_marks(text: str, rule: UserRule) -> None:
    marked = dict(rule.reduced)
    for name in rule.names:
        places = [i for i, dims in enumerate(rule.operands) if name in dims]
        missing = [i for i, dims in enumerate(rule.results) if name not in dims]
        if missing and name not in marked:
            raise error(
                text,
                f'"{name}" is in {_listed("operand", places)} but not in '
                f"{_listed('result', missing)}: say how parts are put together "
                f"(sum={name}, or {', '.join(m for m in MARKS if m != 'sum')}), or "
                "write _ where it must stay whole",
            )
        if not missing and name in marked:
            raise error(
                text,
                f'"{name}" is marked {marked[name]}={name}, but every result has it: '
                "nothing is reduced over it, so leave the mark out",
            )
    for name, mark in (*rule.reduced, *((name, GROUPED) for name in rule.grouped)):
        if name not in rule.names:
            raise error(
                text,
                f'{mark}={name}: there is no dimension "{name}"; the names are '
                + (", ".join(rule.names) or "none"),
            )


def _listed(what: str, numbers: Sequence[int]) -> str:
    many = "s" if len(numbers) > 1 else ""
    return f"{what}{many} {', '.join(map(str, numbers))}"
