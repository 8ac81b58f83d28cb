"""The table of what each op kind costs: arithmetic, and the matrix product it is.

Figures follow XLA's cost analysis (`compiled.cost_analysis()`), learnt by asking it
about each op: one flop per element, products and sums counted apart, transcendental
functions counted separately, no flops for moving data. Functions that XLA expands
(`chlo.erfc`, …) have the figures of their expansion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from partir.ir.attributes import fields, ints
from partir.ir.core import Lambda
from partir.ir.user_rule import FLOPS, PRODUCTS
from partir.rules.elementwise import FUSED
from partir.rules.fused import Places, made_places
from partir.rules.largest import LARGEST_OF, TOP_K
from partir.rules.nest import Nest, nest_of
from partir.rules.op_names import canonical
from partir.simulate.kernels.window_terms import (
    convolution_shape,
    convolution_taps,
    expanded_groups,
    scan_length,
    scan_steps,
)
from partir.spmd.manual_collectives import (
    ManualCollective,
    inner_ops,
    manual_collectives,
)


class Work(NamedTuple):
    """Arithmetic of one op; `matmul` is (batch, rows, columns, depth) if it is one.

    An op with a program inside also has that program's memory traffic and collectives.
    Where that is written for one device (`per_device`), loops don't divide its figures.
    `by_hand` is a function kept whole: a kernel that somebody wrote.
    """

    flops: float = 0.0
    transcendentals: float = 0.0
    matmul: tuple[int, int, int, int] | None = None
    moved_bytes: float = 0.0
    moves: tuple[ManualCollective, ...] = ()
    per_device: bool = False
    by_hand: bool = False

    @property
    def arithmetic(self) -> float:
        """Everything that is computed, each function of an element as one flop."""
        rows = math.prod(self.matmul or (0,))
        return (self.flops or 2.0 * rows) + self.transcendentals


Counter = Callable[[Nest], Work]

_table: dict[str, Counter] = {}
_NOTHING = Work()


def work(*kinds: str) -> Callable[[Counter], Counter]:
    """Register what these op kinds cost (without a dialect: StableHLO's)."""

    def register(function: Counter) -> Counter:
        for kind in kinds:
            full = kind if "." in kind else f"stablehlo.{kind}"
            if full in _table:
                raise ValueError(f"{full} has its work already: {_table[full]}")
            _table[full] = function
        return function

    return register


def work_of(nest: Nest) -> Work:
    """Arithmetic of an op at its local types; none for kinds without an entry."""
    cost = _table.get(canonical(nest.signature))
    return _NOTHING if cost is None else cost(nest)


def counted_kinds() -> tuple[str, ...]:
    """Op kinds in the table."""
    return tuple(sorted(_table))


def _elements(nest: Nest) -> int:
    return math.prod(nest.result_types[0].shape) if nest.result_types else 0


# Elementwise


@work(
    *(
        "abs add and bitcast_convert ceil clamp compare complex convert "
        "count_leading_zeros divide floor imag is_finite maximum minimum multiply "
        "negate not or popcnt real reduce_precision remainder round_nearest_afz "
        "round_nearest_even select shift_left shift_right_arithmetic "
        "shift_right_logical sign subtract xor chlo.conj chlo.is_inf chlo.is_neg_inf "
        "chlo.is_pos_inf chlo.mulhi chlo.square"
    ).split()
)
def one_per_element(nest: Nest) -> Work:
    """One flop for each element of the result."""
    return Work(_elements(nest))


@work(
    *(
        "atan2 cbrt cosine exponential exponential_minus_one log log_plus_one power "
        "rsqrt sine sqrt tan tanh chlo.atan chlo.erf chlo.tan"
    ).split()
)
def one_transcendental(nest: Nest) -> Work:
    """One transcendental function for each element."""
    return Work(0, _elements(nest))


@work(FUSED)
def fused(nest: Nest) -> Work:
    """What each op inside takes for its part of the result."""
    flops = transcendentals = 0.0
    shape = nest.result_types[0].shape
    whole = nest.signature.results[0].shape
    for places, (done, costly) in _fused_work(nest.signature.lambdas[0]).items():
        dims = [dim for dim in places if dim is not None]
        share = math.prod([shape[d] for d in dims]) / math.prod(
            [whole[d] for d in dims]
        )
        flops += done * share
        transcendentals += costly * share
    return Work(flops, transcendentals)


@lru_cache(maxsize=1 << 12)
def _fused_work(body: Lambda) -> dict[Places, tuple[float, float]]:
    """Flops and transcendentals of all ops inside, by the dimensions that they have."""
    work: dict[Places, tuple[float, float]] = {}
    for op, places in zip(body.ops, made_places(body), strict=True):
        each = work_of(nest_of(op.signature))
        flops, transcendentals = work.get(places, (0.0, 0.0))
        work[places] = (
            flops + each.flops,
            transcendentals + each.transcendentals,
        )
    return work


# Flops and transcendentals per element, once XLA has expanded the function.
_EXPANDED = {
    "stablehlo.logistic": (3, 1),
    "chlo._asin_acos_kernel": (3, 2),
    "chlo.acos": (3, 2),
    "chlo.acosh": (7, 4),
    "chlo.asin": (5, 2),
    "chlo.asinh": (11, 3),
    "chlo.atanh": (6, 2),
    "chlo.bessel_i1e": (83, 1),
    "chlo.cosh": (3, 2),
    "chlo.digamma": (73, 3),
    "chlo.erf_inv": (37, 2),
    "chlo.erfc": (60, 1),
    "chlo.lgamma": (52, 4),
    "chlo.next_after": (23, 0),
    "chlo.polygamma": (100, 4),
    "chlo.sinh": (10, 3),
    "chlo.zeta": (100, 20),
    "stablehlo.rng": (1, 1),
    "stablehlo.rng_bit_generator": (37, 0),
}


@work(*_EXPANDED)
def expanded(nest: Nest) -> Work:
    """A fixed number of flops and transcendentals for each element."""
    flops, transcendentals = _EXPANDED[canonical(nest.signature)]
    count = math.prod(nest.result_types[-1].shape)
    return Work(flops * count, transcendentals * count)


# Contractions


@work("dot_general")
def dot_general(nest: Nest) -> Work:
    """A product and a sum for each term."""
    numbers = fields(nest.attrs["dot_dimension_numbers"])
    lhs, rhs = (type_.shape for type_ in nest.operand_types[:2])
    batches = numbers.get("lhs_batching_dimensions", ())
    contracted = numbers.get("lhs_contracting_dimensions", ())
    depth = math.prod(lhs[dim] for dim in contracted)
    batch = math.prod(lhs[dim] for dim in batches)
    rows = math.prod(lhs) // max(depth * batch, 1)
    columns = math.prod(rhs) // max(depth * batch, 1)
    shape = (batch, rows, columns, depth)
    terms = 1.0 if depth == 1 else 2.0  # XLA makes it a multiplication
    return Work(terms * math.prod(shape), 0, shape)


@work("dot", "einsum", "chlo.ragged_dot")
def contraction(nest: Nest) -> Work:
    """A product and a sum for each term, by the factors that are summed over."""
    depth = math.prod(f.size for f in nest.factors if f.reduce == "sum")
    columns = nest.result_types[0].shape[-1] if nest.result_types[0].shape else 1
    rows = _elements(nest) // max(columns, 1)
    return Work(2.0 * rows * columns * depth, 0, (1, rows, columns, depth))


@work("convolution")
def convolution(nest: Nest) -> Work:
    """A product and a sum for each term that is not padding."""
    taps = convolution_taps(nest) * expanded_groups(nest)
    batch, rows, columns, depth = convolution_shape(nest)
    return Work(2.0 * taps, 0, (batch, rows, columns, depth))


# Reductions and windows


def _steps(region: Lambda) -> int:
    """Ops of a reducer or comparator."""
    return len(region.ops)


@work("reduce")
def reduce(nest: Nest) -> Work:
    """The reducer for each element but the first of each result."""
    count = len(nest.result_types)
    read = math.prod(nest.operand_types[0].shape)
    results = math.prod(nest.result_types[0].shape) if count else 0
    return Work(_steps(nest.signature.lambdas[0]) * max(read - results, 0))


@work("reduce_window")
def reduce_window(nest: Nest) -> Work:
    """The reducer for each element of each window but the first.

    A cumulative sum, whose windows reach to the start, is done as a tree.
    """
    steps = _steps(nest.signature.lambdas[0])
    length = scan_length(nest)
    if length:
        return Work(steps * _elements(nest) // length * scan_steps(length))
    window = math.prod(ints(nest.attrs["window_dimensions"]))
    return Work(steps * max(window - 1, 0) * _elements(nest))


@work("select_and_scatter")
def select_and_scatter(nest: Nest) -> Work:
    """The selector within each window, then the scatter of one element.

    XLA carries each element's indices along: comparing takes six flops more, and one
    for each dimension.
    """
    window = math.prod(ints(nest.attrs["window_dimensions"]))
    select, scatter = map(_steps, nest.signature.lambdas)
    shape = nest.operand_types[1].shape
    each = select + 6 + len(shape)
    return Work(math.prod(shape) * (each * max(window - 1, 0) + scatter))


@work("scatter")
def scatter(nest: Nest) -> Work:
    """The combiner for each update."""
    updates = math.prod(nest.operand_types[-1].shape)
    return Work(_steps(nest.signature.lambdas[0]) * updates)


@work("map")
def mapped(nest: Nest) -> Work:
    """The function for each element."""
    return Work(_steps(nest.signature.lambdas[0]) * _elements(nest))


@work("sort", TOP_K, LARGEST_OF)
def sort(nest: Nest) -> Work:
    """``n log2 n`` comparisons over all elements, as XLA counts them."""
    count = math.prod(nest.operand_types[0].shape)
    return Work(count * math.ceil(math.log2(count)) if count > 1 else 0)


# Flops per element, statistics and scaling together.
_NORMALIZATION = {
    "stablehlo.batch_norm_inference": 4,
    "stablehlo.batch_norm_training": 8,
    "stablehlo.batch_norm_grad": 14,
}


@work(*_NORMALIZATION)
def normalization(nest: Nest) -> Work:
    """A few passes over all elements."""
    return Work(_NORMALIZATION[nest.signature.kind] * _elements(nest))


@work("sdy.manual_computation")
def manual_computation(nest: Nest) -> Work:
    """What its body does, which is written for one device."""
    flops = transcendentals = products = moved = 0.0
    for op, times in inner_ops(nest.signature):
        signature = op.signature
        if signature.kind in ("stablehlo.while", "stablehlo.case"):
            continue  # their ops come by themselves
        each = work_of(nest_of(signature))
        flops += each.flops * times
        transcendentals += each.transcendentals * times
        if each.matmul is not None:
            products += each.flops * times
            types = (*signature.operands, *signature.results)
            moved += sum(type_.bytes for type_ in types) * times
    moves = tuple(manual_collectives(nest.signature))
    return Work(flops, transcendentals, cube(products), moved, moves, True)


def cube(flops: float) -> tuple[int, int, int, int] | None:
    """Matrix products of so many flops, their shapes not known."""
    size = round((flops / 2) ** (1 / 3))
    return (1, size, size, size) if size else None


_DECOMPOSITIONS = re.compile(
    "getrf|geqr|potrf|syevd|heevd|gesdd|gesvd|geev|gees|gehrd|sytrd|hetrd|trsm|orgqr|"
    "ungqr|^Qr$|^Eigh$|LuDecomposition|Householder|Cholesky"
)


@work("custom_call")
def call(nest: Nest) -> Work:
    """What was counted in a function that is kept whole; nobody knows the others.

    Decompositions take time, of the order of n^3, but XLA counts no flops for them.
    """
    if FLOPS in nest.attrs:
        flops = float(nest.attrs[FLOPS].strip('"'))
        products = float(nest.attrs.get(PRODUCTS, "0").strip('"'))
        share = math.prod(loop.size for loop in nest.loops)
        return Work(flops / share, 0, cube(products / share), by_hand=True)
    target = nest.attrs.get("call_target_name", "").strip('"')
    shape = nest.operand_types[0].shape if nest.operand_types else ()
    if len(shape) > 1 and _DECOMPOSITIONS.search(target):
        return Work(0, 0, cube(2.0 * math.prod(shape) * min(shape[-2:])))
    return _NOTHING


# Linear algebra


@work("fft")
def fft(nest: Nest) -> Work:
    """``8 n log2 n`` for each transform of length n, as XLA counts them.

    For several dimensions it multiplies their logarithms.
    """
    lengths = ints(nest.attrs["fft_length"])
    levels = math.prod(max(size.bit_length() - 1, 1) for size in lengths)
    return Work(8.0 * levels * math.prod(nest.operand_types[0].shape))


@work("cholesky")
def cholesky(nest: Nest) -> Work:
    """``n^3 / 3`` for each matrix."""
    shape = nest.result_types[0].shape
    return Work(math.prod(shape) * shape[-1] / 3)


@work("triangular_solve")
def triangular_solve(nest: Nest) -> Work:
    """A product and a sum for each of ``n^2 / 2`` terms of each right-hand side."""
    return Work(float(_elements(nest) * nest.operand_types[0].shape[-1]))
