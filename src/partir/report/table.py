"""The per-tactic table, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from partir.mesh import Mesh


class StepLike(Protocol):
    """What the table shows of a step."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def collectives(self) -> dict[str, int]: ...  # noqa: D102

    @property
    def bytes_communicated(self) -> int: ...  # noqa: D102

    @property
    def conflicts(self) -> Sequence[object]: ...  # noqa: D102


_HEAD = {
    "all_gather": "all_gather",
    "all_reduce": "all_reduce",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "collective_permute": "permute",
}


def steps_table(name: str, mesh: Mesh, steps: Sequence[StepLike]) -> str:
    """A row per tactic: collectives on one device, bytes sent, conflicts left."""
    head = ["after tactic", *_HEAD.values(), "sent/device", "conflicts"]
    rows = [head]
    for step in steps:
        counts = step.collectives
        rows.append(
            [
                step.name,
                *(str(counts[kind]) for kind in _HEAD),
                bytes_text(step.bytes_communicated),
                str(len(step.conflicts)),
            ]
        )
    title = f"{name} on {mesh} ({mesh.size} devices)"
    return "\n".join([title, *_aligned(rows)])


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def bytes_text(count: int) -> str:
    """Bytes for people.

    >>> bytes_text(0), bytes_text(1536), bytes_text(5 * 2**30)
    ('0 B', '1.5 KiB', '5.0 GiB')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError
