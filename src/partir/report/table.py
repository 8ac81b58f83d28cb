"""The per-tactic table, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from partir.mesh import Mesh


class ShownStep(Protocol):
    """What the table shows of a step."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def collectives(self) -> dict[str, int]: ...  # noqa: D102

    @property
    def bytes_communicated(self) -> int: ...  # noqa: D102

    @property
    def work(self) -> float: ...  # noqa: D102

    @property
    def conflicts(self) -> Sequence[object]: ...  # noqa: D102

    @property
    def estimate(self) -> Any: ...  # noqa: D102


_HEAD = {
    "all_gather": "all_gather",
    "all_reduce": "all_reduce",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "collective_permute": "permute",
}


def steps_table(
    name: str, mesh: Mesh, steps: Sequence[ShownStep], device: str | None = None
) -> str:
    """A row per tactic: collectives on one device, bytes sent, work, conflicts left.

    With a device, a second table follows: time and memory after each tactic.
    """
    head = ["after tactic", *_HEAD.values(), "sent/device", "work", "conflicts"]
    rows = [head]
    for step in steps:
        counts = step.collectives
        rows.append(
            [
                step.name,
                *(str(counts[kind]) for kind in _HEAD),
                bytes_text(step.bytes_communicated),
                f"{step.work:.2f}",
                str(len(step.conflicts)),
            ]
        )
    title = f"{name} on {mesh} ({mesh.size} devices)"
    lines = [title, *aligned(rows)]
    if device is not None:
        lines += ["", *aligned(_estimates(steps, device))]
    return "\n".join(lines)


def _estimates(steps: Sequence[ShownStep], device: str) -> list[list[str]]:
    """Time and memory, and how each changed since the tactic before."""
    rows = [
        [
            f"on {device}",
            *("step time", "change", "compute", "communication"),
            *("peak memory", "change", "fits", "MFU"),
        ]
    ]
    before = None
    for step in steps:
        estimate = step.estimate
        rows.append(
            [
                step.name,
                seconds_text(estimate.seconds),
                _change(before and before.seconds, estimate.seconds),
                seconds_text(estimate.compute_seconds),
                seconds_text(estimate.communication_seconds),
                bytes_text(estimate.peak_bytes),
                _change(before and before.peak_bytes, estimate.peak_bytes),
                "yes" if estimate.fits else "no",
                f"{estimate.mfu:.1%}",
            ]
        )
        before = estimate
    return rows


def _change(before: float | None, now: float) -> str:
    return f"{now / before - 1:+.1%}" if before else "-"


def seconds_text(seconds: float) -> str:
    """Seconds for people.

    >>> seconds_text(0.0), seconds_text(2.5e-5), seconds_text(0.25), seconds_text(90)
    ('0 s', '25.0 µs', '250.0 ms', '90.00 s')
    """
    if not seconds:
        return "0 s"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def aligned(rows: list[list[str]]) -> list[str]:
    """Rows padded to columns, a rule below the first."""
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
