"""Users' rules and the values that they are for: numbers and sizes of dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.types import TensorType
from partir.ir.user_rule import DOTS, DimNames, UserRule, error


def fitted(
    rule: UserRule, operands: Sequence[TensorType], results: Sequence[TensorType]
) -> UserRule:
    """The rule with ... written out for values of these types, if it fits them."""
    left, right = require_operands(rule, operands), _spare(rule, "result", results)
    spare: dict[int, str] = {}
    for where, count in (*left, *right):
        spare.setdefault(count, where)
    if len(spare) > 1:
        told = " and ".join(f"{n} in {where}" for n, where in spare.items())
        raise error(rule, f'"..." stands for {told}: the number must be the same')
    return _without_dots(rule, next(iter(spare), 0))


def require_operands(
    rule: UserRule, operands: Sequence[TensorType]
) -> list[tuple[str, int]]:
    """Operands of these types fit; returns how many dimensions ... is in each."""
    return _spare(rule, "operand", operands)


def _spare(
    rule: UserRule, what: str, types: Sequence[TensorType]
) -> list[tuple[str, int]]:
    side = rule.operands if what == "operand" else rule.results
    if len(side) != len(types):
        raise error(
            rule,
            f"it has {len(side)} {what}s, the call has {len(types)}: "
            + (", ".join(map(str, types)) or "none"),
        )
    found = []
    for number, (dims, type_) in enumerate(zip(side, types, strict=True)):
        named = len(dims) - dims.count(DOTS)
        more = len(type_.shape) - named
        if more < 0 or (more and DOTS not in dims):
            raise error(
                rule,
                f"{what} {number} is {type_} with {len(type_.shape)} dimensions, "
                f'the rule names {named}: "{" ".join(dims)}"',
            )
        if DOTS in dims:
            found.append((f"{what} {number}", more))
    return found


def _without_dots(rule: UserRule, count: int) -> UserRule:
    if DOTS not in rule.names:
        return rule
    names = tuple(fresh(rule.names, f"dim{i}") for i in range(count))

    def expand(dims: DimNames) -> DimNames:
        return tuple(n for d in dims for n in (names if d == DOTS else (d,)))

    reduced = [
        (n, monoid)
        for name, monoid in rule.reduced
        for n in (names if name == DOTS else (name,))
    ]
    return UserRule(
        tuple(map(expand, rule.operands)),
        tuple(map(expand, rule.results)),
        tuple(reduced),
        expand(rule.grouped),
    )


def fresh(names: Sequence[str], stem: str) -> str:
    """A name like `stem` that is not among these.

    >>> fresh(("b", "v"), "v")
    'v_'
    """
    while stem in names:
        stem += "_"
    return stem


def require_sizes(
    rule: UserRule, operands: Sequence[TensorType], results: Sequence[TensorType]
) -> None:
    """Dimensions of one name have one size; grouped ones multiples of the smallest."""
    for name in rule.names:
        found = sizes(rule, name, operands, results)
        least = min(found.values())
        if len(set(found.values())) == 1:
            continue
        if name not in rule.grouped or any(n % max(least, 1) for n in found.values()):
            told = ", ".join(f"{size} in {where}" for where, size in found.items())
            raise error(
                rule,
                f'"{name}" is {told}. Dimensions of one name have one size: use two '
                f"names, write 1 where the size is 1, or mark it grouped={name} if the "
                "sizes are multiples of the smallest and split alike",
            )


def sizes(
    rule: UserRule,
    name: str,
    operands: Sequence[TensorType],
    results: Sequence[TensorType],
) -> dict[str, int]:
    """Size of a name wherever it stands."""
    sides = ("operand", rule.operands, operands), ("result", rule.results, results)
    return {
        f"{what} {number}": type_.shape[dims.index(name)]
        for what, side, types in sides
        for number, (dims, type_) in enumerate(zip(side, types, strict=True))
        if name in dims
    }
