"""Parts of a product that a reshape sets apart: slices of the product itself.

Fused projections written as a reshape and an index: columns that lie side by side can
be tiled as they are; as the second of two dimensions they can't.
"""

from __future__ import annotations

import math

from partir.ir.attributes import ints
from partir.ir.core import Op
from partir.normal.draft import Draft, Form
from partir.normal.edges import Edges, edges_of
from partir.normal.unmerged import BETWEEN
from partir.rules.identities import SET_APART, cites
from partir.rules.shape import matching_groups

_MOST = 4  # ops between a product and the reshape


@cites(SET_APART)
def slice_before_reshape(draft: Draft, op: Op) -> Form | None:
    """A slice of the first dimension that another one was split into.

    rewrite:
        %p = dot %x, %w       : f32[512,192]
        %r = reshape %p       : f32[512,3,64]
        %q = slice %r [0:512, 1:2, 0:64]
        ->
        %s = slice %p [0:512, 64:128]
        %q = reshape %s       : f32[512,1,64]

    A transpose in between comes last.
    """
    turned, edges = draft.maker(op.operands[0], "transpose"), edges_of(op)
    if edges is None:
        return None
    order = _order(turned) if turned else tuple(range(len(edges.low)))
    maker = draft.maker(turned.operands[0] if turned else op.operands[0], "reshape")
    if maker is None or not _is_product(draft, maker.operands[0]):
        return None
    source, apart = maker.operands[0], draft.types[maker.results[0]]
    type_, edges = draft.types[source], edges.before(order)
    cut = _cut_before(type_.shape, apart.shape, edges)
    if cut is None:
        return None
    form = cut.form(source, type_.shape)._replace(location=op.location)
    value = draft.insert(form, type_.with_shape(cut.left_of(type_.shape)), op)
    form = Form("stablehlo.reshape", {}, (value,), location=maker.location)
    if turned is None:
        return form
    value = draft.insert(form, apart.with_shape(edges.left_of(apart.shape)), op)
    attrs = turned.signature.attrs
    return Form("stablehlo.transpose", attrs, (value,), location=turned.location)


def _order(transpose: Op) -> tuple[int, ...]:
    return ints(transpose.signature.attrs["permutation"])


def _is_product(draft: Draft, value: int) -> bool:
    """Whether it is a product, perhaps with a bias or the like."""
    for _ in range(_MOST):
        maker = draft.maker(value, "dot_general", *BETWEEN)
        if maker is None:
            return False
        if maker.signature.name == "dot_general":
            return True
        repeated = draft.maker(maker.operands[0], "broadcast_in_dim")
        value = maker.operands[0 if repeated is None else -1]
    return False


def _cut_before(
    before: tuple[int, ...], after: tuple[int, ...], edges: Edges
) -> Edges | None:
    """What a slice cuts, in dimensions before a reshape; None if that is no slice.

    It is not where something other than the first part of a dimension is cut, and not
    worth it where no dimension was split.
    """
    low, high = [0] * len(before), [0] * len(before)
    left = {dim for dim in range(len(after)) if edges.low[dim] or edges.high[dim]}
    split = False
    for whole, parts in matching_groups(before, after):
        if not left.intersection(parts):
            continue
        if len(whole) > 1 or left.intersection(parts[1:]):
            return None
        inner = math.prod(after[dim] for dim in parts[1:])
        low[whole[0]] = edges.low[parts[0]] * inner
        high[whole[0]] = edges.high[parts[0]] * inner
        left.discard(parts[0])
        split = split or len(parts) > 1
    if left or not split:
        return None
    return Edges(tuple(low), tuple(high), (0,) * len(before), None)
