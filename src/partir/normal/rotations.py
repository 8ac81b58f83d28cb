"""Rows of one value one behind the other, going round: a roll, or a slice."""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.attributes import ROLL, i64_array, integer
from partir.ir.core import Op
from partir.ir.types import TensorType
from partir.normal.draft import Draft, Form
from partir.normal.edges import edges_of
from partir.rules.identities import ROTATED, cites


@cites(ROTATED)
def roll_slices(draft: Draft, op: Op) -> Form | None:
    """Concatenated slices that go on where the one before ended, or start again.

    rewrite:
        %a = slice %x [509:512] ; %b = slice %x [0:509]
        %y = concatenate %a, %b           : f32[512]
        ->
        %y = roll %x, start = 509         : f32[512]
    """
    dim = integer(op.signature.attrs["dimension"])
    parts = [_cut_from(draft, value, dim) for value in op.operands]
    source, start = parts[0]
    if any(value == source for value in op.operands):
        parts = [
            (source, 0) if value == source else part
            for value, part in zip(op.operands, parts, strict=True)
        ]
    type_ = draft.types[source]
    position, size = start, type_.shape[dim]
    for part, operand in zip(parts, op.signature.operands, strict=True):
        if not size or part != (source, position % size):
            return None
        position += operand.shape[dim]
    return rolled(source, type_, dim, start, position - start)


@cites(ROTATED)
def cut_rolled(draft: Draft, op: Op) -> Form | None:
    """A slice of rolled rows: fewer of them.

    rewrite:
        %r = roll %x, start = 511         : f32[514]
        %y = slice %r [2:514]             : f32[512]
        ->
        %y = roll %x, start = 1           : f32[512]
    """
    value = op.operands[0]
    maker = draft.maker(value, "roll")
    if maker is None:
        return None
    dim, start = (integer(maker.signature.attrs[a]) for a in ("dimension", "start"))
    first = _cut_along(op, dim)
    if first is None:
        return None
    source, rows = draft.types[maker.operands[0]], op.signature.results[0].shape[dim]
    if not draft.has_one_reader(value):
        whole = source.shape[dim]
        before = max(first, op.signature.operands[0].shape[dim] - rows - first)
        if _distance(whole, start + first, rows) > before:
            return None
    return rolled(maker.operands[0], source, dim, start + first, rows)


def rolled(source: int, type_: TensorType, dim: int, start: int, rows: int) -> Form:
    """Rows from a place on: a slice if they end before the dimension does."""
    size = type_.shape[dim]
    start %= size
    if start + rows > size:
        attrs = {"dimension": f"{dim} : i64", "start": f"{start} : i64"}
        return Form(ROLL, attrs, (source,))
    return sliced(source, type_.shape, dim, start, rows)


def sliced(source: int, shape: Sequence[int], dim: int, start: int, rows: int) -> Form:
    """Rows at a place of one dimension."""
    starts = [start if d == dim else 0 for d in range(len(shape))]
    limits = [start + rows if d == dim else n for d, n in enumerate(shape)]
    attrs = {
        "start_indices": i64_array(starts),
        "limit_indices": i64_array(limits),
        "strides": i64_array([1] * len(shape)),
    }
    return Form("stablehlo.slice", attrs, (source,))


def _cut_from(draft: Draft, value: int, dim: int) -> tuple[int, int]:
    """The value that this one is rows of, and the first; itself, if of none."""
    maker = draft.maker(value, "slice")
    start = None if maker is None else _cut_along(maker, dim)
    if maker is None or start is None:
        return value, 0
    return maker.operands[0], start


def _cut_along(op: Op, dim: int) -> int | None:
    """First row of a slice of neighbours along this dimension, that cuts no other."""
    edges = edges_of(op)
    others = [d for d in range(len(op.signature.operands[0].shape)) if d != dim]
    if edges is None or any(edges.low[d] or edges.high[d] for d in others):
        return None
    return -edges.low[dim]


def _distance(whole: int, start: int, rows: int) -> int:
    """How far rows lie from where they were, at most, the shorter way round."""
    first = (start + whole // 2) % whole - whole // 2
    return max(abs(first), abs(first + rows - whole))
