"""How far the results of a program may differ when its sums are reordered.

Partitioning adds in another order. Integers wrap around and don't notice. Floats round
otherwise, unless all that is added are whole numbers and few enough to stay exact. So
every value is *exact*; or *rough*, equal but for rounding, relative to the largest
number that it was made of; or *loose*: where a rough number meets an op that jumps (a
comparison, a conversion to integers, a division by nearly nothing), or where the named
assumption of products does not hold (finite operands, sums that don't overflow).
What is loose is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from partir.fuzz.judging.floats import denormal, inexact, info, largest, unit, whole
from partir.ir.attributes import ROLL
from partir.ir.core import Op, Program, Region
from partir.rules.monoids import monoid_of


class Level(IntEnum):
    """How much of a value can be relied on."""

    EXACT = 0
    ROUGH = 1
    LOOSE = 2


@dataclass(frozen=True)
class Trust:
    """A level; and of what is rough, the largest number and the coarsest type in it."""

    level: Level = Level.EXACT
    scale: float = 0.0
    unit: float = 0.0  # of rounding, relative

    def join(self, other: Trust) -> Trust:
        """Of something made of both."""
        return Trust(
            max(self.level, other.level),
            max(self.scale, other.scale),
            max(self.unit, other.unit),
        )


def _kinds(names: str) -> frozenset[str]:
    return frozenset(f"stablehlo.{name}" for name in names.split())


# Jump: the smallest change of an operand may change the result by far.
_JUMPS = _kinds(
    "compare sort ceil floor round_nearest_even round_nearest_afz sign remainder "
    "is_finite bitcast_convert"
) | {"chlo.top_k"}
# Steep where an operand is nearly nothing: which one.
_STEEP = {
    "stablehlo.divide": 1,
    "stablehlo.log": 0,
    "stablehlo.rsqrt": 0,
    "stablehlo.sqrt": 0,
    "stablehlo.cbrt": 0,
    "stablehlo.power": 0,
    "stablehlo.atan2": 1,
    "stablehlo.log_plus_one": 0,
}
_NEARLY = 1e-4
_ROUNDINGS = 16  # of a coarse type, which may add up to all that is left
_PRODUCTS = _kinds("dot_general convolution")
_REDUCED = _kinds("reduce reduce_window scatter select_and_scatter")
# Give what they take, whoever computes them.
_MOVES = _kinds(
    "abs and broadcast_in_dim clamp compare complex concatenate constant convert "
    "dynamic_slice dynamic_update_slice gather imag iota maximum minimum negate not or "
    "pad real reshape reverse select slice sort transpose xor"
) | {ROLL}
_ORDERED = ("max", "min", "and", "or")

Values = Mapping[int, np.ndarray]


def trust_of(program: Program, values: Values, fused: bool = False) -> list[Trust]:
    """How far each result can be relied on, where top-level values are these.

    `fused`: whoever runs it may round single ops otherwise too, as XLA does.
    """
    return _Trusts(program, values, fused).run()


class _Trusts:
    def __init__(self, program: Program, values: Values, fused: bool) -> None:
        self.program, self.values, self.fused = program, values, fused
        self.known: dict[int, Trust] = {}

    def run(self) -> list[Trust]:
        for value in self.program.body.arguments:
            self.known[value] = Trust(scale=self.size(value))
        self.region(self.program.body)
        return [self.known[port.value] for port in self.program.results]

    def region(self, region: Region) -> None:
        for number in region.ops:
            self.op(self.program.ops[number])

    def op(self, op: Op) -> None:
        found = Trust()
        for value in op.operands:
            found = found.join(self.known[value])
        if op.kind == "stablehlo.while":
            made = self.loop(op)
        elif op.regions:
            made = self.branch(op, found)
        else:
            made = [self.after(op, found)] * len(op.results)
        for value, trust in zip(op.results, made, strict=True):
            self.settle(value, trust)

    def settle(self, value: int, found: Trust) -> None:
        """Whole numbers and truth values are exact or nothing."""
        if found.level == Level.ROUGH and not inexact(self.program.types[value]):
            found = replace(found, level=Level.LOOSE)
        scale = max(found.scale, self.size(value))
        self.known[value] = replace(found, scale=scale)

    def size(self, value: int) -> float:
        """The largest finite number in a value, if it is known."""
        array = self.values.get(value)
        if array is None or not inexact(self.program.types[value]):
            return 0.0
        return largest(array)

    def loop(self, op: Op) -> list[Trust]:
        """What is carried is what goes in and what the body makes of it.

        Nothing is known of numbers inside, so that sums there are rough.
        """
        condition, body = op.regions
        carried = [self.known[value] for value in op.operands]
        goes_on = Trust()
        for _ in carried:  # each may reach the next one an iteration later
            for region in op.regions:
                self.known.update(zip(region.arguments, carried, strict=True))
                self.region(region)
            made = [self.known[value] for value in body.results]
            carried = list(map(Trust.join, carried, made))
            goes_on = goes_on.join(self.known[condition.results[0]])
        return [trust.join(goes_on) for trust in carried]

    def branch(self, op: Op, found: Trust) -> list[Trust]:
        """Any of its branches, by what chooses among them."""
        made = [found] * len(op.results)
        for region in op.regions:
            self.region(region)
            yielded = [self.known[value] for value in region.results]
            made = list(map(Trust.join, made, yielded))
        return made

    def after(self, op: Op, found: Trust) -> Trust:
        """Of an op's results, its operands being as found."""
        types = [*op.signature.operands, *op.signature.results]
        units = [unit(type_.dtype) for type_ in types if inexact(type_)]
        if not units:
            return found
        rough = found.level == Level.ROUGH
        if rough and (_jumps(op) or self._steep(op, found)):
            return replace(found, level=Level.LOOSE)
        if self._unpromised(op):
            return replace(found, level=Level.LOOSE)
        rounds = _adds(op) or (self.fused and op.kind not in _MOVES)
        if rounds and not self._exactly(op):
            found = replace(found, level=max(found.level, Level.ROUGH))
        if found.level == Level.ROUGH:
            found = replace(found, unit=max(found.unit, *units))
        return found

    def _steep(self, op: Op, found: Trust) -> bool:
        place = _STEEP.get(op.kind)
        if place is None:
            return False
        array, nearly = self.values.get(op.operands[place]), found.scale
        nearly *= max(_NEARLY, _ROUNDINGS * found.unit)
        return array is None or bool(np.any(np.abs(array) <= nearly))

    def _unpromised(self, op: Op) -> bool:
        """Whether a product is of numbers that are not finite, or sums may overflow.

        XLA takes denormal numbers for zero or not, as it pleases.
        """
        arrays = self._operands(op)
        if arrays is None:
            return False
        types = [t for t in op.signature.operands if inexact(t)]
        pairs = zip(arrays, types, strict=True)
        if self.fused and any(denormal(array, t.dtype) for array, t in pairs):
            return True
        if not _adds(op):
            return False
        if op.kind in _PRODUCTS and not all(np.all(np.isfinite(a)) for a in arrays):
            return True
        most = [float(info(t.dtype).max) for t in op.signature.results if inexact(t)]
        return bool(most) and _bound(op, arrays) >= min(most) / 4

    def _exactly(self, op: Op) -> bool:
        """Whether all numbers are whole and so small that sums of them are, too."""
        arrays = self._operands(op)
        made = [self.values.get(v) for v in op.results]
        if arrays is None or any(array is None for array in made):
            return False
        results = [array for array in made if array is not None]
        if not all(array.dtype.kind in "biu" or whole(array) for array in results):
            return False
        units = [unit(t.dtype) for t in op.signature.results if inexact(t)]
        fits = _bound(op, arrays) * max(units, default=0.0) < 1
        return fits and all(map(whole, arrays))

    def _operands(self, op: Op) -> list[np.ndarray] | None:
        """Floats that an op reads, if they are known."""
        found = []
        for value, type_ in zip(op.operands, op.signature.operands, strict=True):
            array = self.values.get(value)
            if array is None:
                return None
            if inexact(type_):
                found.append(array)
        return found


def _jumps(op: Op) -> bool:
    bodies = [inner.kind for body in op.signature.lambdas for inner in body.ops]
    return op.kind in _JUMPS or "stablehlo.compare" in bodies


def _adds(op: Op) -> bool:
    """Whether it adds (or multiplies) in an order that partitioning changes."""
    if op.kind in _REDUCED:
        return monoid_of(op.signature.lambdas[-1]) not in _ORDERED
    return op.kind in _PRODUCTS or op.kind == "stablehlo.fft"


def _bound(op: Op, arrays: list[np.ndarray]) -> float:
    """No partial sum or product is larger."""
    sizes = [max(1.0, largest(array)) for array in arrays]
    count = max((array.size for array in arrays), default=1)
    with np.errstate(over="ignore"):
        if op.kind in _PRODUCTS or op.kind == "stablehlo.multiply":
            return float(np.prod(sizes)) * count
        if any(monoid_of(body) == "mul" for body in op.signature.lambdas):
            return float(np.float64(max(sizes, default=1.0)) ** count)
    return max(sizes, default=1.0) * (count + 1)
