"""Which ops a sum may move through: ``op(all_reduce x) == all_reduce(op x)``.

`linear(op, positions, known)` tells whether the op, all operands but those at
`positions` being equal on the whole group, adds up over them. Integers and booleans do
so within one type, where wrap-around is part of the arithmetic. Floats do so through
what is linear by itself; through a factor only if it is finite for certain, since the
parts of a sum may be zero where the sum is not, and ``0 * inf`` is nan. Each entry of
the table cites its identity.

*Pieces* are parts of which one holds the element and all others nothing, as a look-up
in tiles leaves them. They don't even move through products, unless what they are
multiplied with is finite for certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from partir.ir.attributes import CONSTRAINT, ROLL
from partir.ir.core import Lambda, Signature
from partir.ir.types import dtype_bytes
from partir.rules.bounds import (
    NONE,
    NOTHING,
    Bounds,
    Known,
    bound_of,
    divides,
    is_float,
    real_dtype,
)
from partir.rules.elementwise import FUSED
from partir.rules.identities import (
    ADDED,
    COMPOSED,
    DIVIDED,
    MOVED,
    MULTIPLIED,
    NEGATED,
    SCALED,
    TRANSFORMED,
    Identity,
)
from partir.rules.monoids import is_identity, monoid_of


class _Sum:
    """A sum over operands of an op, and what may be asked of the others."""

    def __init__(
        self, op: Signature, positions: frozenset[int], known: Known, pieces: bool
    ) -> None:
        self.op, self.positions, self.known, self.pieces = op, positions, known, pieces
        self.asked = False  # whether the answer depends on more than the op

    def zero(self, position: int) -> bool:
        """Whether an operand is zero everywhere."""
        self.asked = True
        literal = self.known.splat(position)
        return is_identity("sum", self.op.operands[position], literal)

    def finite(self, position: int) -> bool:
        """Whether an operand is finite for certain; integers are."""
        self.asked = True
        floats = is_float(self.op.operands[position].dtype)
        return not floats or self.known.bound(position) < NONE

    def divisor(self, position: int) -> bool:
        """Whether an operand is one number, which neither it nor its inverse exceed."""
        self.asked = True
        literal = self.known.splat(position)
        return divides(self.op.operands[position], literal)

    def over(self, *positions: int) -> bool:
        """Whether it is over all of these, but for those that are zero."""
        return all(i in self.positions or self.zero(i) for i in positions)


Linear = Callable[[_Sum], bool]

_table: dict[str, Linear] = {}
_identities: dict[str, Identity] = {}


def _linear(identity: Identity, *names: str) -> Callable[[Linear], Linear]:
    def register(function: Linear) -> Linear:
        for kind in (name if "." in name else f"stablehlo.{name}" for name in names):
            _table[kind], _identities[kind] = function, identity
        return function

    return register


def kinds() -> dict[str, Identity]:
    """Op kinds that a sum may move through, and why."""
    return dict(sorted(_identities.items()))


def multiplies(op: Signature) -> bool:
    """Whether an op is a product, in which all of one operand meets the other."""
    return op.kind in _DENSE


def adds_up(
    op: Signature,
    operands: Sequence[int],
    positions: frozenset[int],
    bounds: Bounds,
    pieces: bool = False,
) -> bool:
    """`linear` for an op on values of a program."""
    return linear(op, positions, bounds.of_operands(operands), pieces)


def linear(
    op: Signature,
    positions: frozenset[int],
    known: Known = NOTHING,
    pieces: bool = False,
) -> bool:
    """Whether a sum over the operands at `positions`, or of pieces, moves through."""
    found = _table.get(op.kind)
    if found is None:
        return False
    key = "linear", positions, pieces
    answer: bool | None = op.cache.get(key)
    if answer is None:
        asked = _Sum(op, positions, known, pieces)
        answer = _one_type(op, positions) and found(asked)
        if not asked.asked:
            op.cache[key] = answer
    return answer


def _one_type(op: Signature, positions: frozenset[int]) -> bool:
    """Whether what is added stays in one type; products of floats may widen it.

    A reduction keeps the precision that the source program adds in, or a better one.
    """
    after = real_dtype(op.results[0].dtype)
    types = {real_dtype(op.operands[i].dtype) for i in positions}
    if types == {after}:
        return True
    floats = all(is_float(dtype) for dtype in (*types, after))
    narrow = any(dtype_bytes(dtype) > dtype_bytes(after) for dtype in types)
    return op.kind in _PRODUCTS and floats and not narrow


def widens(op: Signature) -> bool:
    """Whether an op makes floats wider and nothing else.

    A sum may be done behind it, more exactly, of more bytes.
    """
    if op.kind != "stablehlo.convert":
        return False
    before, after = op.operands[0].dtype, op.results[0].dtype
    floats = is_float(before) and is_float(after)
    return floats and dtype_bytes(before) < dtype_bytes(after)


# Elements that are only moved


@_linear(MOVED, "transpose", "reshape", "reverse", "slice", "real", "imag", "broadcast")
@_linear(MOVED, CONSTRAINT, ROLL)
def _the_operand(sum_: _Sum) -> bool:
    return True


@_linear(MOVED, "concatenate", "complex")
def _all_operands(sum_: _Sum) -> bool:
    return sum_.over(*range(len(sum_.op.operands)))


@_linear(MOVED, "gather", "dynamic_slice", "broadcast_in_dim")
@_linear(MOVED, "dynamic_broadcast_in_dim", "dynamic_reshape", "torch_index_select")
def _first_operand(sum_: _Sum) -> bool:
    return sum_.positions == {0}


@_linear(MOVED, "dynamic_update_slice")
def _both_written(sum_: _Sum) -> bool:
    return sum_.positions <= {0, 1} and sum_.over(0, 1)


@_linear(MOVED, "pad")
def _padded_with_zero(sum_: _Sum) -> bool:
    return sum_.positions == {0} and sum_.zero(1)


@_linear(MOVED, "select")
def _chosen(sum_: _Sum) -> bool:
    return 0 not in sum_.positions and sum_.over(1, 2)


@_linear(MOVED, "convert")
def _kept(sum_: _Sum) -> bool:
    """To the same type; `_one_type` saw to it."""
    return True


# Sums of elements


@_linear(ADDED, "add", "subtract")
def _added(sum_: _Sum) -> bool:
    return sum_.over(0, 1)


@_linear(ADDED, "reduce", "reduce_window")
def _summed(sum_: _Sum) -> bool:
    op = sum_.op
    single = len(op.operands) == 2 and monoid_of(op.lambdas[0]) == "sum"
    return single and sum_.positions == {0} and sum_.zero(1)


@_linear(ADDED, "scatter")
def _scattered(sum_: _Sum) -> bool:
    """Updates are added to the operand at places that are equal everywhere."""
    op = sum_.op
    single = len(op.operands) == 3 and monoid_of(op.lambdas[0]) == "sum"
    return single and 1 not in sum_.positions and sum_.over(0, 2)


@_linear(ADDED, "select_and_scatter")
def _scattered_back(sum_: _Sum) -> bool:
    added = monoid_of(sum_.op.lambdas[1]) == "sum"
    return sum_.positions == {1} and added and sum_.zero(2)


@_linear(NEGATED, "negate", "chlo.conj")
def _negated(sum_: _Sum) -> bool:
    return True


# Factors: elements times a value that must be finite


@_linear(SCALED, "multiply")
def _scaled(sum_: _Sum) -> bool:
    if len(sum_.positions) != 1:
        return False
    (place,) = sum_.positions
    return sum_.finite(1 - place)


@_linear(DIVIDED, "divide")
def _divided(sum_: _Sum) -> bool:
    return sum_.positions == {0} and sum_.divisor(1)


# Products that are linear by themselves

_DENSE = frozenset(
    f"stablehlo.{name}" for name in ("dot", "dot_general", "einsum", "convolution")
)
_PRODUCTS = _DENSE | {"chlo.ragged_dot"}


@_linear(MULTIPLIED, *_PRODUCTS)
def _one_operand(sum_: _Sum) -> bool:
    if len(sum_.positions) != 1 or not sum_.positions <= {0, 1}:
        return False
    (place,) = sum_.positions
    return not sum_.pieces or sum_.finite(1 - place)


@_linear(TRANSFORMED, "fft")
def _transformed(sum_: _Sum) -> bool:
    return not sum_.pieces


@_linear(TRANSFORMED, "triangular_solve")
def _solved_for(sum_: _Sum) -> bool:
    """Where nothing is divided by: a zero on the diagonal divides zeros, too."""
    unit = sum_.op.attrs.get("unit_diagonal") == "true"
    return sum_.positions == {1} and unit and not sum_.pieces


# Several ops as one


@_linear(COMPOSED, FUSED)
def _all_inside(sum_: _Sum) -> bool:
    """Every op that a summand reaches is linear."""
    sum_.asked = True
    body = sum_.op.lambdas[0]
    known = _Inside(body, sum_.known)
    summed = {body.arguments[position] for position in sum_.positions}
    for inner in body.ops:
        values = inner.operands
        found = frozenset(i for i, v in enumerate(values) if v in summed)
        if found:
            if not linear(inner.signature, found, known.of(values), sum_.pieces):
                return False
            summed.update(inner.results)
    return True


class _Inside:
    """What is known of the values in a fused op."""

    def __init__(self, body: Lambda, outside: Known) -> None:
        places = enumerate(body.arguments)
        self.splats = {value: outside.splat(i) for i, value in places}
        self.bounds = {v: outside.bound(i) for i, v in enumerate(body.arguments)}
        for op in body.ops:
            (made,) = op.results
            known = self.of(op.operands)
            self.splats[made] = None if op.operands else _number(op.signature)
            self.bounds[made] = bound_of(op.signature, known)

    def of(self, values: tuple[int, ...]) -> Known:
        return Known(
            lambda i: self.splats[values[i]],
            lambda i: self.bounds[values[i]],
        )


def _number(constant: Signature) -> str:
    return constant.attrs["value"].partition(">")[0].removeprefix("dense<")
