"""Roll: rows from a place on, going on with the first behind the last.

No StableHLO op: programs spell it as a concatenation of slices. It has the rows
``(start + i) mod n``, as many as its result takes: all of them, fewer, or some once
more (padding that wraps around).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partir.ir.attributes import ROLL, integer
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import Emitter, Ssa
from partir.rules.nest import Nest
from partir.rules.reach import Reach
from partir.rules.registry import local_attrs, local_form, rule
from partir.rules.slices import around, concatenated, cut

# Inside a loop along the rolled dimension, the operand is the rows that are wanted.
_IN_WINDOWS = "partir.in_windows"


@rule(ROLL)
def roll(op: Signature) -> Iterator[Factor]:
    """``(~i, j) -> (i, j)``: along the rolled dimension i, windows that wrap around."""
    rolled, start = (integer(op.attrs[name]) for name in ("dimension", "start"))
    for dim, size in enumerate(op.results[0].shape):
        moves = dim == rolled and _IN_WINDOWS not in op.attrs
        reach = (Reach(first=start, wrap=True),) if moves else ()
        yield Factor(size, (dim,), (dim,), reach=reach, loose=True)


@local_attrs(ROLL)
def roll_attrs(nest: Nest) -> dict[str, str]:
    """Mark what does not roll any more."""
    attrs = nest.signature.attrs
    inside = nest.gives[0][integer(attrs["dimension"])]
    return {**attrs, _IN_WINDOWS: "true"} if inside else attrs


@local_form(ROLL)
def roll_form(nest: Nest, emitter: Emitter, operands: Sequence[Ssa]) -> tuple[Ssa, ...]:
    """Rows cut out of the value and itself again; of a window, there is nothing to do.

    Of two slices, XLA would compute what they are cut from twice.
    """
    attrs = nest.attrs
    if _IN_WINDOWS in attrs:
        return tuple(operands)
    dim, start = integer(attrs["dimension"]), integer(attrs["start"])
    (value,), rows = operands, nest.result_types[0].shape[dim]
    if rows > value.type.shape[dim]:
        return (around(emitter, value, dim, start, rows),)
    return (cut(emitter, concatenated(emitter, (value, value), dim), dim, start, rows),)
