"""`Interned`: one object for each key, for as long as somebody has it."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Interned(Generic[V]):
    """Objects by what they are made of; those that nobody has any more are dropped.

    The last few stay, so that what comes again soon is found with all that is kept
    about it. No locks: a process that forks while a thread holds one would hang.
    """

    def __init__(self, recent: int) -> None:
        """Empty; `recent` is how many objects stay although nobody has them."""
        self._known: dict[Hashable, weakref.KeyedRef[Hashable, V]] = {}
        self._recent: deque[V] = deque(maxlen=recent)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._known)

    def get(self, key: Hashable) -> V | None:
        """The object of a key, if there is one."""
        found = self._known.get(key)
        return None if found is None else found()

    def add(self, key: Hashable, made: V, keep: bool = True) -> V:
        """Put an object in; if another thread was faster, the answer is its object."""
        mine = weakref.KeyedRef(made, self._forget, key)
        while (there := self._known.setdefault(key, mine)()) is None:
            self._known.pop(key, None)
        if keep and there is made:
            self._recent.append(made)
        return there

    def all(self) -> tuple[V, ...]:
        """All objects that there are."""
        found = [ref() for ref in list(self._known.values())]
        return tuple(one for one in found if one is not None)

    def _forget(self, ref: weakref.KeyedRef[Hashable, V]) -> None:
        if self._known.get(ref.key) is ref:
            self._known.pop(ref.key, None)
