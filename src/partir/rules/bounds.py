"""How large a value's elements can be, whatever the program's arguments are.

A bound is a number that no element's magnitude exceeds. A value with a bound is finite
for certain: neither infinite nor nan. Most values have none. `Bounds` looks at the ops
that a value is made of only when it is asked, at each once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from partir.ir.attributes import CONSTRAINT, ROLL, integer
from partir.ir.core import Program, Signature
from partir.ir.types import TensorType

NONE = math.inf
"""The bound of a value of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of operands, by position: that they are one number, a bound."""

    splat: Callable[[int], str | None]
    bound: Callable[[int], float]


NOTHING = Known(lambda _: None, lambda _: NONE)
"""Of operands that may be anything."""

Rule = Callable[[Signature, Known], float]

_LARGEST = {
    "f64": 1.79e308,
    "f32": 3.4e38,
    "bf16": 3.38e38,
    "f16": 65504.0,
    "f8E5M2": 57344.0,
    "f8E5M2FNUZ": 57344.0,
    "f8E4M3": 240.0,
    "f8E4M3FN": 448.0,
    "f8E4M3FNUZ": 240.0,
    "f8E4M3B11FNUZ": 30.0,
    "f8E3M4": 15.5,
}
_SMALLEST = {"f64": 2.0**-1022, "f32": 2.0**-126, "bf16": 2.0**-126, "f16": 2.0**-14}

_table: dict[str, Rule] = {}


def real_dtype(dtype: str) -> str:
    """Element type of a complex type's parts; any other type itself."""
    return dtype[len("complex<") : -1] if dtype.startswith("complex") else dtype


def is_float(dtype: str) -> bool:
    """Whether it has fractions: real or complex."""
    return "f" in real_dtype(dtype)


def fitting(type_: TensorType, bound: float) -> float:
    """A bound in an element type, where what is too large overflows.

    Half of what the type holds is left to rounding. Integers have a bound always.
    """
    dtype = real_dtype(type_.dtype)
    if is_float(dtype):
        return bound if bound <= _LARGEST.get(dtype, 0.0) / 2 else NONE
    if dtype == "i1":
        return 1.0
    bits = dtype.lstrip("uis")
    most = 2.0 ** int(bits) if bits.isdigit() else NONE
    return min(bound, most)


def literal_bound(type_: TensorType, literal: str) -> float:
    """Magnitude of a number as MLIR spells it; infinities and nan are hexadecimal."""
    try:
        parts = [abs(float(part)) for part in literal.strip("()").split(",")]
    except ValueError:
        return fitting(type_, NONE)
    return fitting(type_, max(parts))


def divides(type_: TensorType, literal: str | None) -> bool:
    """Whether it is a number to divide by: real, normal, and so is its inverse."""
    smallest = _SMALLEST.get(type_.dtype)
    if literal is None or smallest is None:
        return False
    return smallest <= literal_bound(type_, literal) <= 1 / smallest


def bound_of(op: Signature, known: Known) -> float:
    """The bound of an op's one result."""
    found = _table.get(op.kind)
    made = NONE if found is None else found(op, known)
    return fitting(op.results[0], made)


class Bounds:
    """Bounds of a program's values. Get them by `Bounds.of`, which keeps them."""

    def __init__(self, program: Program) -> None:
        """Nothing is known yet."""
        self.program = program
        self._known: dict[int, float] = {}

    @classmethod
    def of(cls, program: Program) -> Bounds:
        """Those of this program."""
        return program.once(cls)

    def __call__(self, value: int) -> float:
        """The bound of a value. What it is made of comes first, without recursion."""
        waiting = [value]
        while waiting:
            now = waiting[-1]
            missing = [v for v in self._made_of(now) if v not in self._known]
            if missing and now not in self._known:
                waiting += missing
                continue
            waiting.pop()
            if now not in self._known:
                self._known[now] = self._bound(now)
        return self._known[value]

    def _made_of(self, value: int) -> tuple[int, ...]:
        node = self.program.producers.get(value)
        if node is None or value in self.program.splats:
            return ()
        op = self.program.ops[node]
        plain = len(op.results) == 1 and not op.regions and op.kind in _table
        return op.operands if plain else ()

    def _bound(self, value: int) -> float:
        type_ = self.program.types[value]
        if value in self.program.splats:
            return literal_bound(type_, self.program.splats[value])
        node = self.program.producers.get(value)
        if node is None or len(self.program.ops[node].results) != 1:
            return fitting(type_, NONE)
        op = self.program.ops[node]
        return bound_of(op.signature, self.of_operands(op.operands))

    def of_operands(self, operands: Sequence[int]) -> Known:
        """What is known of these values."""
        splats = self.program.splats
        return Known(lambda i: splats.get(operands[i]), lambda i: self(operands[i]))


