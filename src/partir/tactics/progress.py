"""How far a search is, as one live line on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from partir.search.methods.best import Listener, Progress
from partir.search.methods.budget import Budget

_EVERY = 0.1  # seconds between two changes of the line


@contextmanager
def live_progress(budget: Budget) -> Iterator[Listener | None]:
    """A listener that keeps one line up to date; None where nobody would see it."""
    console = Console(stderr=True)
    if not console.is_terminal or not sys.stderr.isatty():
        yield None
        return
    with console.status("searching") as status:
        last = 0.0

        def show(progress: Progress) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= _EVERY:
                last = now
                status.update(progress_text(progress, budget))

        yield show


def progress_text(progress: Progress, budget: Budget) -> str:
    """Best time and memory so far, evaluations and their rate."""
    rate = progress.evaluations / max(progress.seconds, 1e-9)
    best = progress.best
    fits = "" if best.fits else " (does not fit yet)"
    of = f" of {budget.evaluations}" if budget.evaluations is not None else ""
    until = f" of {budget.seconds:g} s" if budget.seconds is not None else " s"
    return (
        f"searching: best {best.seconds * 1e3:.4g} ms, {best.peak_bytes / 1e9:.3g} GB"
        f"{fits}; {progress.evaluations}{of} evaluations, {rate:.0f} per second; "
        f"{progress.seconds:.0f}{until}"
    )
