"""Ops that each device runs for itself, on formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from partir.ir.attributes import CONSTRAINT, integer
from partir.ir.core import Lambda, Signature
from partir.verify.elements.bodies import body_of
from partir.verify.elements.calls import called
from partir.verify.elements.cases import WORK, Algebra, Scalar
from partir.verify.elements.constants import constant, number
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.folds import (
    fft,
    reduce,
    reduce_window,
    select_and_scatter,
    sort,
)
from partir.verify.elements.largest import LargestOfRows
from partir.verify.elements.lookups import (
    dynamic_slice,
    dynamic_update_slice,
    gather,
    scatter,
)
from partir.verify.elements.moving import places
from partir.verify.elements.ordering import Ordering
from partir.verify.elements.products import product
from partir.verify.elements.rings import ring_of
from partir.verify.elements.starts import Start, any_row
from partir.verify.layouts.layout import Unreadable
from partir.verify.machine.machine import SLIPS
from partir.verify.reductions.pairs import trying

Elements = list[Scalar]
_SAME = frozenset({"stablehlo.optimization_barrier", CONSTRAINT})


def new_ops(turns: bool = False, work: int = WORK) -> Elementwise:
    """What one proof computes with, at a point of its own; see `Algebra`."""
    ops = Elementwise(Algebra(turns=turns, work=work))
    Ordering(ops)
    LargestOfRows(ops)
    return ops


@trying
def start_counts(reducer: Lambda, literals: Sequence[str | None]) -> bool:
    """Whether what a reduction starts from may change what it makes of others.

    It may if it is not shown that it does not.
    """
    ops, types = new_ops(), [reducer.types[value] for value in reducer.results]
    unknown = any_row(ops, "start", [ring_of(type_.dtype) for type_ in types])
    try:
        start = tuple(
            held
            if text is None
            else constant(ops, f"dense<{text}> : tensor<{t.dtype}>", (), t.dtype)[0]
            for text, t, held in zip(literals, types, unknown, strict=True)
        )
        return not Start(ops, reducer, body_of(ops, reducer), start).inside
    except (Unreadable, *SLIPS):
        return True


def evaluated(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> list[Elements]:
    """An op's results on one device."""
    moved = places(signature)
    if moved is not None:
        flat = [one for held in given for one in held] if len(given) > 1 else given[0]
        return [[flat[place] for place in moved]]
    if signature.kind in _SAME:
        return list(given)
    if signature.kind in ops.others:
        return ops.others[signature.kind](signature, given)
    run = ops.run(signature)
    if run is not None:
        count = math.prod(signature.results[0].shape)
        wide = [
            held * count if not t.shape and len(signature.results[0].shape) else held
            for held, t in zip(given, signature.operands, strict=True)
        ]
        return [list(map(run, *wide))]
    if signature.kind in _SEVERAL:
        return _SEVERAL[signature.kind](ops, signature, given)
    if signature.kind in _ONE:
        return [_ONE[signature.kind](ops, signature, given)]
    raise Unreadable(f"{signature.name} is not written out element by element")


def _constant(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> Elements:
    (type_,) = signature.results
    if not type_.tensor:
        raise Unreadable("a constant that is no tensor")
    return constant(ops, signature.attrs["value"], type_.shape, type_.dtype)


def _iota(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> Elements:
    (type_,) = signature.results
    dim = integer(signature.attrs["iota_dimension"])
    shape = [1] * len(type_.shape)
    shape[dim] = type_.shape[dim]
    counted = np.broadcast_to(np.arange(shape[dim]).reshape(shape), type_.shape)
    convert = ops.convert("i64", type_.dtype)
    return [convert(number(ops, n, "i64")) for n in counted.reshape(-1).tolist()]


_ONE: Mapping[str, Callable[[Elementwise, Signature, Sequence[Elements]], Elements]] = {
    "stablehlo.constant": _constant,
    "stablehlo.iota": _iota,
    "stablehlo.dot_general": product,
    "stablehlo.convolution": product,
    "stablehlo.gather": gather,
    "stablehlo.scatter": scatter,
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic_update_slice,
    "stablehlo.select_and_scatter": select_and_scatter,
}
_SEVERAL: Mapping[
    str, Callable[[Elementwise, Signature, Sequence[Elements]], list[Elements]]
] = {
    "stablehlo.reduce": reduce,
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.fft": fft,
    "stablehlo.sort": sort,
    "stablehlo.custom_call": called,
    "stablehlo.cholesky": called,
    "stablehlo.triangular_solve": called,
}
