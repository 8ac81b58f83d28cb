"""Error types. A message says what was asked, of which value, why not, what would."""

from __future__ import annotations

import difflib
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path


class PartirError(Exception):
    """Base class of every error that partir raises on purpose."""


class PartitionError(PartirError):
    """A user's mistake: a schedule, mesh, pattern or argument that can't be used."""


class VerificationError(PartirError):
    """A device-local program that is not proved to compute what its source does."""


class NotProvedWarning(UserWarning):
    """A device-local program that runs without having been proved."""


class NotFinite(PartirError, FloatingPointError):
    """A nan or inf that jax was told to look for."""


def user_line(error: BaseException) -> str | None:
    """Last line of an error's traceback that is in no installed package, if any."""
    installed = ("site-packages", str(Path(__file__).parent), sys.prefix, "<")
    lines = [
        f"{frame.filename}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not any(part in frame.filename for part in installed)
        and not frame.filename.startswith(sys.base_prefix)
    ]
    return lines[-1] if lines else None


def nearest(name: str, known: Iterable[str], count: int = 5) -> str:
    """Phrase that lists the known names closest to `name`, for error messages.

    >>> nearest("params/w", ["params/w1", "params/w2", "x"])
    'params/w1, params/w2'
    """
    known = list(known)
    close = sorted(difflib.get_close_matches(name, known, n=count, cutoff=0.4))
    chosen = close or known[:count]
    more = "" if close or len(known) <= count else f", … ({len(known)} in all)"
    return ", ".join(chosen) + more if chosen else "(none)"
