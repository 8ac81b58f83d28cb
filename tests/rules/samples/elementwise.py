"""Samples of elementwise ops and ties."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from partir.ir.attributes import CONSTRAINT, MESH
from partir.ir.core import Op, Signature
from partir.ir.source import Location
from partir.ir.types import tensor
from partir.rules.elementwise import FUSED, TIE
from partir.rules.fused import fuse
from tests.rules.samples.sample import SHAPES, Sample, combine, pick, sample, written

_FLOAT_TO_FLOAT = (
    "abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one "
    "logistic negate round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan "
    "tanh chlo.acos chlo.acosh chlo.asin chlo.asinh chlo.atan chlo.atanh "
    "chlo.bessel_i1e chlo.cosh chlo.digamma chlo.erf chlo.erf_inv chlo.erfc "
    "chlo.lgamma chlo.sinh chlo.square chlo.tan"
).split()
_FLOATS_TO_FLOAT = (
    "add atan2 divide maximum minimum multiply power remainder subtract "
    "chlo.next_after chlo.polygamma chlo.zeta"
).split()
_INTEGERS_TO_INTEGER = (
    "and or xor shift_left shift_right_arithmetic shift_right_logical"
).split()


def _spread(*dims: int) -> str:
    inside = ", ".join(map(str, dims))
    return f"broadcast_dimensions = array<i64: {inside}>"


# Take long to compile.
_LONG = frozenset(
    f"chlo.{name}"
    for name in (
        "_asin_acos_kernel bessel_i1e broadcast_polygamma broadcast_zeta digamma "
        "erf_inv lgamma next_after polygamma zeta"
    ).split()
)


def _alike(*dtypes: str, to: str) -> object:
    """A generator for an op on operands of one shape and these element types."""

    def generate(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
        shape = "4" if kind in _LONG else pick(rng, SHAPES)
        ins = ", ".join(f"{shape}x{dtype}" for dtype in dtypes)
        yield Sample(kind, written(kind, f"{ins} -> {shape}x{to}"))

    return generate


sample(*_FLOAT_TO_FLOAT)(_alike("f64", to="f64"))
sample(*_FLOATS_TO_FLOAT)(_alike("f64", "f64", to="f64"))
sample(*_INTEGERS_TO_INTEGER)(_alike("i32", "i32", to="i32"))
sample("not", "popcnt", "count_leading_zeros")(_alike("i32", to="i32"))
sample("is_finite", "chlo.is_inf", "chlo.is_neg_inf", "chlo.is_pos_inf")(
    _alike("f64", to="i1")
)
sample("chlo.mulhi")(_alike("ui32", "ui32", to="ui32"))
sample("chlo._asin_acos_kernel")(_alike("complex<f64>", to="complex<f64>"))
sample("complex")(_alike("f64", "f64", to="complex<f64>"))
sample("real", "imag")(_alike("complex<f64>", to="f64"))
sample("chlo.conj")(_alike("complex<f64>", to="complex<f64>"))


@sample("convert")
def convert(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Between classes of types, and to the same one."""
    for types in ("4x6xf64 -> 4x6xi32", "4xi1 -> 4xf64", "4x2xf64 -> 4x2xf64"):
        yield Sample(types, written(kind, types))


