"""Names as patterns: the fewest globs that match just these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from partir.ir.core import Program
from partir.partition.patterns import matcher

T = TypeVar("T")

_MOST_CHECKED = 400  # patterns that are tried for one wish


def as_patterns(wishes: Mapping[str, T], names: Sequence[str]) -> dict[str, T]:
    """Wishes for names as wishes for patterns, each matching no name but its own.

    Example:
        >>> names = ["p/layer_0/w", "p/layer_1/w", "p/layer_0/b", "x"]
        >>> as_patterns({"p/layer_0/w": 1, "p/layer_1/w": 1, "x": 0}, names)
        {'p/*/w': 1, 'x': 0}
    """
    groups: dict[T, list[str]] = {}
    for name, wish in wishes.items():
        groups.setdefault(wish, []).append(name)
    patterns: dict[str, T] = {}
    for wish, those in groups.items():
        for pattern in _cover(those, names):
            patterns[pattern] = wish
    return patterns


def _cover(wanted: list[str], names: Sequence[str]) -> Iterator[str]:
    """Patterns that match all of these and nothing else, the widest first."""
    left = dict.fromkeys(wanted)
    exact = []
    candidates = dict.fromkeys(p for name in wanted for p in _wider(name))
    for pattern in list(candidates)[:_MOST_CHECKED]:
        matched = _matched(pattern, names)
        if matched and matched <= left.keys():
            exact.append((pattern, matched))
    exact.sort(key=lambda one: (-len(one[1]), one[0].count("**"), len(one[0])))
    for pattern, matched in exact:
        if len(matched) > 1 and not matched.isdisjoint(left):
            yield pattern
            for name in matched:
                left.pop(name, None)
    yield from left


def _matched(pattern: str, names: Sequence[str]) -> set[str]:
    expression = matcher(pattern)
    return {name for name in names if expression.fullmatch(name)}


def _wider(name: str) -> Iterator[str]:
    """Patterns that match a name, with numbers and leading parts left open."""
    sign, parts = name[:1] == "%", name.removeprefix("%").split("/")
    open_ = ["*" if re.search(r"\d", part) else part for part in parts]
    numbers = [re.sub(r"\d+", "*", part) for part in parts]
    variants: Iterable[list[str]] = (open_, numbers, parts)
    mark = "%" if sign else ""
    for variant in variants:
        if variant != parts:
            yield mark + "/".join(variant)
    for keep in range(1, len(parts)):
        for variant in variants:
            tail = "/".join(variant[-keep:])
            yield f"{mark}**/{tail}"
            if parts[0] != tail:
                yield f"{mark}{parts[0]}/**/{tail}"
    if len(parts) > 1:
        yield f"{mark}{parts[0]}/**"


# Ops


@dataclass(frozen=True, slots=True)
class LoopPattern:
    """Ops that one pattern matches, and the factor that all of them get."""

    pattern: str
    factor: int
    ops: tuple[int, ...]


def loop_patterns(program: Program, loops: Mapping[int, int]) -> list[LoopPattern]:
    """Loops of ops by patterns of their addresses, numbers as ``{first..last..step}``.

    The order of ops matters to propagation: it is that of this list.
    """
    groups: dict[tuple[str, int], dict[int, int]] = {}
    alone = []
    for op, factor in loops.items():
        address = program.addresses[program.ops[op].results[0]]
        stem, _, number = address.rpartition("/")
        if number.isdecimal():
            groups.setdefault((stem, factor), {})[int(number)] = op
        else:
            alone.append(LoopPattern(address, factor, (op,)))
    patterns = []
    for (stem, factor), ops in groups.items():
        whole = len(ops) == program.address_counts[stem]
        runs = [sorted(ops)] if whole else list(_progressions(set(ops)))
        for run in runs:
            numbers = "*" if whole else _range_text(run)
            members = tuple(ops[number] for number in run)
            patterns.append(LoopPattern(f"{stem}/{numbers}", factor, members))
    return [*patterns, *alone]


def _progressions(numbers: set[int]) -> Iterator[list[int]]:
    """Numbers at equal distances, the longest that begin with the least first."""
    left = set(numbers)
    while left:
        first = min(left)
        best = [first]
        for second in sorted(left - {first})[:_MOST_STEPS]:
            step, run = second - first, [first]
            while run[-1] + step in left:
                run.append(run[-1] + step)
            best = max(best, run, key=len)
        yield best
        left -= set(best)


def _range_text(run: Sequence[int]) -> str:
    if len(run) == 1:
        return str(run[0])
    step = run[1] - run[0]
    return f"{{{run[0]}..{run[-1]}" + (f"..{step}}}" if step > 1 else "}")


_MOST_STEPS = 64  # distances that are tried
