"""The per-tactic table, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from partir.columns import aligned, bytes_text, html_page, html_table, seconds_text
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
    name: str,
    mesh: Mesh,
    steps: Sequence[ShownStep],
    device: str | None = None,
    width: int | None = None,
) -> str:
    """A row per tactic: collectives on one device, bytes sent, work, conflicts left.

    With a device, a second table follows: time and memory after each tactic.
    """
    lines = [_title(name, mesh), *aligned(_counts(steps), width)]
    if device is not None:
        lines += ["", *aligned(_estimates(steps, device), width)]
    return "\n".join(lines)


def steps_html(
    name: str, mesh: Mesh, steps: Sequence[ShownStep], device: str | None = None
) -> str:
    """The same for notebooks."""
    parts = [html_table(_counts(steps))]
    if device is not None:
        parts.append(html_table(_estimates(steps, device)))
    return html_page(_title(name, mesh), parts)


def _title(name: str, mesh: Mesh) -> str:
    return f"{name} on {mesh} ({mesh.size} devices)"


def _counts(steps: Sequence[ShownStep]) -> list[list[str]]:
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
    return rows


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
