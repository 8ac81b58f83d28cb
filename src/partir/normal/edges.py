"""`Edges`: what a pad or a slice puts before, behind and between elements, or cuts."""

from __future__ import annotations

from dataclasses import dataclass

from partir.ir.attributes import i64_array, ints
from partir.ir.core import Op
from partir.normal.draft import Draft, Form

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Edges:
    """Elements of each dimension added before (`low`), behind (`high`), between.

    Negative ones are cut off. `fill` is the value that has what is added, None if
    nothing is.
    """

    low: Sizes
    high: Sizes
    interior: Sizes
    fill: int | None

    @property
    def distance(self) -> int:
        """How far elements lie from where they were, at most, over all dimensions."""
        return sum(
            max(abs(a), abs(b)) for a, b in zip(self.low, self.high, strict=True)
        )

    @property
    def only_cut(self) -> bool:
        """Whether nothing is added."""
        return max((*self.low, *self.high, *self.interior), default=0) <= 0

    @property
    def dims(self) -> set[int]:
        """Dimensions that have edges."""
        edges = zip(self.low, self.high, self.interior, strict=True)
        return {dim for dim, sizes in enumerate(edges) if any(sizes)}

    def left_of(self, shape: Sizes) -> Sizes:
        """What is left of a shape where something is cut off."""
        ends = zip(shape, self.low, self.high, strict=True)
        return tuple(size + low + high for size, low, high in ends)

    def before(self, order: Sizes) -> Edges:
        """The same of what is transposed, dimensions as `order` says."""
        places = [order.index(dim) for dim in range(len(order))]
        low, high, interior = (
            tuple(sizes[place] for place in places)
            for sizes in (self.low, self.high, self.interior)
        )
        return Edges(low, high, interior, self.fill)

    def form(self, operand: int, shape: Sizes) -> Form:
        """As a slice if nothing is added, else as a pad."""
        if self.only_cut:
            starts = [-low for low in self.low]
            limits = [n + high for n, high in zip(shape, self.high, strict=True)]
            attrs = {
                "start_indices": i64_array(starts),
                "limit_indices": i64_array(limits),
                "strides": i64_array([1] * len(shape)),
            }
            return Form("stablehlo.slice", attrs, (operand,))
        assert self.fill is not None
        attrs = {
            "edge_padding_low": i64_array(self.low),
            "edge_padding_high": i64_array(self.high),
            "interior_padding": i64_array(self.interior),
        }
        return Form("stablehlo.pad", attrs, (operand, self.fill))


def edges_of(op: Op) -> Edges | None:
    """Those of a pad, or of a slice that takes neighbours."""
    attrs, shape = op.signature.attrs, op.signature.operands[0].shape
    if op.signature.name == "pad":
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
        low, high, interior = (ints(attrs[name]) for name in names)
        made = Edges(low, high, interior, op.operands[1])
        return Edges(low, high, interior, None) if made.only_cut else made
    names = ("start_indices", "limit_indices", "strides")
    starts, limits, strides = (ints(attrs[name]) for name in names)
    if any(stride != 1 for stride in strides):
        return None
    cut = tuple(limit - size for limit, size in zip(limits, shape, strict=True))
    return Edges(tuple(-start for start in starts), cut, (0,) * len(shape), None)


def joined(draft: Draft, inner: Edges, outer: Edges) -> Edges | None:
    """Both at once; None if that is neither one pad nor one slice."""
    fill = inner.fill if inner.fill is not None else outer.fill
    for other in (inner.fill, outer.fill):
        if fill is not None and other is not None and not draft.same(fill, other):
            return None
    ends = [(inner.low, outer.low), (inner.high, outer.high)]
    for first, second in ends:
        # What was cut off can't come back as what is added.
        if any(a < 0 < b for a, b in zip(first, second, strict=True)):
            return None
    if any(outer.interior):
        return None
    low, high = (tuple(map(sum, zip(*end, strict=True))) for end in ends)
    made = Edges(low, high, inner.interior, fill)
    return Edges(low, high, inner.interior, None) if made.only_cut else made
