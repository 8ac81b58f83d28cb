"""Patterns over names: globs by parts, regular expressions, optional ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from partir.errors import PartitionError


@dataclass(frozen=True, slots=True)
class Optional:
    """A pattern that may match nothing; made by `optional`."""

    pattern: str | re.Pattern[str]

    def __str__(self) -> str:
        """As it was written."""
        return f"optional({pattern_text(self.pattern)!r})"


T = TypeVar("T")
Pattern: TypeAlias = str | re.Pattern[str] | Optional
ByPattern: TypeAlias = Mapping[Any, T]
"""`Pattern`s with what a tactic says of names that match.

Mappings are invariant in their keys: typed as patterns, a dict[str, int] would not do.
"""


def optional(pattern: str | re.Pattern[str]) -> Optional:
    """A pattern that is not an error where it matches nothing.

    With it one schedule serves training, evaluation and decoding.

    Example:
        >>> str(optional("opt_state/**"))
        "optional('opt_state/**')"
    """
    if not isinstance(pattern, (str, re.Pattern)):
        raise PartitionError(
            f"optional() takes a pattern (text or re.Pattern), got {pattern!r}"
        )
    return Optional(pattern)


def pattern_text(pattern: Pattern) -> str:
    """The pattern as the user wrote it."""
    if isinstance(pattern, Optional):
        return pattern_text(pattern.pattern)
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        return pattern.pattern
    if not isinstance(pattern, str):
        raise PartitionError(
            f"a pattern is text, a re.Pattern or partir.optional(...), got {pattern!r}"
        )
    return pattern


def matcher(pattern: Pattern) -> re.Pattern[str]:
    """Regular expression of a pattern, to be `fullmatch`ed.

    >>> bool(matcher("params/*/w").fullmatch("params/layer_0/w"))
    True
    >>> bool(matcher("params/**").fullmatch("params"))
    True
    >>> bool(matcher("params/*").fullmatch("params/a/b"))
    False
    >>> bool(matcher("%**/add/0").fullmatch("%step/loss/add/0"))
    True
    >>> [n for n in range(9) if matcher("%f/add/{1..7..3}").fullmatch(f"%f/add/{n}")]
    [1, 4, 7]
    """
    text = pattern_text(pattern)
    if isinstance(pattern, Optional):
        pattern = pattern.pattern
    return pattern if isinstance(pattern, re.Pattern) else _glob(text)


_MOST = 100_000
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)(?:\.\.(\d+))?\}")


def _inside(part: str) -> str:
    """One part of a name: stars, and ranges ``{first..last..step}`` of numbers."""
    text, place = "", 0
    for found in _RANGE.finditer(part):
        numbers = _numbers(*(int(group or 1) for group in found.groups()))
        text += _stars(part[place : found.start()])
        text += f"(?:{'|'.join(map(str, numbers))})"
        place = found.end()
    return text + _stars(part[place:])


def _numbers(first: int, last: int, step: int) -> range:
    if step < 1 or not first <= last <= first + _MOST * step:
        raise PartitionError(
            "a range in a pattern is {first..last} or {first..last..step}, upwards "
            f"and of at most {_MOST} numbers, got {{{first}..{last}..{step}}}"
        )
    return range(first, last + 1, step)


def _stars(text: str) -> str:
    return "[^/]*".join(map(re.escape, text.split("*")))


@lru_cache(maxsize=4096)
def _glob(pattern: str) -> re.Pattern[str]:
    if pattern.startswith("%"):  # an address: its parts begin behind the sign
        return re.compile("%" + _glob(pattern[1:]).pattern)
    text = ""
    for number, part in enumerate(pattern.split("/")):
        slash = "/" if number else ""
        if part == "**":
            text += f"(?:{slash}[^/]+)*" if number else "(?:[^/]+(?:/[^/]+)*)?"
        else:
            text += re.escape(slash) + _inside(part)
    if pattern.startswith("**/"):
        rest = _glob(pattern[3:]).pattern
        text = f"(?:[^/]+/)*{rest}"
    return re.compile(text)
