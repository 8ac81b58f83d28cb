"""`later` and `for_each`: stages that are made when they are first read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Generic, TypeVar

from partir.ir.garbage import collection_paused

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


class Later(Generic[T]):
    """A value that the first call makes. It then lets go of what it is made of."""

    def __init__(self, make: Callable[[], T]) -> None:
        """Nothing is made yet."""
        self._make: Callable[[], T] | None = make
        self._value: T

    @collection_paused
    def __call__(self) -> T:
        """The value; if making it raises, so does every call."""
        make = self._make  # another thread may be done with it in between
        if make is not None:
            self._value = make()
            self._make = None
        return self._value


def later(stage: Callable[[A], T], before: A | Later[A]) -> Later[T]:
    """A stage of what the one before gives, which may be made later itself."""
    return Later(lambda: stage(before() if isinstance(before, Later) else before))


def for_each(stage: Callable[[A, B], T], before: Later[A]) -> Callable[[B], T]:
    """A stage of what the one before gives and of something else; once for each."""

    @functools.cache
    @collection_paused
    def made(other: B) -> T:
        return stage(before(), other)

    return made
