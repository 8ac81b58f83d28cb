"""Programs are many small objects without cycles: collecting among them is waste."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def collection_paused(function: Callable[P, R]) -> Callable[P, R]:
    """While the function runs, the cyclic garbage collector doesn't.

    What it made counts as old then: the collector would visit all of it at once.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not gc.isenabled():
            return function(*args, **kwargs)
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            _ages.grow_old()
            gc.enable()

    return run


class _Ages:
    """Moves young objects to the oldest generation, where full collections find them.

    The collector does not count those that come so, and would wait too long: after
    a million of them, until it has seen to them all, they grow old in its own way.
    """

    MOST = 1_000_000

    def __init__(self) -> None:
        self.moved, self.collections = 0, 0

    def grow_old(self) -> None:
        """All objects at once, unless somebody keeps some of them frozen."""
        collections = gc.get_stats()[2]["collections"]
        if collections != self.collections:
            self.moved, self.collections = 0, collections
        young = gc.get_count()[0]
        if self.moved + young > self.MOST or gc.get_freeze_count():
            return
        self.moved += young
        gc.freeze()
        gc.unfreeze()


_ages = _Ages()
