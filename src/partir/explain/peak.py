"""What is alive at the peak of memory, and who could halve it."""

from __future__ import annotations

from collections.abc import Iterator

from partir.columns import bytes_text
from partir.explain.answer import Explanation
from partir.explain.changes import Changes
from partir.explain.evidence import Evidence
from partir.explain.remedies import for_peak
from partir.explain.trial import Change
from partir.rules.nest import UNDECIDED
from partir.simulate.memory.peak import Alive

PEAK = "peak_bytes"
_MOST = 5  # values that are named


def explain_peak(record: Evidence) -> Explanation:
    """The largest of what is in memory at the peak."""
    estimate = record.estimate
    alive = estimate.alive_at_peak
    parts = {
        "arguments": estimate.argument_bytes,
        "results with memory of their own": estimate.result_bytes,
        "temporaries": estimate.temporary_bytes,
    }
    kinds = ", ".join(f"{bytes_text(n)} of {what}" for what, n in parts.items() if n)
    much = estimate.result_bytes > estimate.peak_bytes / 100
    if much and any(tie.owner is None for tie in record.program.ties):
        kinds += " (donate the arguments that results succeed, and they need none)"
    return Explanation(
        PEAK,
        "memory",
        "memory",
        f"{bytes_text(estimate.peak_bytes)} on {record.device.name}: {kinds}; the "
        f"largest are {', '.join(map(_shown, alive[:_MOST]))}",
        find=lambda: for_peak(record, _changes(record, alive)),
    )


def _shown(one: Alive) -> str:
    return f"{one.name} ({bytes_text(one.bytes)})"


def _changes(record: Evidence, alive: tuple[Alive, ...]) -> Iterator[Change]:
    """Tilings of what is large and whole: trees of arguments, then values."""
    changes, known = Changes(record), {n: v for n, v, _ in record.names.arguments}
    large = [(one.name, known[one.name]) for one in alive if one.name in known]
    for axis in record.axes:
        homes = record.step.state.homes[axis]
        whole = [(name, v) for name, v in large if homes[v] == UNDECIDED]
        for stem in dict.fromkeys(name.partition("/")[0] for name, _ in whole):
            if any(name != stem for name, _ in whole if name.startswith(stem)):
                yield from changes.of_tree(axis, f"{stem}/**")
        for _, value in whole[:2]:
            yield from changes.of_value(axis, value)
