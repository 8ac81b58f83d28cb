"""Reducers with a name."""

from __future__ import annotations

from partir.ir.core import Lambda, Signature

_NAMES = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "product",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
}


# Of truths: they add up to whether one of them holds, and true is the larger one.
OF_TRUTHS = {"sum": "or", "max": "or", "product": "and", "min": "and"}


def monoid_of(reducer: Lambda) -> str | None:
    """The name of a reducer that is one commutative op on its two arguments.

    These may be of a wider type than what is reduced: see `keeps_type`.
    """
    if len(reducer.ops) != 1 or len(reducer.arguments) != 2:
        return None
    (op,) = reducer.ops
    plain = set(op.operands) == set(reducer.arguments) and op.results == reducer.results
    name = _NAMES.get(op.kind) if plain else None
    return OF_TRUTHS.get(name, name) if name and _boolean(reducer) else name


def keeps_type(signature: Signature) -> bool:
    """Whether results are of the types that are reduced, and not added up in others."""
    pairs = zip(signature.operands, signature.results, strict=False)
    return all(before.dtype == after.dtype for before, after in pairs)


def sum_of(dtype: str) -> str:
    """The monoid that adds up numbers of a type: of booleans, whether one holds."""
    return "or" if dtype == "i1" else "sum"


def _boolean(reducer: Lambda) -> bool:
    """Booleans add up to whether one of them holds."""
    return reducer.types[0].dtype == "i1"


OPS = {name: kind for kind, name in _NAMES.items()}


def monoid_of_kind(kind: str) -> str | None:
    """The monoid that an op of two operands is."""
    return _NAMES.get(kind)


def is_identity(monoid: str, literal: str, dtype: str) -> bool:
    """Whether reducing a number, in MLIR's spelling, into others changes nothing."""
    if dtype.startswith("complex") and literal.startswith("("):
        real, imaginary = literal.strip("()").split(",")
        inner = dtype.removeprefix("complex<").rstrip(">")
        return is_identity(monoid, real, inner) and is_identity("sum", imaginary, inner)
    known = {"or": ("false", "0"), "and": ("true", "-1")}
    if monoid in known:
        return literal in known[monoid]
    if monoid in ("max", "min") and dtype[0] in "fb":
        return literal == _INFINITIES.get((monoid, dtype)) or (
            dtype in WITHOUT_INFINITY and _ends(literal, monoid, dtype)
        )
    if dtype.startswith("complex"):
        return monoid == "sum" and _is_complex_zero(literal)
    try:
        number = int(literal) if dtype[0] in "iu" else float(literal)
    except ValueError:
        return False
    if monoid in ("sum", "product"):
        return number == (monoid == "product")
    return number == _edge(dtype, monoid == "max")


def identity(monoid: str, dtype: str) -> str | None:
    """The number that changes nothing, in MLIR's spelling."""
    if monoid in ("and", "or"):
        truths = ("false", "true") if dtype == "i1" else ("0", "-1")
        return truths[monoid == "and"]
    if dtype == "i1" or dtype.startswith("complex"):
        return None
    if monoid in ("max", "min"):
        whole = dtype[0] in "iu"
        edge = str(_edge(dtype, monoid == "max")) if whole else None
        return edge or _INFINITIES.get((monoid, dtype))
    number = int(monoid == "product")
    return str(number) if dtype[0] in "iu" else f"{number}.000000e+00"


def _is_complex_zero(literal: str) -> bool:
    """Whether both parts of a number are zero."""
    parts = literal.strip("()").split(",")
    try:
        return len(parts) == 2 and not any(map(float, parts))
    except ValueError:
        return False


_INFINITIES = {  # as MLIR spells them
    ("max", "f16"): "0xFC00",
    ("min", "f16"): "0x7C00",
    ("max", "f8E5M2"): "0xFC",
    ("min", "f8E5M2"): "0x7C",
    ("max", "bf16"): "0xFF80",
    ("min", "bf16"): "0x7F80",
    ("max", "f32"): "0xFF800000",
    ("min", "f32"): "0x7F800000",
    ("max", "f64"): "0xFFF0000000000000",
    ("min", "f64"): "0x7FF0000000000000",
}


# The largest numbers of types that have no infinity.
WITHOUT_INFINITY = {
    "f4E2M1FN": 6.0,
    "f6E2M3FN": 7.5,
    "f6E3M2FN": 28.0,
    "f8E4M3B11FNUZ": 30.0,
    "f8E4M3FN": 448.0,
    "f8E4M3FNUZ": 240.0,
    "f8E5M2FNUZ": 57344.0,
}


def _ends(literal: str, monoid: str, dtype: str) -> bool:
    """Whether a number is the least, for a maximum, or the largest of its type."""
    try:
        number = float(literal)
    except ValueError:  # bits
        return False
    return number == WITHOUT_INFINITY[dtype] * (-1 if monoid == "max" else 1)


def _edge(dtype: str, lowest: bool) -> int:
    bits: int = int(dtype.lstrip("ui"))
    if dtype.startswith("u"):
        return 0 if lowest else (1 << bits) - 1
    return -(1 << (bits - 1)) if lowest else (1 << (bits - 1)) - 1
