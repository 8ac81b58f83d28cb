"""Ops that compute each element from those at the same place."""

from __future__ import annotations

from partir.ir.core import Signature
from partir.verify.align import Equation
from partir.verify.equations.registry import equation, rest

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
            "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv "
            "erfc is_inf is_neg_inf is_pos_inf lgamma next_after polygamma sinh square "
            "tan zeta"
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


@equation(*_NAMES)
def _elementwise(signature: Signature) -> Equation:
    """``x[i], y[i] -> f(x[i], y[i])``; scalars count everywhere."""
    (result,) = signature.results
    labels = tuple(range(len(result.shape)))
    return Equation(
        signature.kind,
        tuple(labels if t.shape else () for t in signature.operands),
        (labels,),
        (rest(signature.attrs), *(t.dtype for t in signature.operands)),
        commutes=signature.kind in COMMUTING,
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
