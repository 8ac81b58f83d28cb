"""What collectives carry values as, where their own type would not do.

- XLA's collectives know no 2-bit integers: some refuse them, some spoil memory.
- A maximum or minimum over devices loses a nan on CPUs, and NCCL promises nothing. As
  integers in the same order, with nan at the end that wins, nothing gets lost.
"""

from __future__ import annotations

from partir.ir.types import dtype_bytes, tensor
from partir.rules.identities import CUT, ORDERED, cites
from partir.rules.local import (
    Emitter,
    Ssa,
    binary,
    compared,
    constant,
    converted,
    selected,
)
from partir.rules.monoids import POWERS

_WIDER = {"i2": "i8", "ui2": "ui8"}
_ORDERED = "f64 f32 f16 bf16".split()


@cites(CUT, ORDERED)
def carried(emitter: Emitter, value: Ssa, monoid: str) -> Ssa:
    """A value as a collective takes it."""
    dtype = value.type.dtype
    exact = _ordered_type(dtype)
    if monoid not in ("max", "min") or exact is None:
        return converted(emitter, value, _WIDER.get(dtype, dtype))
    if dtype == POWERS:  # its bits are in order, nan being the last
        bits = _bits(emitter, value, "ui8")
        return bits if monoid == "max" else _moved(emitter, bits, "add")
    value = converted(emitter, value, exact)
    order = _in_order(emitter, _bits(emitter, value, _integer(exact)))
    nan = compared(emitter, value, "NE", value)
    limit = 2 ** (_width(exact) - 1)
    end = constant(emitter, order.type, str(limit - 1 if monoid == "max" else -limit))
    return selected(emitter, nan, end, order)


def restored(emitter: Emitter, value: Ssa, dtype: str, monoid: str) -> Ssa:
    """What a collective makes of values that were `carried`, in their own type."""
    exact = _ordered_type(dtype)
    if monoid not in ("max", "min") or exact is None:
        return converted(emitter, value, dtype)
    if dtype == POWERS:
        bits = value if monoid == "max" else _moved(emitter, value, "subtract")
        return _bits(emitter, bits, dtype)
    made = _bits(emitter, _in_order(emitter, value), exact)
    return converted(emitter, made, dtype)


def _ordered_type(dtype: str) -> str | None:
    """A type with the same numbers whose bits can be ordered; None if it has no nan."""
    if dtype in _ORDERED or dtype == POWERS:
        return dtype
    return "f16" if dtype.startswith("f8") else None


def _width(dtype: str) -> int:
    return int(8 * dtype_bytes(dtype))


def _integer(dtype: str) -> str:
    return f"i{_width(dtype)}"


def _bits(emitter: Emitter, value: Ssa, dtype: str) -> Ssa:
    type_ = tensor(value.type.shape, dtype)
    return emitter.op("stablehlo.bitcast_convert", (value,), (type_,))[0]


def _moved(emitter: Emitter, bits: Ssa, kind: str) -> Ssa:
    """One further, the last becoming the first, or back."""
    return binary(emitter, kind, bits, constant(emitter, bits.type, "1"))


def _in_order(emitter: Emitter, bits: Ssa) -> Ssa:
    """Bits of a number as an integer in the same order, and back.

    Of negative numbers, the larger the absolute value the larger the bits.
    """
    width = _width(bits.type.dtype)
    shift = constant(emitter, bits.type, str(width - 1))
    rest = constant(emitter, bits.type, str(2 ** (width - 1) - 1))
    negative = binary(emitter, "shift_right_arithmetic", bits, shift)
    return binary(emitter, "xor", bits, binary(emitter, "and", negative, rest))
