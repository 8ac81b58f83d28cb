"""Snapshots: what a partition was, as data in a file, and how it has moved since."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partir.errors import PartitionError
from partir.explain.ask import explain
from partir.explain.compare import figures, layouts, listed, shown, traits
from partir.explain.evidence import ExplainedStep
from partir.explain.listing import CollectiveUse, collective_list
from partir.explain.pairing import Traits, unpaired
from partir.explain.tallies import source_line
from partir.files import write_whole

_FORMAT = "partir snapshot 1"
_ESTIMATED = ("seconds", "peak_bytes", "work")
_SAME = 0.01  # of estimates and of work: less is no change


@dataclass(frozen=True)
class Moved:
    """What has moved since a snapshot: lines to read."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        """All lines."""
        return "\n".join(self.lines)


def write_snapshot(steps: Sequence[ExplainedStep], path: Path) -> None:
    """Keep what a partition is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(_taken(steps), indent=1) + "\n")


def moved_since(steps: Sequence[ExplainedStep], path: Path) -> Moved | None:
    """What has moved since the snapshot; None if nothing has."""
    before, now = _read(path), _taken(steps)
    uses = collective_list(steps)
    lines = _figure_lines(before["figures"], now["figures"])
    lines += _layout_lines(before["layouts"], now["layouts"])
    lost, gained = _moved_collectives(before["collectives"], uses)
    were = [f"{one['kind']} of {one['value']} ({one['line']})" for one in lost]
    lines += [*listed("lost", were), *listed("gained", list(map(str, gained)))]
    if gained:
        largest = max(gained, key=lambda use: use.bytes)
        lines += str(explain(steps, largest.id)).splitlines()
    return Moved(tuple(lines)) if lines else None


def _taken(steps: Sequence[ExplainedStep]) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "layouts": layouts(steps[-1]),
        "figures": figures(steps[-1]),
        "collectives": [_kept(use) for use in collective_list(steps)],
    }


def _kept(use: CollectiveUse) -> dict[str, Any]:
    return {
        "kind": use.kind,
        "axes": list(use.axes),
        "value": use.value,
        "bytes": use.bytes,
        "cause": use.cause,
        "line": source_line(use.source),
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        if data["format"] != _FORMAT:
            raise ValueError("its format is another one")
        return {name: data[name] for name in ("layouts", "figures", "collectives")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PartitionError(
            f"{path} can't be read as a snapshot ({error}); take it again with "
            "--partir-update"
        ) from None


def _figure_lines(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {shown(name, before[name])} -> {shown(name, now[name])}"
        for name in now
        if name in before and not _is_same(name, before[name], now[name])
    ]


def _is_same(name: str, before: float, now: float) -> bool:
    if name in _ESTIMATED:
        return math.isclose(before, now, rel_tol=_SAME)
    return before == now


def _layout_lines(before: dict[str, str], now: dict[str, str]) -> list[str]:
    names = {**before, **now}
    return [
        f"layout: {name}: {_layout(before, name)} -> {_layout(now, name)}"
        for name in names
        if before.get(name) != now.get(name)
    ]


def _layout(known: dict[str, str], name: str) -> str:
    return (known[name] or "whole") if name in known else "not there"


def _moved_collectives(
    before: list[dict[str, Any]], uses: Sequence[CollectiveUse]
) -> tuple[list[dict[str, Any]], list[CollectiveUse]]:
    """Those that are no more, and those that are new; lines and numbers may shift."""
    known = [
        Traits(o["kind"], tuple(o["axes"]), o["value"], o["bytes"], o["cause"])
        for o in before
    ]
    left, right = unpaired(known, [traits(use) for use in uses])
    return [before[place] for place in left], [uses[place] for place in right]
