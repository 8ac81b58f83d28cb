"""Numbers at a point that nobody knows: the value of a polynomial says which it is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable
from fractions import Fraction

PRIME = (1 << 127) - 1


class Point:
    """Where polynomials are looked at: each unknown has a number of its own there."""

    def __init__(self, seed: bytes | None = None) -> None:
        """Drawn at random, unless a seed is given."""
        self._seed = os.urandom(32) if seed is None else seed
        self._known: dict[Hashable, int] = {}

    def unknown(self, *key: Hashable) -> int:
        """The number of what is known by its key alone."""
        found = self._known.get(key)
        if found is None:
            data = hashlib.blake2b(repr(key).encode(), key=self._seed, digest_size=32)
            found = int.from_bytes(data.digest(), "little") % PRIME
            self._known[key] = found
        return found


def of_fraction(number: Fraction) -> int:
    """A number that is known."""
    top, bottom = number.numerator % PRIME, number.denominator
    return top if bottom == 1 else top * pow(bottom, -1, PRIME) % PRIME
