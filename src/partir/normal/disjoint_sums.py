"""Sums of parts that lie beside each other with zeros around them: concatenations.

The gradient of what was cut into slices is such a sum.
"""

from __future__ import annotations

from typing import NamedTuple

from partir.ir.core import Op
from partir.normal.draft import Draft, Form
from partir.normal.edges import edges_of
from partir.normal.rotations import sliced
from partir.rules.identities import DISJOINT, cites
from partir.rules.monoids import is_identity

_MOST = 64  # parts of one sum


class Part(NamedTuple):
    """Rows of a sum along one dimension: where they lie, whose they are, from where."""

    dim: int
    first: int
    end: int
    source: int
    start: int


@cites(DISJOINT)
def concatenate_disjoint(draft: Draft, op: Op) -> Form | None:
    """Parts that fill a dimension and don't overlap, one behind the other.

    rewrite:
        %a = pad %x, 0, low = [0], high = [509] ; %b = pad %y, 0, low = [3], high = [0]
        %s = add %a, %b                   : f32[512]
        ->
        %s = concatenate %x, %y           : f32[512]
    """
    parts = _parts(draft, op, _MOST)
    if parts is None or len(parts) < 2:
        return None
    dim = parts[0].dim
    parts.sort()
    ends = [0, *(part.end for part in parts)]
    if ends[:-1] != [p.first for p in parts] or ends[-1] != _size(draft, op, dim):
        return None
    operands = tuple(_rows(draft, part, op) for part in parts)
    attrs = {"dimension": f"{dim} : i64"}
    return Form("stablehlo.concatenate", attrs, operands)


def _size(draft: Draft, op: Op, dim: int) -> int:
    return draft.types[op.results[0]].shape[dim]


def _parts(draft: Draft, op: Op, most: int) -> list[Part] | None:
    """What a sum of pads with zeros is made of, along one dimension.

    Pads are added one by one, so that a sum is of a pad and another sum, or pad.
    """
    first, *rest = (draft.maker(value, "pad") for value in op.operands)
    if first is None and rest == [None]:
        return None
    found: list[Part] = []
    for value in op.operands:
        maker = draft.maker(value, "add", "pad") if most else None
        if maker is None:
            return None
        is_pad = maker.signature.name == "pad"
        parts = _padded(draft, maker) if is_pad else _parts(draft, maker, most - 1)
        if parts is None:
            return None
        found += parts
    return found if len({part.dim for part in found}) == 1 else None


def _padded(draft: Draft, op: Op) -> list[Part] | None:
    edges, (operand, fill) = edges_of(op), op.operands
    if edges is None or any(edges.interior):
        return None
    dims = [
        d for d, ends in enumerate(zip(edges.low, edges.high, strict=True)) if any(ends)
    ]
    zero = is_identity("sum", draft.types[fill], draft.splats.get(fill))
    if len(dims) != 1 or not zero:
        return None
    (dim,) = dims
    low, size = edges.low[dim], draft.types[operand].shape[dim]
    first, end = max(low, 0), min(low + size, _size(draft, op, dim))
    return [Part(dim, first, end, operand, first - low)] if first < end else []


def _rows(draft: Draft, part: Part, reader: Op) -> int:
    """A part as a value: all rows of its source, or some."""
    type_ = draft.types[part.source]
    rows = part.end - part.first
    if rows == type_.shape[part.dim]:
        return part.source
    form = sliced(part.source, type_.shape, part.dim, part.start, rows)
    shape = [rows if d == part.dim else n for d, n in enumerate(type_.shape)]
    return draft.insert(form, type_.with_shape(tuple(shape)), reader)
