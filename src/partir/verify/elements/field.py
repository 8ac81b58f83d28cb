"""Numbers at a point that nobody knows: the value of a polynomial says which it is."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Hashable
from fractions import Fraction

_BITS, _ROUNDS = 127, 24


def _is_prime(number: int) -> bool:
    """By Miller and Rabin; what is not is taken for one with a chance of 4**-24."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(_ROUNDS):
        power = pow(2 + secrets.randbelow(number - 3), odd, number)
        seen = [power] + [power := power * power % number for _ in range(twos - 1)]
        if seen[0] != 1 and number - 1 not in seen:
            return False
    return True


def _drawn() -> int:
    """A prime that nobody knows."""
    while True:
        number = secrets.randbits(_BITS) | 1 << (_BITS - 1) | 1
        if _is_prime(number):
            return number


# A number that programs spell, or a product of several, must not happen to be another
# one here. With 2**127 - 1, the least normal f32 would be two.
_SIGNED, _UNSIGNED = _drawn(), _drawn()
MODULUS = _SIGNED * _UNSIGNED

# What a float is multiplied by for its negative: minus one in the first of both fields,
# and one in the second. There, x - x is not zero: it is nan if x is infinite.
MINUS = (1 - 2 * _UNSIGNED * pow(_UNSIGNED, -1, _SIGNED)) % MODULUS


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
            data = hashlib.blake2b(repr(key).encode(), key=self._seed, digest_size=64)
            found = int.from_bytes(data.digest(), "little") % MODULUS
            self._known[key] = found
        return found


def of_fraction(number: Fraction) -> int:
    """A number that is known."""
    top, bottom = number.numerator % MODULUS, number.denominator
    return top if bottom == 1 else top * pow(bottom, -1, MODULUS) % MODULUS
