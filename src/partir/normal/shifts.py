"""Chains of pads and slices: one of them, which knows where elements come from."""

from __future__ import annotations

from partir.ir.core import Op
from partir.normal.draft import Draft, Form
from partir.normal.edges import Edges, edges_of, joined
from partir.rules.identities import SHIFTED, cites


@cites(SHIFTED)
def join_edges(draft: Draft, op: Op) -> Form | None:
    """Shifts and crops, in one step instead of by way of an odd size.

    rewrite:
        %p = pad %x, low = [1], high = [0]     : f32[513]
        %s = slice %p [0:512]                  : f32[512]
        ->
        %s = pad %x, low = [1], high = [-1]    : f32[512]
    """
    value = op.operands[0]
    maker = draft.maker(value, "pad", "slice")
    if maker is None:
        return None
    inner, outer = edges_of(maker), edges_of(op)
    if inner is None or outer is None or _cuts_elsewhere(inner, outer):
        return None
    both = joined(draft, inner, outer)
    if both is None or not _keeps_rules(both, op, inner):
        return None
    if not draft.has_one_reader(value) and not _gains(inner, outer, both):
        return None
    return both.form(maker.operands[0], maker.signature.operands[0].shape)


def _cuts_elsewhere(inner: Edges, outer: Edges) -> bool:
    """Whether the first cuts off what the second would have to move."""
    return inner.only_cut and inner.dims.isdisjoint(outer.dims)


def _gains(inner: Edges, outer: Edges, both: Edges) -> bool:
    """Whether not to read what others read as well, who keep it.

    Not if that is nearer than what it was made of; of a slice, never.
    """
    return not inner.only_cut and both.distance <= outer.distance


def _keeps_rules(both: Edges, op: Op, inner: Edges) -> bool:
    """Whether the one op can be looped over where the two could be.

    Elements that lie apart go in groups. One row is found by a sum, which what is
    filled in has no part in.
    """
    made, before = op.signature.results[0].shape, op.signature.operands[0].shape
    for dim, size in enumerate(made):
        share = inner.interior[dim] + 1
        if size % share and not before[dim] % share:
            return False
        if size == 1 != before[dim] and not both.only_cut:
            return False
    return True
