"""Floats as integers in the same order, as a maximum over devices carries them.

``order(x)`` is x's bits, turned round for negative numbers, and the end that wins for
nan. It keeps the order, so that maxima and minima move past it; turned back, it is x.
Floats without a sign are their bits; for minima one more, which makes nan the least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from partir.ir.core import Signature
from partir.ir.types import numpy_name, tensor
from partir.verify.elements.cases import GARBAGE, Scalar
from partir.verify.elements.constants import no_number
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.rings import Floats, Integers, Plain, ring_of
from partir.verify.layouts.layout import Unreadable

_WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_UNSIGNED = {"f8E8M0FNU": "ui8"}  # whose bits are in order; those of nan are all ones
_EXTREMES = ("max", "min")


class Ordering:
    """Bits of floats, and what is known of integers that are made of them."""

    def __init__(self, ops: Elementwise) -> None:
        """Reductions of one proof learn of it."""
        self.ops = ops
        self._floats: dict[tuple[str, Scalar], Scalar] = {}  # by bits, or turned back
        self._ordered: dict[tuple[str, str, Scalar], tuple[str, Scalar]] = {}
        ops.monoids.carried = self._extreme
        ops.others["stablehlo.bitcast_convert"] = self.bitcast

    def bitcast(
        self, signature: Signature, given: Sequence[list[Scalar]]
    ) -> list[list[Scalar]]:
        """The same bits as another type of the same width."""
        (before,), (after,) = signature.operands, signature.results
        if before.shape != after.shape:
            raise Unreadable("bits as numbers of another width")
        old, new = before.dtype, after.dtype
        if old == new:
            return [given[0]]
        if _carrier(old) == new:
            return [[self._bits(old, x) for x in given[0]]]
        return [[self._other(old, new, x) for x in given[0]]]

    def _other(self, old: str, new: str, x: Scalar) -> Scalar:
        """Bits of which nothing is known, or those of a float, back again."""
        found = self._floats.get((new, x))
        if found is not None:
            return found
        ring, point = ring_of(new), self.ops.algebra.point
        rings = (ring_of(old),)
        if isinstance(ring, Integers) and isinstance(rings[0], Integers):
            convert = self.ops.convert(old, new)  # of as many bits: the same
            return convert(x)

        def run(one: Plain) -> Scalar:
            if one is GARBAGE:
                return GARBAGE
            before = self._floats.get((new, one))
            if before is not None:
                return before
            known = self._known_bits(old, new, one)
            if known is None:
                known = ring.unknown(point, "bits", old, new, one)
                self._floats[old, known] = one
            return known

        return self.ops.algebra.apply(run, ring, rings, x)

    def _known_bits(self, old: str, new: str, x: Plain) -> Plain | None:
        """A number whose bits are known, as another type reads them."""
        ring, out = ring_of(old), ring_of(new)
        if isinstance(ring, Integers) and isinstance(out, Floats):
            known: Any = ring.known(x)
        elif isinstance(ring, Floats) and isinstance(out, Integers):
            known = self.ops.numbers.read(x, old)
        else:
            return None
        if known is None:
            return None
        if isinstance(ring, Floats) and math.isnan(known):
            raise Unreadable("bits of what is no number")
        kinds = [np.dtype(numpy_name(dtype)) for dtype in (old, new)]
        number = float(known) if isinstance(ring, Floats) else known
        read = np.array(number).astype(kinds[0]).view(kinds[1])
        if isinstance(out, Integers):
            return out.number(int(read))
        if np.isnan(read):
            return no_number(self.ops, int(read.view(f"u{read.itemsize}")), new)
        return self.ops.numbers.formula(float(read))

    def _bits(self, dtype: str, x: Scalar) -> Scalar:
        """A float's bits; what may be made of them is kept in mind."""
        whole = _carrier(dtype)
        bits = self._other(dtype, whole, x)
        self._floats[dtype, bits] = x
        for monoid in _EXTREMES:
            self._in_order(monoid, dtype, x, bits)
        return bits

    def _in_order(self, monoid: str, dtype: str, x: Scalar, bits: Scalar) -> Scalar:
        whole = _carrier(dtype)
        ring = ring_of(whole)
        assert isinstance(ring, Integers)
        if dtype in _UNSIGNED:
            one = ring.number(monoid == "min")
            made = self.ops.monoids.total("sum", whole, ring, (bits, one))
            self._ordered[monoid, whole, made] = (dtype, x)
            return made
        end = ring.number(ring.largest if monoid == "max" else ring.least)
        nan = self.ops.is_nan(dtype, x)
        made = self.ops.select(whole)(nan, end, self._turned(whole, ring, bits))
        self._ordered[monoid, whole, made] = (dtype, x)
        self._floats[dtype, self._turned(whole, ring, made)] = x
        return made

    def _turned(self, whole: str, ring: Integers, bits: Scalar) -> Scalar:
        """Bits of a negative number turned round, or back."""
        shift = self._run("shift_right_arithmetic", whole)
        sign = shift(bits, ring.number(ring.bits - 1))
        mask = self._run("and", whole)(sign, ring.number(ring.largest))
        return self._run("xor", whole)(bits, mask)

    def _run(self, name: str, dtype: str) -> Any:
        type_ = tensor((), dtype)
        signature = Signature.of(f"stablehlo.{name}", {}, (type_, type_), (type_,))
        return self.ops.run(signature)

    def _extreme(
        self, monoid: str, dtype: str, members: Sequence[Scalar]
    ) -> Scalar | None:
        """A maximum of ordered floats is that of the floats, ordered."""
        if monoid not in _EXTREMES:
            return None
        found = [self._ordered.get((monoid, dtype, member)) for member in members]
        kinds = {one[0] for one in found if one is not None}
        if None in found or len(kinds) != 1:
            return None
        (inner,) = kinds
        floats = [one[1] for one in found if one is not None]
        x = self.ops.monoids.total(monoid, inner, ring_of(inner), floats)
        return self._in_order(monoid, inner, x, self._bits(inner, x))


def _carrier(dtype: str) -> str:
    """The integers that a float travels as, in order; nothing if it has none."""
    if dtype in _WIDTHS:
        return f"i{_WIDTHS[dtype]}"
    return _UNSIGNED.get(dtype, "")
