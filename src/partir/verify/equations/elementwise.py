"""Ops that compute each element from those at the same place."""

from __future__ import annotations

from partir.ir.attributes import ints
from partir.ir.core import Signature
from partir.verify.equations.registry import equation, rest
from partir.verify.layouts.align import Equation

COMMUTING = frozenset(
    "stablehlo." + name for name in "add multiply maximum minimum and or xor".split()
)


_NAMES = (
    *(
        "abs add and atan2 cbrt ceil clamp compare complex convert cosine "
        "count_leading_zeros divide exponential exponential_minus_one floor imag "
        "is_finite log log_plus_one logistic maximum minimum multiply negate not or "
        "popcnt power real reduce_precision remainder round_nearest_afz "
        "round_nearest_even rsqrt select shift_left shift_right_arithmetic "
        "shift_right_logical sign sine sqrt subtract tan tanh xor"
    ).split(),
    *(
        "chlo." + name
        for name in (
            "_asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e conj "
            "constant_like cosh digamma erf erf_inv erfc is_inf is_neg_inf is_pos_inf "
            "lgamma mulhi next_after polygamma sinh square tan zeta"
        ).split()
    ),
)

ELEMENTWISE = frozenset(name if "." in name else f"stablehlo.{name}" for name in _NAMES)


def is_elementwise(signature: Signature) -> bool:
    """Whether an op computes each element from all operands at its place."""
    (result, *others) = signature.results
    name = signature.kind.removeprefix("stablehlo.")
    same = all(type_.shape == result.shape for type_ in signature.operands)
    return name in _NAMES and same and not others


def reads_all(signature: Signature) -> bool:
    """Whether it does so, and what one of them is always matters: not in a choice."""
    return signature.name != "select" and is_elementwise(signature)


# Of truths: they add up to whether one of them holds, and true is the larger one.
_OF_TRUTHS = {
    "stablehlo.add": "stablehlo.or",
    "stablehlo.maximum": "stablehlo.or",
    "stablehlo.multiply": "stablehlo.and",
    "stablehlo.minimum": "stablehlo.and",
}


@equation(*_NAMES)
def _elementwise(signature: Signature) -> Equation:
    """``x[i], y[i] -> f(x[i], y[i])``; scalars count everywhere."""
    (result,) = signature.results
    labels, kind = tuple(range(len(result.shape))), signature.kind
    if result.dtype == "i1":
        kind = _OF_TRUTHS.get(kind, kind)
    return Equation(
        kind,
        tuple(labels if t.shape else () for t in signature.operands),
        (labels,),
        (rest(signature.attrs), *(t.dtype for t in signature.operands)),
        commutes=kind in COMMUTING,
    )


@equation("map")
def _map(signature: Signature) -> Equation:
    """``x[i], y[i] -> f(x[i], y[i])`` with f a region that sees one element of each."""
    (result,) = signature.results
    labels = tuple(range(len(result.shape)))
    operands = (labels,) * len(signature.operands)
    return Equation(signature.kind, operands, (labels,), signature.lambdas)


_BROADCASTING = (
    "add and atan2 compare complex divide maximum minimum multiply next_after or "
    "polygamma power remainder select shift_left shift_right_arithmetic "
    "shift_right_logical subtract xor zeta"
).split()


@equation(*(f"chlo.broadcast_{name}" for name in _BROADCASTING))
def _broadcasting(signature: Signature) -> Equation:
    """``x[i, j], y[j] -> f(x[i, j], y[j])``: what is of size one is repeated.

    Operands of fewer dimensions have those that the op names, or the last ones.
    """
    (result,) = signature.results
    named = ints(signature.attrs.get("broadcast_dimensions", ""))
    operands = []
    for number, type_ in enumerate(signature.operands):
        rank = len(type_.shape)
        places = tuple(range(len(result.shape) - rank, len(result.shape)))
        if rank < len(result.shape) and len(named) == rank:
            places = named
        operands.append(
            tuple(
                place if size == result.shape[place] else ("one", number, place)
                for place, size in zip(places, type_.shape, strict=True)
            )
        )
    attrs = rest(signature.attrs, "broadcast_dimensions")
    return Equation(
        signature.kind,
        tuple(operands),
        (tuple(range(len(result.shape))),),
        (attrs, *(t.dtype for t in signature.operands)),
    )


@equation("bitcast_convert")
def _bits(signature: Signature) -> Equation:
    """Elementwise if both types are as wide; else the last dimension is special."""
    (operand,), (result,) = signature.operands, signature.results
    if operand.shape == result.shape:
        return _elementwise(signature)
    shared = min(len(operand.shape), len(result.shape))
    labels = tuple(range(shared))
    into = (*labels, *(("in", d) for d in range(shared, len(operand.shape))))
    out = (*labels, *(("out", d) for d in range(shared, len(result.shape))))
    special = into[shared:]
    return Equation(signature.kind, (into,), (out,), operand.dtype, special)
