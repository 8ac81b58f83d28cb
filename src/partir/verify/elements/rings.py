"""Sums and products of formulas, by element type.

A float is a number at the random point. A complex number is two. An integer or truth is
two numbers as well: its polynomial without the constant term, and that term, which is
exact and wraps round as the type does; without the first, the integer is known.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

from partir.verify.elements.field import MODULUS, Point

Plain = Any  # a formula without cases: an int, or a pair of them


class Floats:
    """Real numbers: one at the random point."""

    zero, one = 0, 1

    def add(self, x: int, y: int) -> int:
        """The sum."""
        return (x + y) % MODULUS

    def mul(self, x: int, y: int) -> int:
        """The product."""
        return x * y % MODULUS

    def neg(self, x: int) -> int:
        """The negative."""
        return -x % MODULUS

    def scaled(self, x: int, truth: int) -> int:
        """A number where a truth holds, whose constant term is zero."""
        return x * truth % MODULUS

    def unknown(self, point: Point, *key: Hashable) -> int:
        """What is known by its key alone."""
        return point.unknown(*key)


class Complex:
    """Pairs of real numbers."""

    zero, one = (0, 0), (1, 0)

    def add(self, x: Plain, y: Plain) -> Plain:
        """The sum."""
        return (x[0] + y[0]) % MODULUS, (x[1] + y[1]) % MODULUS

    def mul(self, x: Plain, y: Plain) -> Plain:
        """The product."""
        (a, b), (c, d) = x, y
        return (a * c - b * d) % MODULUS, (a * d + b * c) % MODULUS

    def neg(self, x: Plain) -> Plain:
        """The negative."""
        return -x[0] % MODULUS, -x[1] % MODULUS

    def scaled(self, x: Plain, truth: int) -> Plain:
        """A number where a truth holds, whose constant term is zero."""
        return x[0] * truth % MODULUS, x[1] * truth % MODULUS

    def unknown(self, point: Point, *key: Hashable) -> Plain:
        """What is known by its key alone."""
        return point.unknown("real", *key), point.unknown("imaginary", *key)


class Integers:
    """Integers of so many bits, which wrap round."""

    zero, one = (0, 0), (0, 1)

    def __init__(self, bits: int, signed: bool) -> None:
        """Of a type."""
        self.bits, self.signed, self.count = bits, signed, 1 << bits
        self.one = (0, self.wrapped(1))

    def wrapped(self, number: int) -> int:
        """The number of these bits that is nearest to zero, whatever the type."""
        half = self.count >> 1
        return (number + half) % self.count - half

    def typed(self, number: int) -> int:
        """The number as the type has it."""
        return self.wrapped(number) if self.signed else number % self.count

    def number(self, number: int) -> Plain:
        """A known integer."""
        return 0, self.wrapped(number)

    def known(self, x: Plain) -> int | None:
        """The number as the type has it, if it is known."""
        return None if x[0] else self.typed(x[1])

    def add(self, x: Plain, y: Plain) -> Plain:
        """The sum."""
        return (x[0] + y[0]) % MODULUS, self.wrapped(x[1] + y[1])

    def mul(self, x: Plain, y: Plain) -> Plain:
        """The product."""
        (a, m), (b, n) = x, y
        return (a * b + a * n + b * m) % MODULUS, self.wrapped(m * n)

    def neg(self, x: Plain) -> Plain:
        """The negative."""
        return -x[0] % MODULUS, self.wrapped(-x[1])

    def scaled(self, x: Plain, truth: int) -> Plain:
        """A number where a truth holds, whose constant term is zero."""
        return (x[0] + x[1]) * truth % MODULUS, 0

    def unknown(self, point: Point, *key: Hashable) -> Plain:
        """What is known by its key alone."""
        return point.unknown(*key), 0

    @property
    def least(self) -> int:
        """The least number of the type."""
        return -(self.count >> 1) if self.signed else 0

    @property
    def largest(self) -> int:
        """The largest number of the type."""
        return self.least + self.count - 1


class Truths(Integers):
    """Zero and one: polynomials whose values are these."""

    def __init__(self) -> None:
        """One bit."""
        super().__init__(1, signed=False)

    def wrapped(self, number: int) -> int:
        """Polynomials of truths have truths for constant terms."""
        return number

    def typed(self, number: int) -> int:
        """Zero or one."""
        return number


Ring = Floats | Complex | Integers


def part_of(dtype: str) -> str:
    """The type of a complex number's parts."""
    return dtype[len("complex<") : -1]


@lru_cache(maxsize=64)
def ring_of(dtype: str) -> Ring:
    """What elements of a type are."""
    if dtype == "i1":
        return Truths()
    if dtype.startswith("complex"):
        return Complex()
    if dtype.lstrip("u").startswith("i") and dtype.lstrip("ui").isdigit():
        return Integers(int(dtype.lstrip("ui")), not dtype.startswith("u"))
    return Floats()
