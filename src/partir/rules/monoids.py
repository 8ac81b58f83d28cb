"""Monoids that results recombine with: their reducers and identities."""

from __future__ import annotations

from partir.ir.core import Lambda, Op, Signature
from partir.ir.source import Location
from partir.ir.types import TensorType, tensor
from partir.rules.identities import PARTS, PIECES, cites

OPS = {
    "sum": "stablehlo.add",
    "mul": "stablehlo.multiply",
    "max": "stablehlo.maximum",
    "min": "stablehlo.minimum",
    "and": "stablehlo.and",
    "or": "stablehlo.or",
}
POWERS = "f8E8M0FNU"
"""Powers of two and nothing else: no zero, no sign."""

IDEMPOTENT = ("max", "min", "and", "or")
"""Where it does not matter how often something counts."""

_BY_OP = {kind: name for name, kind in OPS.items()}


@cites(PARTS)
def monoid_of(region: Lambda) -> str | None:
    """The monoid of a reducer that applies one op to its two arguments, else None.

    Bitwise `and` and `or` of integers have none: XLA's collectives take only booleans.
    Nor has a sum without a zero, nor a product of complex numbers, which depends on its
    order if one is not finite. On booleans add is or, multiply is and.
    """
    if len(region.ops) != 1 or len(region.arguments) != 2 or len(region.results) != 1:
        return None
    (op,) = region.ops
    straight = (
        set(op.operands) == set(region.arguments) and op.results == region.results
    )
    found = _BY_OP.get(op.kind) if straight else None
    dtype = region.types[region.arguments[0]].dtype
    if found == "sum":
        return adding(dtype)
    if dtype == "i1":
        return "and" if found == "mul" else found
    if dtype.startswith("complex") and found == "mul":
        return None
    return None if found in ("and", "or") else found


def common_monoid(region: Lambda, count: int) -> str | None:
    """The one monoid of a reducer of several values at once, each for itself.

    Its arguments are `count` values so far, then `count` new ones.
    """
    if count == 1:
        return monoid_of(region)
    if len(region.ops) != count or len(region.results) != count:
        return None
    found = set()
    for number, result in enumerate(region.results):
        pair = (region.arguments[number], region.arguments[number + count])
        ops = tuple(op for op in region.ops if op.results == (result,))
        found.add(monoid_of(Lambda(region.types, pair, ops, (result,))))
    return found.pop() if len(found) == 1 else None


@cites(PARTS)
def adding(dtype: str) -> str | None:
    """The monoid of additions: booleans have or, numbers without a zero none."""
    return {"i1": "or", POWERS: None}.get(dtype, "sum")


@cites(PIECES)
def additive(dtype: str) -> str:
    """The monoid that puts masked pieces together, each element being in one."""
    return {"i1": "or", POWERS: "max"}.get(dtype, "sum")


def nothing(type_: TensorType) -> str:
    """What pieces put together by `additive` hold where they have no element."""
    return neutral(additive(type_.dtype), type_)


def neutral(monoid: str, type_: TensorType) -> str:
    """As `identity`, to the bit: a sum of floating-point numbers starts from -0.

    That leaves the sign of a zero as it is: -0 + 0 is 0.

    >>> neutral("sum", tensor((), "f32")), neutral("sum", tensor((), "i8"))
    ('-0.000000e+00', '0')
    """
    number = identity(monoid, type_)
    signed = "f" in type_.dtype and not type_.dtype.endswith("FNUZ")
    if monoid != "sum" or not signed:
        return number
    return number.replace("0.000000e+00", "-0.000000e+00")


def anything(type_: TensorType) -> str:
    """A number that every type has: for what is cut off or written over later."""
    return identity("mul", type_)


def reducer(monoid: str, dtype: str) -> Lambda:
    """The region that combines two scalars."""
    scalar = tensor((), dtype)
    signature = Signature.of(OPS[monoid], {}, (scalar, scalar), (scalar,))
    op = Op(signature, (0, 1), (2,), Location())
    return Lambda((scalar,) * 3, (0, 1), (op,), (2,))


def identity(monoid: str, type_: TensorType) -> str:
    """The monoid's identity as a literal of this element type.

    >>> identity("sum", tensor((), "f32")), identity("max", tensor((), "i8"))
    ('0.000000e+00', '-128')
    """
    dtype = type_.dtype
    if dtype == "i1":
        return "true" if monoid in ("and", "mul", "min") else "false"
    if dtype.startswith("complex"):
        return f"({int(monoid == 'mul')}.000000e+00,0.000000e+00)"
    floating = "f" in dtype
    if monoid in ("sum", "mul"):
        number = int(monoid == "mul")
        return f"{number}.000000e+00" if floating else str(number)
    if floating:
        return _infinity(dtype, negative=monoid == "max")
    return _integer_identity(monoid, dtype)


def _integer_identity(monoid: str, dtype: str) -> str:
    bits = int(dtype.lstrip("uis"))
    unsigned = dtype.startswith("ui")
    if monoid == "or":
        return "0"
    if monoid == "and":
        return str(2**bits - 1) if unsigned else "-1"
    if monoid == "max":
        return "0" if unsigned else str(-(2 ** (bits - 1)))
    return str(2**bits - 1 if unsigned else 2 ** (bits - 1) - 1)


_NANS = {
    "f64": "0x7FF8000000000000",
    "f32": "0x7FC00000",
    "f16": "0x7E00",
    "bf16": "0x7FC0",
}


def garbage(type_: TensorType) -> str:
    """A number that shows wherever it counts: nan, or a large one.

    >>> garbage(tensor((), "i8")), garbage(tensor((), "bf16"))
    ('127', '0x7FC0')
    """
    dtype = type_.dtype
    if dtype == "i1":
        return "true"
    if dtype.startswith("complex"):
        return "(1.000000e+30,-1.000000e+30)"
    if "f" in dtype:
        return _NANS.get(dtype, "1.000000e+00")
    return _integer_identity("min", dtype)


_INFINITIES = {
    "f64": "0x7FF0000000000000",
    "f32": "0x7F800000",
    "f16": "0x7C00",
    "bf16": "0x7F80",
    "f8E5M2": "0x7C",
    "f8E4M3": "0x78",
    "f8E3M4": "0x70",
}
# Types without an infinity: their largest number will do.
_LARGEST = {
    "f8E4M3FN": "448.0",
    "f8E4M3FNUZ": "240.0",
    "f8E4M3B11FNUZ": "30.0",
    "f8E5M2FNUZ": "57344.0",
    "f6E2M3FN": "7.5",
    "f6E3M2FN": "28.0",
    "f4E2M1FN": "6.0",
    POWERS: "0xFE",
}


def _infinity(dtype: str, negative: bool) -> str:
    bits = _INFINITIES.get(dtype)
    if dtype == POWERS and negative:
        return "0x00"
    if bits is None:
        return f"-{_LARGEST[dtype]}" if negative else _LARGEST[dtype]
    if not negative:
        return bits
    sign = 8 << (4 * (len(bits) - 3))
    return f"0x{int(bits, 16) | sign:0{len(bits) - 2}X}"


def is_identity(monoid: str, type_: TensorType, literal: str | None) -> bool:
    """Whether a known splat equals the monoid's identity."""
    if literal is None:
        return False
    if literal == identity(monoid, type_):
        return True
    number = float if "f" in type_.dtype else int  # no float has all 64-bit integers
    try:
        return number(literal) == number(identity(monoid, type_))
    except ValueError:
        return False
