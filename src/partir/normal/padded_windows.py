"""Windows over what was padded with what they leave out: their own padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from partir.ir.attributes import i64_array
from partir.ir.core import Op
from partir.normal.draft import Draft, Form
from partir.normal.edges import Edges, edges_of
from partir.normal.loops import keeps_loops
from partir.rules.convolution import ConvolutionDims
from partir.rules.identities import PADDED, POOLED, cites
from partir.rules.monoids import common_monoid, is_identity
from partir.rules.window import (
    FILLED,
    SlidingWindow,
    never_chosen,
    pooling_windows,
    reduction_windows,
)


@cites(PADDED)
def pad_reduction(draft: Draft, op: Op) -> Form | None:
    """A pool of what was padded, or spread, with what its reduction starts from.

    rewrite:
        %p = pad %x, 0, low = [1], high = [1]
        %y = reduce_window sum %p, 0, size = [3]
        ->
        %y = reduce_window sum %x, 0, size = [3], padding = [1, 1]
    """
    if len(op.results) != 1:
        return None
    monoid = common_monoid(op.signature.lambdas[0], 1)
    slide = reduction_windows(op.signature)
    found = _padded(draft, op, monoid)
    init = op.operands[1]
    known = is_identity(monoid or "", draft.types[init], draft.splats.get(init))
    if found is None or monoid is None or not known:
        return None
    operand, edges = found
    if min((*edges.low, *edges.high), default=0) < 0:
        return None
    attrs = _joined(op, slide, range(len(slide)), edges, "base_dilations")
    return _form(draft, op, attrs, operand)


@cites(PADDED)
def pad_convolution(draft: Draft, op: Op) -> Form | None:
    """A convolution of what was padded, or spread, with zeros.

    rewrite:
        %p = pad %x, 0, low = [0, 1, 0], high = [0, 1, 0]
        %y = convolution %p, %w
        ->
        %y = convolution %x, %w, padding = [1, 1]
    """
    found = _padded(draft, op, "sum")
    if found is None:
        return None
    operand, edges = found
    dims = ConvolutionDims.of(op.signature)
    spatial = [dims.left[str(number)] for number in range(len(dims.windows))]
    others = [d for d in range(len(edges.low)) if d not in spatial]
    for dim in others:
        if edges.low[dim] or edges.high[dim] or edges.interior[dim]:
            return None
    attrs = _joined(op, dims.windows, spatial, edges, "lhs_dilation")
    return _form(draft, op, attrs, operand)


@cites(POOLED)
def pad_pool_gradient(draft: Draft, op: Op) -> Form | None:
    """The gradient of a padded pool; what it gives to the padding is cut off.

    rewrite:
        %p = pad %x, -inf, low = [0], high = [1]
        %g = select_and_scatter %p, %y, 0, size = [3], stride = [2]
        %s = slice %g [0:512]
        ->
        %s = select_and_scatter %x, %y, 0, …, padding = [0, 1], filled
    """
    value = op.operands[0]
    pooled, cut = draft.maker(value, "select_and_scatter"), edges_of(op)
    if pooled is None or cut is None or not draft.has_one_reader(value):
        return None
    maker = draft.maker(pooled.operands[0], "pad")
    edges = None if maker is None else edges_of(maker)
    if maker is None or edges is None or any(edges.interior) or edges.fill is None:
        return None
    slide = pooling_windows(pooled.signature)
    if any(window.low or window.high for window in slide):
        return None
    back = [tuple(-n for n in ends) for ends in (edges.low, edges.high)]
    never, number = never_chosen(pooled.signature), draft.splats.get(edges.fill)
    if [cut.low, cut.high] != back or never is None or never != number:
        return None
    attrs = {**pooled.signature.attrs, FILLED: "true"}
    attrs["padding"] = _paddings(zip(edges.low, edges.high, strict=True))
    operands = (maker.operands[0], *pooled.operands[1:])
    form = Form(pooled.kind, attrs, operands, pooled.signature.lambdas)
    return form if keeps_loops(draft, pooled.signature, form, op.results[0]) else None


def _padded(draft: Draft, op: Op, monoid: str | None) -> tuple[int, Edges] | None:
    """What is under the padding of the first operand, if that does not count."""
    maker = draft.maker(op.operands[0], "pad")
    edges = None if maker is None else edges_of(maker)
    if maker is None or edges is None or monoid is None:
        return None
    fill = maker.operands[1]
    if not is_identity(monoid, draft.types[fill], draft.splats.get(fill)):
        return None
    return maker.operands[0], edges


def _joined(
    op: Op,
    slide: Sequence[SlidingWindow],
    dims: Sequence[int],
    edges: Edges,
    spread: str,
) -> dict[str, str] | None:
    """Attributes of the op with the edges in its padding; None if it has them cut."""
    paddings, bases = [], []
    for window, dim in zip(slide, dims, strict=True):
        base, ends = window.base_dilation, (edges.low[dim], edges.high[dim])
        own = (window.low, window.high)
        # What was cut off can't come back as padding.
        if any(edge < 0 < more for edge, more in zip(ends, own, strict=True)):
            return None
        paddings.append([m + base * e for e, m in zip(ends, own, strict=True)])
        bases.append(base * (edges.interior[dim] + 1))
    return {
        **op.signature.attrs,
        "padding": _paddings(paddings),
        spread: i64_array(bases),
    }


def _paddings(pairs: Iterable[Sequence[int]]) -> str:
    listed = [list(pair) for pair in pairs]
    return f"dense<{listed}> : tensor<{len(listed)}x2xi64>"


def _form(
    draft: Draft, op: Op, attrs: dict[str, str] | None, operand: int
) -> Form | None:
    """The op on what was under the padding, if it can be looped over as before."""
    if attrs is None:
        return None
    operands = (operand, *op.operands[1:])
    form = Form(op.kind, attrs, operands, op.signature.lambdas)
    kept = keeps_loops(draft, op.signature, form, op.results[0])
    return form if kept else None