@sample("bitcast_convert")
def bitcast_convert(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """One size; to smaller elements, which adds a dimension; and back."""
    for types in ("4x6xf64 -> 4x6xi64", "4x6xf64 -> 4x6x2xi32", "4x2xui32 -> 4xui64"):
        yield Sample(types, written(kind, types))


@sample("clamp")
def clamp(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """With bounds of the operand's shape, and with scalar ones."""
    for bound in ("4x6xf64", "f64"):
        types = f"{bound}, 4x6xf64, {bound} -> 4x6xf64"
        yield Sample(types, written(kind, types))


@sample("select")
def select(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """With a predicate of the operands' shape, and with a scalar one."""
    for predicate in ("4x6xi1", "i1"):
        types = f"{predicate}, 4x6xf64, 4x6xf64 -> 4x6xf64"
        yield Sample(types, written(kind, types))


@sample("compare")
def compare(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Signed integers."""
    attrs = "comparison_direction = #stablehlo<comparison_direction LT>"
    yield Sample(kind, written(kind, "4x6xi32, 4x6xi32 -> 4x6xi1", attrs))


@sample("reduce_precision")
def reduce_precision(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """To bfloat16's bits."""
    attrs = "exponent_bits = 8 : i32, mantissa_bits = 7 : i32"
    yield Sample(kind, written(kind, "4x6xf64 -> 4x6xf64", attrs))


@sample("chlo.constant_like")
def constant_like(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """A number in the shape of the operand."""
    yield Sample(kind, written(kind, "4x6xf64 -> 4x6xf64", "value = 1.5 : f64"))


@sample("map")
def map_(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Two operands."""
    attrs = "dimensions = array<i64: 0, 1>"
    region = combine("subtract", "f64")
    types = "4x6xf64, 4x6xf64 -> 4x6xf64"
    yield Sample(kind, written(kind, types, attrs, region))


def _stretched(*dtypes: str, to: str, attrs: str = "") -> object:
    """A generator for an op on two operands that are stretched to one shape."""

    def generate(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
        for left, right in (("4x1x", "6x"), ("", "4x6x")):
            types = f"{left}{dtypes[0]}, {right}{dtypes[1]} -> 4x6x{to}"
            depth = 1 if kind in _LONG else 2
            yield Sample(types, written(kind, types, attrs), depth)

    return generate


_FLOATS_STRETCHED = (
    "add atan2 divide maximum minimum multiply next_after polygamma power remainder "
    "subtract zeta"
)
_INTEGERS_STRETCHED = "and or shift_left shift_right_arithmetic shift_right_logical xor"
_LESS = "comparison_direction = #chlo<comparison_direction LT>"
sample(*(f"chlo.broadcast_{name}" for name in _FLOATS_STRETCHED.split()))(
    _stretched("f64", "f64", to="f64")
)
sample(*(f"chlo.broadcast_{name}" for name in _INTEGERS_STRETCHED.split()))(
    _stretched("i32", "i32", to="i32")
)
sample("chlo.broadcast_complex")(_stretched("f64", "f64", to="complex<f64>"))
sample("chlo.broadcast_compare")(_stretched("f64", "f64", to="i1", attrs=_LESS))


@sample("chlo.broadcast_select")
def broadcast_select(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """All three operands are stretched."""
    for types in ("6xi1, 4x6xf64, f64 -> 4x6xf64", "4x1xi1, 1x6xf64, 6xf64 -> 4x6xf64"):
        yield Sample(types, written(kind, types))


@sample(TIE)
def tie(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """A loop's carry: two sources, which are one value, and three targets."""
    type_ = tensor((4, 6), "f64")
    signature = Signature.of(TIE, {}, (type_,) * 2, (type_,) * 3)
    value = rng.normal(size=(4, 6))
    yield Sample(kind, signature, given=(value, value))


@sample(CONSTRAINT)
def constraint(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """The operand, however it is to be laid out."""
    attrs = {"sharding": '#sdy.sharding<@mesh, [{"B"}, {}]>', MESH: "B=2"}
    for shape, dtype in (((4, 6), "f64"), ((6, 4), "i32")):
        type_ = (tensor(shape, dtype),)
        yield Sample(f"{kind} {dtype}", Signature.of(kind, attrs, type_, type_))


_FULL = "4x6xf64"
_FUSED = {
    "of two rows and a column": [
        ("exponential", f"{_FULL} -> {_FULL}", "", "x", "e"),
        ("broadcast_in_dim", f"6xf64 -> {_FULL}", _spread(1), "row", "r"),
        ("multiply", f"{_FULL}, {_FULL} -> {_FULL}", "", "e r", "m"),
        ("broadcast_in_dim", f"4x1xf64 -> {_FULL}", _spread(0, 1), "column", "c"),
        ("add", f"{_FULL}, {_FULL} -> {_FULL}", "", "m c", "result"),
    ],
    "linear": [
        ("broadcast_in_dim", f"6xf64 -> {_FULL}", _spread(1), "row", "r"),
        ("multiply", f"{_FULL}, {_FULL} -> {_FULL}", "", "x r", "m"),
        ("negate", f"{_FULL} -> {_FULL}", "", "y", "n"),
        ("add", f"{_FULL}, {_FULL} -> {_FULL}", "", "m n", "result"),
    ],
    "of a scalar, one value twice": [
        ("select", f"i1, {_FULL}, {_FULL} -> {_FULL}", "", "test x y", "s"),
        ("convert", f"{_FULL} -> 4x6xf32", "", "s", "n"),
        ("convert", f"4x6xf32 -> {_FULL}", "", "n", "w"),
        ("multiply", f"{_FULL}, {_FULL} -> {_FULL}", "", "w x", "result"),
    ],
    "of one value by rows and by columns": [
        ("broadcast_in_dim", "4xf64 -> 4x4xf64", _spread(0), "v", "c"),
        ("broadcast_in_dim", "4xf64 -> 4x4xf64", _spread(1), "v", "r"),
        ("subtract", "4x4xf64, 4x4xf64 -> 4x4xf64", "", "c r", "result"),
    ],
}


@sample(FUSED)
def fused(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Several ops, with operands that are repeated when they come in."""
    for label, lines in _FUSED.items():
        numbers: dict[str, int] = {}
        members = [
            Op(
                written(f"stablehlo.{name}", types, attrs),
                tuple(numbers.setdefault(v, len(numbers)) for v in operands.split()),
                (numbers.setdefault(result, len(numbers)),),
                Location(),
            )
            for name, types, attrs, operands, result in lines
        ]
        yield Sample(f"fused {label}", fuse(members)[0])
