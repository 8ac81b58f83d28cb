"""Error types. A message says what was asked, of which value, why not, what would."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PartirError(Exception):
    """Base class of every error that partir raises on purpose."""


class PartitionError(PartirError):
    """A user's mistake: a schedule, mesh, pattern or argument that can't be used."""


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
