"""Bytes that a device sends, read off a compiled program's text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache

_WIDTHS = {
    "pred": 1,
    **dict.fromkeys(("s8", "u8"), 1),
    **dict.fromkeys(("s16", "u16", "bf16", "f16"), 2),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 8),
    "c128": 16,
}
_HEAD = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
_COLLECTIVE = re.compile(
    r"= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)\("
)
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
_CALLER = re.compile(r" (while|call|conditional)\(")
_CALLED = re.compile(
    r"(?:body|to_apply|(?:true|false)_computation)=%?([\w.\-]+)"
    r"|branch_computations=\{([^}]*)\}"
)
_TRIPS = re.compile(r"known_trip_count[^0-9]*(\d+)")
_GROUPS = re.compile(r"replica_groups=(?:\[\d+,(\d+)\]|\{\{([\d,]+)\})")


def bytes_sent(text: str, devices: int) -> int:
    """By one device, collectives being rings and loops multiplied by their length.

    Of the branches of a conditional, the dearest counts.
    """
    entry, bodies = _computations(text)

    @cache
    def sent(name: str) -> int:
        total = 0
        for line in bodies[name]:
            total += _collective_bytes(line, devices)
            if caller := _CALLER.search(line):
                inner = [sent(called) for called in _called(line)]
                trips = _TRIPS.search(line) if caller[1] == "while" else None
                total += int(trips[1] if trips else 1) * max(inner, default=0)
        return total

    return sent(entry)


def _computations(text: str) -> tuple[str, dict[str, list[str]]]:
    entry, current = "", ""
    bodies: dict[str, list[str]] = {}
    for line in text.splitlines():
        if head := _HEAD.match(line):
            current = head[2]
            bodies[current] = []
            entry = current if head[1] else entry
        elif current:
            bodies[current].append(line)
    return entry, bodies


def _called(line: str) -> Iterator[str]:
    for found in _CALLED.finditer(line):
        for name in (found[1] or found[2]).split(","):
            yield name.strip(" %")


def _collective_bytes(line: str, devices: int) -> int:
    found = _COLLECTIVE.search(line)
    if not found:
        return 0
    size = sum(
        _WIDTHS.get(kind, 4) * math.prod(int(n) for n in sizes.split(",") if n)
        for kind, sizes in _ARRAY.findall(found[1])
    )
    groups = _GROUPS.search(line)
    count = devices
    if groups:
        count = int(groups[1]) if groups[1] else len(groups[2].split(","))
    others = count - 1
    return {
        "all-gather": size * others // count,
        "all-reduce": 2 * size * others // count,
        "reduce-scatter": size * others,
        "all-to-all": size * others // count,
        "collective-permute": size,
    }[found[2]]
