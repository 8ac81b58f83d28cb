"""Windows that slide: reduce_window (pooling, cumulative sums), select_and_scatter.

A dimension is tiled where every window lies in one tile: windows of one element, or
windows side by side (pooling with a stride as long as the window), without padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from partir.ir.attributes import i64_array, ints
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import (
    Emitter,
    Ssa,
    binary,
    constant,
    emit_default,
    spread,
)
from partir.rules.monoids import IDEMPOTENT, OPS, common_monoid, neutral
from partir.rules.nest import Nest
from partir.rules.registry import local_attrs, local_form, rule


@dataclass(frozen=True, slots=True)
class Window:
    """How windows slide along one dimension."""

    size: int
    stride: int
    low: int
    high: int
    base_dilation: int
    dilation: int

    @property
    def plain(self) -> bool:
        """Whether the dimension is taken as it is."""
        return self.base_dilation == 1 and not self.low and not self.high

    def side_by_side(self, whole: int, count: int) -> bool:
        """Whether each of `count` windows has a stretch of its own, all `whole` used.

        As long as a stride each, they can't be longer than that: the last fits in.
        """
        return self.plain and count * self.stride == whole

    def over_all(self, whole: int, count: int) -> bool:
        """Whether the one window covers the whole dimension."""
        return self.plain and count == 1 and self.size == whole and self.dilation == 1


def windows(op: Signature, sizes: Sequence[int]) -> list[Window]:
    """The windows of an op along its dimensions, by attributes that may be absent."""
    rank = len(sizes)

    def read(*names: str) -> tuple[int, ...]:
        found = (op.attrs[name] for name in names if name in op.attrs)
        return ints(next(found, i64_array([1] * rank)))

    paddings = ints(op.attrs["padding"]) if "padding" in op.attrs else (0,) * 2 * rank
    strides = read("window_strides")
    base = read("base_dilations", "lhs_dilation")
    dilations = read("window_dilations", "rhs_dilation")
    return [
        Window(
            sizes[dim],
            strides[dim],
            paddings[2 * dim],
            paddings[2 * dim + 1],
            base[dim],
            dilations[dim],
        )
        for dim in range(rank)
    ]


@rule("reduce_window")
def reduce_window(op: Signature) -> Iterator[Factor]:
    """``(i, k), () -> (i, _) sum=k`` where windows are side by side along i.

    Along k one window covers all; there the initial value counts once, which it does
    not where it is padding too: a tile would have only its share of that.
    """
    count = len(op.results)
    inits = (None,) * count
    slide = windows(op, ints(op.attrs["window_dimensions"]))
    monoid = common_monoid(op.lambdas[0], count)
    if monoid not in IDEMPOTENT and not all(window.plain for window in slide):
        monoid = None
    once = tuple(range(count, 2 * count))
    whole, results = op.operands[0].shape, op.results[0].shape
    for dim, window in enumerate(slide):
        operands = (dim,) * count + inits
        if monoid and window.over_all(whole[dim], results[dim]):
            yield Factor(whole[dim], operands, (None,) * count, monoid, once)
        elif window.side_by_side(whole[dim], results[dim]):
            yield Factor(results[dim], operands, (dim,) * count)


@local_attrs("reduce_window")
def reduce_window_attrs(nest: Nest) -> dict[str, str]:
    """A window over all of a dimension covers all of the tile; others stay."""
    attrs = dict(nest.signature.attrs)
    sizes = list(ints(attrs["window_dimensions"]))
    for loop in nest.loops:
        dim = loop.factor.operands[0]
        if loop.factor.reduce and dim is not None:
            sizes[dim] = nest.operand_types[0].shape[dim]
    return {**attrs, "window_dimensions": i64_array(sizes)}


@local_form("reduce_window")
def reduce_window_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """As it is, but windows of one element are joined to the initial value behind it.

    XLA takes the initial value to be the identity there and leaves it out.
    """
    tiled = [loop.factor.reduce for loop in nest.loops if loop.factor.reduce]
    sizes = ints(nest.attrs["window_dimensions"])
    if not tiled or max(sizes, default=1) > 1:
        return emit_default(nest, emitter, operands)
    count = len(nest.result_types)
    inits = operands[count:]
    empty = [
        constant(emitter, init.type, neutral(tiled[0], init.type)) for init in inits
    ]
    made = emit_default(nest, emitter, (*operands[:count], *empty))
    kind = OPS[tiled[0]].removeprefix("stablehlo.")
    return tuple(
        binary(emitter, kind, value, spread(emitter, init, value.type))
        for value, init in zip(made, inits, strict=True)
    )


@rule("select_and_scatter")
def select_and_scatter(op: Signature) -> Iterator[Factor]:
    """``(i), (i), () -> (i)`` where windows are side by side."""
    sizes = (
        ints(op.attrs["window_dimensions"])
        if "window_dimensions" in op.attrs
        else (1,) * len(op.operands[0].shape)
    )
    whole, source = op.operands[0].shape, op.operands[1].shape
    for dim, window in enumerate(windows(op, sizes)):
        if window.side_by_side(whole[dim], source[dim]):
            yield Factor(source[dim], (dim, dim, None), (dim,))
