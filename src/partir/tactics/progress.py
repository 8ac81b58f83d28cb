"""How far a search is: one live line on a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.status import Status

from partir.search.methods.best import Listener, Progress
from partir.search.methods.budget import Budget

AFTER = 2.0  # seconds of a search before anything is shown
_EVERY = {"terminal": 0.1, "notebook": 0.5}  # seconds between two changes of the line


class Line(Protocol):
    """A line that can be changed."""

    every: float

    def show(self, text: str) -> None:
        """Change it."""
        ...

    def close(self) -> None:
        """Leave it."""
        ...


class TerminalLine:
    """A spinner with a line beside it, gone when the search is over."""

    every = _EVERY["terminal"]

    def __init__(self, console: Console) -> None:
        """Nothing is shown yet."""
        self._console = console
        self._status: Status | None = None

    def show(self, text: str) -> None:
        """Start the spinner, or change its text."""
        if self._status is None:
            self._status = self._console.status(text)
            self._status.start()
        self._status.update(text)

    def close(self) -> None:
        """Take it away."""
        if self._status is not None:
            self._status.stop()


class NotebookLine:
    """A line of the cell's output that is written over; the last one stays."""

    every = _EVERY["notebook"]

    def __init__(self, out: TextIO) -> None:
        """Nothing is written yet."""
        self._out, self._width = out, 0

    def show(self, text: str) -> None:
        """Write over what was there."""
        self._out.write("\r" + text.ljust(self._width))
        self._out.flush()
        self._width = len(text)

    def close(self) -> None:
        """End the line."""
        if self._width:
            self._out.write("\n")
            self._out.flush()


def _line() -> Line | None:
    """Where somebody would see it; else nowhere."""
    if in_notebook():
        return NotebookLine(sys.stdout)
    console = Console(stderr=True)
    seen = console.is_terminal and sys.stderr.isatty()
    return TerminalLine(console) if seen else None


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel; IPython is not imported for it."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def live_progress(budget: Budget) -> Iterator[Listener | None]:
    """A listener that keeps one line up to date; None where nobody would see it.

    Searches that are done within two seconds show nothing.
    """
    line = _line()
    if line is None:
        yield None
        return
    last = time.monotonic() + AFTER - line.every

    def told(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= line.every:
            last = now
            line.show(progress_text(progress, budget))

    try:
        yield told
    finally:
        line.close()


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