# The table


def _bounded(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            _table[name if "." in name else f"stablehlo.{name}"] = function
        return function

    return register


@_bounded("constant")
def _constant(op: Signature, known: Known) -> float:
    found: float | None = op.cache.get("bound")
    if found is None:
        found = op.cache["bound"] = _largest_number(op.results[0], op.attrs["value"])
    return found


def _largest_number(type_: TensorType, text: str) -> float:
    number = text[len("dense<") : text.rindex(">", 0, text.rindex(" : "))]
    if "0x" in number:  # one that is not finite, or bytes
        return NONE
    parts = number.translate(str.maketrans("[]()", "    ")).split(",")
    numbers = filter(None, map(str.strip, parts))
    return max((literal_bound(type_, n) for n in numbers), default=0.0)


@_bounded("iota")
def _counted(op: Signature, known: Known) -> float:
    return op.results[0].shape[integer(op.attrs["iota_dimension"])]


@_bounded("broadcast", "broadcast_in_dim", "clamp", "complex", "concatenate", "gather")
@_bounded("dynamic_slice", "dynamic_update_slice", "imag", "maximum", "minimum", "pad")
@_bounded("real", "reshape", "reverse", "slice", "transpose", "select", CONSTRAINT)
@_bounded(ROLL)
def _largest_operand(op: Signature, known: Known) -> float:
    """Its elements are some of the operands'. Those of other types are indices."""
    dtype = real_dtype(op.results[0].dtype)
    places = [i for i, t in enumerate(op.operands) if real_dtype(t.dtype) == dtype]
    return max(map(known.bound, places), default=NONE)


@_bounded("abs", "convert", "negate")
def _the_operand(op: Signature, known: Known) -> float:
    """But for integers, which wrap around."""
    return known.bound(0) if is_float(op.results[0].dtype) else NONE


@_bounded("tanh", "logistic", "sine", "cosine", "sign", "chlo.erf")
def _at_most_one(op: Signature, known: Known) -> float:
    """Of what is finite: infinity has no sine, and nan stays nan."""
    return 1.0 if known.bound(0) < NONE else NONE


@_bounded("floor", "ceil", "round_nearest_afz", "round_nearest_even")
def _rounded(op: Signature, known: Known) -> float:
    return known.bound(0) + 1


@_bounded("add", "subtract")
def _sum(op: Signature, known: Known) -> float:
    return known.bound(0) + known.bound(1) if is_float(op.results[0].dtype) else NONE


@_bounded("multiply")
def _product(op: Signature, known: Known) -> float:
    """Of complex numbers, each part is a sum of two products."""
    if not is_float(op.results[0].dtype) or NONE in (known.bound(0), known.bound(1)):
        return NONE
    return 2 * known.bound(0) * known.bound(1)


@_bounded("divide")
def _quotient(op: Signature, known: Known) -> float:
    literal = known.splat(1)
    if literal is None or not divides(op.operands[1], literal):
        return NONE
    return known.bound(0) / literal_bound(op.operands[1], literal)


@_bounded("exponential")
def _exponential(op: Signature, known: Known) -> float:
    return math.exp(known.bound(0)) if known.bound(0) < 700 else NONE
