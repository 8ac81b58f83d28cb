"""`XlaProgram`: what XLA made of a partition, beside what it was given."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from partir.columns import aligned, bytes_text, html_page, html_table

_KINDS = "all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute"
_HEADER = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_OP = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = .*? ([a-z][\w-]*)\((.*)$")
_COLLECTIVE = re.compile(rf"({_KINDS})(?:-start)?")
_CHANNEL = re.compile(r"channel_id=(\d+)")
_CALLED = re.compile(
    r"(?:calls|to_apply|called_computations|body|condition|branch_computations)="
    r"(?:\{([^}]*)\}|(%?[\w.-]+))"
)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


@dataclass(frozen=True)
class XlaProgram:
    """What XLA runs for a partition on the devices that it was compiled for.

    `collectives` are executed counts by kind after XLA's passes, which combine small
    ones; `ours` are those of the partition. Bytes are of one device. `estimated` has
    the simulator's figures of the same names, if the partition has a device.

    On TPUs `temporary_bytes` is an upper bound: the compiler counts what is lost
    between temporaries twice.
    """

    platform: str
    collectives: dict[str, int]
    ours: dict[str, int]
    argument_bytes: int
    result_bytes: int
    temporary_bytes: int
    flops: float
    estimated: dict[str, float] = field(default_factory=dict)

    @property
    def added(self) -> dict[str, int]:
        """Collectives that XLA runs more of than it was given."""
        return {
            kind: count - self.ours.get(kind, 0)
            for kind, count in self.collectives.items()
            if count > self.ours.get(kind, 0)
        }

    def to_json(self) -> dict[str, Any]:
        """As data."""
        return {
            "platform": self.platform,
            "collectives": self.collectives,
            "ours": self.ours,
            "added": self.added,
            "argument_bytes": self.argument_bytes,
            "result_bytes": self.result_bytes,
            "temporary_bytes": self.temporary_bytes,
            "flops": self.flops,
            "estimated": self.estimated,
        }

    def __str__(self) -> str:
        """A row for each figure."""
        return "\n".join(aligned(self._rows))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return html_page(f"what XLA runs on {self.platform}", [html_table(self._rows)])

    @property
    def _rows(self) -> list[list[str]]:
        kinds = [k for k in self.ours if self.ours[k] or self.collectives.get(k)]
        rows = [["", "partition", f"XLA on {self.platform}"]]
        rows += [
            [kind, str(self.ours[kind]), str(self.collectives.get(kind, 0))]
            for kind in kinds
        ]
        for name in ("argument_bytes", "result_bytes", "temporary_bytes"):
            bound = "up to " * (name == "temporary_bytes" and self.platform == "tpu")
            said = bound + bytes_text(getattr(self, name))
            rows.append([name, self._estimated(name), said])
        ours = f"{self.estimated['flops']:.4g}" if self.estimated else "-"
        return [*rows, ["flops", ours, f"{self.flops:.4g}"]]

    def _estimated(self, name: str) -> str:
        return bytes_text(int(self.estimated[name])) if self.estimated else "-"


def xla_program(
    executable: Any,
    platform: str,
    ours: Mapping[str, int],
    estimated: Mapping[str, float],
) -> XlaProgram:
    """Read off jax's compiled computation what there is to know."""
    memory, cost = executable.memory_analysis(), executable.cost_analysis()
    results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    names = ("argument_bytes", "result_bytes", "temporary_bytes", "flops")
    return XlaProgram(
        platform,
        executed_collectives(executable.as_text()),
        dict(ours),
        memory.argument_size_in_bytes,
        results,
        memory.temp_size_in_bytes,
        cost.get("flops", 0.0),
        {name: estimated[name] for name in names} if estimated else {},
    )


def executed_collectives(text: str) -> dict[str, int]:
    """Counts by kind in a compiled program's text; loops of known length multiply.

    An asynchronous collective is printed several times, with one channel. A variadic
    one counts once, as XLA runs it.
    """
    bodies, entry = _computations(text)
    found: dict[str, tuple[str, int]] = {}
    for name, kind, rest, times in _run(bodies, entry, 1):
        if collective := _COLLECTIVE.fullmatch(kind):
            channel = _CHANNEL.search(rest)
            key = channel[1] if channel else name
            found.setdefault(key, (collective[1].replace("-", "_"), times))
    counts: Counter[str] = Counter()
    for kind, times in found.values():
        counts[kind] += times
    return dict(sorted(counts.items()))


_Bodies = dict[str, list[tuple[str, str, str]]]


def _computations(text: str) -> tuple[_Bodies, str]:
    bodies: _Bodies = {}
    entry, ops = "", []
    for line in text.splitlines():
        if header := _HEADER.match(line):
            ops = bodies[header[2]] = []
            entry = header[2] if header[1] else entry
        elif op := _OP.match(line):
            ops.append((op[1], op[2], op[3]))
    return bodies, entry


def _run(bodies: _Bodies, name: str, times: int) -> Iterator[tuple[str, str, str, int]]:
    """Every op that is run, with how often."""
    for op, kind, rest in bodies.get(name, ()):
        yield op, kind, rest, times
        trips = _TRIPS.search(rest) if kind == "while" else None
        inside = times * int(trips[1]) if trips else times
        for several, one in _CALLED.findall(rest):
            for called in re.findall(r"[\w.-]+", several or one):
                yield from _run(bodies, called, inside)
