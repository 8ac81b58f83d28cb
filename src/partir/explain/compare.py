"""`Difference`: two partitions side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from partir.columns import aligned, bytes_text, seconds_text
from partir.explain.evidence import ExplainedStep
from partir.explain.listing import CollectiveUse, collective_list
from partir.explain.pairing import Traits, unpaired
from partir.ir.garbage import collection_paused
from partir.spmd.printer import tiling_text

_MOST = 12  # lines of each kind that are printed


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """An argument or result and its layout in each; None where it does not exist."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Difference:
    """What differs between two partitions.

    `figures` are pairs by name: collectives by kind, ``bytes_communicated``, ``work``
    and, where both have a device, ``seconds`` and ``peak_bytes``.
    """

    layouts: tuple[LayoutChange, ...]
    lost: tuple[CollectiveUse, ...]
    gained: tuple[CollectiveUse, ...]
    figures: dict[str, tuple[float, float]]

    def __bool__(self) -> bool:
        """Whether anything differs."""
        moved = any(before != after for before, after in self.figures.values())
        return bool(self.layouts or self.lost or self.gained or moved)

    def to_json(self) -> dict[str, Any]:
        """As data."""
        return {
            "layouts": [
                {"name": one.name, "before": one.before, "after": one.after}
                for one in self.layouts
            ],
            "lost": [use.to_json() for use in self.lost],
            "gained": [use.to_json() for use in self.gained],
            "figures": {name: list(pair) for name, pair in self.figures.items()},
        }

    def __str__(self) -> str:
        """Figures, then layouts, then collectives lost and gained."""
        if not self:
            return "no difference"
        lines = aligned([["figure", "before", "after"], *self._rows()])
        lines += listed("layout", [_layout_line(one) for one in self.layouts])
        lines += listed("lost", list(map(str, self.lost)))
        lines += listed("gained", list(map(str, self.gained)))
        return "\n".join(lines)

    __repr__ = __str__

    def _rows(self) -> list[list[str]]:
        return [
            [name, shown(name, before), shown(name, after)]
            for name, (before, after) in self.figures.items()
            if before or after
        ]


def shown(name: str, value: float) -> str:
    """A figure for people, by its name."""
    if name == "seconds":
        return seconds_text(value)
    if "bytes" in name:
        return bytes_text(int(value))
    return f"{value:.2f}" if name == "work" else str(int(value))


def _layout_line(one: LayoutChange) -> str:
    before, after = (
        "not there" if text is None else text or "whole"
        for text in (one.before, one.after)
    )
    return f"{one.name}: {before} -> {after}"


def listed(label: str, lines: list[str]) -> list[str]:
    """Lines under a label, and how many there are more."""
    made = [f"{label}: {line}" for line in lines[:_MOST]]
    rest = len(lines) - _MOST
    return [*made, f"{label}: … and {rest} more"] if rest > 0 else made


@collection_paused
def difference(a: Sequence[ExplainedStep], b: Sequence[ExplainedStep]) -> Difference:
    """What changes from the first partition to the second."""
    lost, gained = _unmatched(collective_list(a), collective_list(b))
    return Difference(_layouts(a[-1], b[-1]), lost, gained, _figures(a[-1], b[-1]))


def _layouts(a: ExplainedStep, b: ExplainedStep) -> tuple[LayoutChange, ...]:
    before, after = layouts(a), layouts(b)
    return tuple(
        LayoutChange(name, before.get(name), after.get(name))
        for name in before | after
        if before.get(name) != after.get(name)
    )


def layouts(step: ExplainedStep) -> dict[str, str]:
    """Layout of each argument and result, ``{B, _}``; nothing for a whole one."""
    spmd = step.spmd
    ports = [
        *zip(spmd.program.arguments, spmd.in_tilings, strict=True),
        *zip(spmd.program.results, spmd.out_tilings, strict=True),
    ]
    return {port.name: tiling_text(tiling).strip() for port, tiling in ports}


def _figures(a: ExplainedStep, b: ExplainedStep) -> dict[str, tuple[float, float]]:
    before, after = figures(a), figures(b)
    return {name: (before[name], after[name]) for name in before if name in after}


def figures(step: ExplainedStep) -> dict[str, float]:
    """Counts of collectives, bytes, work; with a device, time and memory."""
    found: dict[str, float] = dict(step.spmd.collectives)
    found["bytes_communicated"] = step.spmd.bytes_communicated
    found["work"] = round(step.sharing.work, 6)
    if step.setting.device is not None:
        found["seconds"] = step.estimate.seconds
        found["peak_bytes"] = step.estimate.peak_bytes
    return found


Uses = tuple[CollectiveUse, ...]


def _unmatched(a: Uses, b: Uses) -> tuple[Uses, Uses]:
    """Those that the other has not."""
    left, right = unpaired([traits(use) for use in a], [traits(use) for use in b])
    return tuple(a[place] for place in left), tuple(b[place] for place in right)


def traits(use: CollectiveUse) -> Traits:
    """What a collective is told apart by."""
    return Traits(use.kind, use.axes, use.value, use.bytes, use.cause)
