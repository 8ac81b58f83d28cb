"""Elementwise ops, and ties, which behave like them."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.registry import rule

TIE = "partir.tie"
FUSED = "partir.fused"

_STABLEHLO = (
    "abs add and atan2 bitcast_convert cbrt ceil clamp compare complex convert cosine "
    "count_leading_zeros divide exponential exponential_minus_one floor imag is_finite "
    "log log_plus_one logistic maximum minimum multiply negate not or popcnt power "
    "real reduce_precision remainder round_nearest_afz round_nearest_even rsqrt select "
    "shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan "
    "tanh xor"
).split()

_CHLO = (
    "_asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e conj constant_like "
    "cosh digamma erf erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma mulhi "
    "next_after polygamma sinh square tan zeta"
).split()

POINTWISE = frozenset(
    (*(f"stablehlo.{name}" for name in _STABLEHLO), *(f"chlo.{name}" for name in _CHLO))
)

_BROADCASTING = (
    "add and atan2 compare complex divide maximum minimum multiply next_after or "
    "polygamma power remainder select shift_left shift_right_arithmetic "
    "shift_right_logical subtract xor zeta"
).split()


def pointwise(op: Signature) -> Iterator[Factor]:
    """``(i, j), (i, j) -> (i, j)``: every dimension; scalar operands stay whole."""
    shape = op.results[0].shape
    for dim, size in enumerate(shape):
        yield Factor(
            size,
            tuple(dim if operand.shape == shape else None for operand in op.operands),
            (dim,) * len(op.results),
            loose=True,
        )


@rule(*POINTWISE)
def elementwise(op: Signature) -> Iterator[Factor]:
    """``(i, j), (i, j) -> (i, j)``; a bitcast that changes the rank maps the rest."""
    shape = op.results[0].shape
    if op.name == "bitcast_convert" and len(shape) != len(op.operands[0].shape):
        shared = min(len(shape), len(op.operands[0].shape))
        for dim in range(shared):
            yield Factor(shape[dim], (dim,), (dim,))
        return
    yield from pointwise(op)


@rule("map")
def map_(op: Signature) -> Iterator[Factor]:
    """``(i, j), (i, j) -> (i, j)``: its region sees one element of each."""
    yield from pointwise(op)


@rule(*(f"chlo.broadcast_{name}" for name in _BROADCASTING))
def broadcasting(op: Signature) -> Iterator[Factor]:
    """``(i, j), (j) -> (i, j)``: operands are stretched as NumPy does."""
    shape = op.results[0].shape
    for dim, size in enumerate(shape):
        operands: list[int | None] = []
        for operand in op.operands:
            place = dim - len(shape) + len(operand.shape)
            follows = place >= 0 and operand.shape[place] == size
            operands.append(place if follows else None)
        yield Factor(size, tuple(operands), (dim,), loose=True)


@rule(TIE)
def tie(op: Signature) -> Iterator[Factor]:
    """Values that form one decision are tiled alike."""
    yield from pointwise(op)
