"""Windows that slide: reduce_window (pooling, cumulative sums), select_and_scatter.

Where every window lies in one tile (windows of one element, or side by side, without
padding), a dimension is cut into tiles. Else a tile is read with what its windows reach
of its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from partir.ir.attributes import FORMED, i64_array, ints
from partir.ir.core import Lambda, Signature
from partir.ir.types import TensorType
from partir.rules.factor import Factor
from partir.rules.local import (
    Emitter,
    Ssa,
    binary,
    constant,
    padded,
    sliced,
    spread,
)
from partir.rules.monoids import IDEMPOTENT, OPS, common_monoid, identity, neutral
from partir.rules.nest import Nest
from partir.rules.reach import Reach
from partir.rules.registry import local_attrs, local_form, rule


@dataclass(frozen=True, slots=True)
class SlidingWindow:
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

    @property
    def span(self) -> int:
        """From its first to its last element, in steps of the dilated input."""
        return (self.size - 1) * self.dilation + 1

    def beside(
        self, whole: int, count: int, fill: int | str
    ) -> tuple[int, Reach] | None:
        """How often `count` windows fall into equal groups, and what a group reads.

        A group has one result, or as many as lie between elements of a dilated input.
        None if windows are as long as the input (cumulative sums), or results don't
        fall into groups.
        """
        dilation, step = self.base_dilation, math.gcd(self.base_dilation, self.stride)
        shared = dilation // step
        if count % shared or self.span >= whole * dilation:
            return None
        first = -(self.low // dilation)
        last = ((shared - 1) * self.stride - self.low + self.span - 1) // dilation
        rows = max(last - first + 1, 1)
        return count // shared, Reach(self.stride // step, first, rows, fill)

    def paddings_of(self, rows: int, count: int) -> tuple[int, int]:
        """Padding of so many rows of the input that gives `count` results."""
        low = self.low % self.base_dilation
        wanted = (count - 1) * self.stride + self.span
        return low, wanted - low - (rows - 1) * self.base_dilation - 1

    def over_all(self, whole: int, count: int) -> bool:
        """Whether the one window covers the whole dimension."""
        return self.plain and count == 1 and self.size == whole and self.dilation == 1


def windows(op: Signature, sizes: Sequence[int]) -> list[SlidingWindow]:
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
        SlidingWindow(
            sizes[dim],
            strides[dim],
            paddings[2 * dim],
            paddings[2 * dim + 1],
            base[dim],
            dilations[dim],
        )
        for dim in range(rank)
    ]


def reduction_windows(op: Signature) -> list[SlidingWindow]:
    """The windows of a reduce_window."""
    return windows(op, ints(op.attrs["window_dimensions"]))


@rule("reduce_window")
def reduce_window(op: Signature) -> Iterator[Factor]:
    """``(~i, k), () -> (i, _) sum=k``; in tiles where windows are side by side along i.

    XLA leaves out what is padding, so that it is the identity in windows. Along k one
    window covers all; there the initial value counts once, which it does
    not where it is padding too: a tile would have only its share of that.
    """
    count = len(op.results)
    inits = (None,) * count
    slide = reduction_windows(op)
    adds = monoid = common_monoid(op.lambdas[0], count)
    if monoid not in IDEMPOTENT and not all(window.plain for window in slide):
        monoid = None
    once = tuple(range(count, 2 * count))
    whole, results = op.operands[0].shape, op.results[0].shape
    for dim, window in enumerate(slide):
        operands = (dim,) * count + inits
        if dim in ints(op.attrs.get(_SINGLE, "")):
            continue
        if monoid and window.over_all(whole[dim], results[dim]):
            yield Factor(whole[dim], operands, (None,) * count, monoid, once)
        elif window.side_by_side(whole[dim], results[dim]):
            yield Factor(results[dim], operands, (dim,) * count)
        elif adds and (beside := window.beside(whole[dim], results[dim], "")):
            size, reach = beside
            fills = (neutral(adds, operand) for operand in op.operands[:count])
            yield Factor(
                size,
                operands,
                (dim,) * count,
                reach=tuple(replace(reach, fill=fill) for fill in fills),
                loose=size == results[dim],
            )


# Dimensions of which loops have left a single window, read beside its tile.
_SINGLE = "partir.single_window"


def window_dims(nest: Nest) -> dict[int, int]:
    """Dimensions of the first operand read beside tiles, and the result's there."""
    return {
        dim: made
        for loop in nest.loops
        if loop.factor.reach_of(0) is not None
        and (dim := loop.factor.operands[0]) is not None
        and (made := loop.factor.results[0]) is not None
    }


@local_attrs("reduce_window")
def reduce_window_attrs(nest: Nest) -> dict[str, str]:
    """A window over all of a dimension covers all of the tile; others stay.

    What lies beside a tile is in the operand already, the padding too. One window that
    is left of many looks like one over all; its elements are not to be cut apart.
    """
    attrs = dict(nest.signature.attrs)
    slide = reduction_windows(nest.signature)
    paddings = [[window.low, window.high] for window in slide]
    for beside in window_dims(nest):
        rows, made = (
            types[0].shape[beside] for types in (nest.operand_types, nest.result_types)
        )
        paddings[beside] = list(slide[beside].paddings_of(rows, made))
    if window_dims(nest):
        attrs["padding"] = f"dense<{paddings}> : tensor<{len(paddings)}x2xi64>"
    single = [d for d in window_dims(nest) if nest.result_types[0].shape[d] == 1]
    if single:
        attrs[_SINGLE] = i64_array(single)
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
    signature, types, attrs = nest.signature, nest.result_types, dict(nest.attrs)
    attrs.pop(_SINGLE, None)
    sizes = ints(attrs["window_dimensions"])
    if not tiled or max(sizes, default=1) > 1:
        return emitter.op(signature.kind, operands, types, attrs, signature.lambdas)
    count = len(nest.result_types)
    inits = operands[count:]
    empty = [
        constant(emitter, init.type, neutral(tiled[0], init.type)) for init in inits
    ]
    alone = (*operands[:count], *empty)
    made = emitter.op(signature.kind, alone, types, attrs, signature.lambdas)
    kind = OPS[tiled[0]].removeprefix("stablehlo.")
    return tuple(
        binary(emitter, kind, value, spread(emitter, init, value.type))
        for value, init in zip(made, inits, strict=True)
    )


def pooling_windows(op: Signature) -> list[SlidingWindow]:
    """The windows of a select_and_scatter."""
    rank = len(op.operands[0].shape)
    sizes = (1,) * rank
    if "window_dimensions" in op.attrs:
        sizes = ints(op.attrs["window_dimensions"])
    return windows(op, sizes)


@rule("select_and_scatter")
def select_and_scatter(op: Signature) -> Iterator[Factor]:
    """``(~i), (~i), () -> (i)``; in tiles where windows are side by side.

    Else a tile is made of all windows that reach into it, which then cover it. Not
    where padding is left out: in the first and the last tile it would be numbers, which
    are chosen in the end where there are only infinite ones, or nan.
    """
    whole, source = op.operands[0].shape, op.operands[1].shape
    for dim, window in enumerate(pooling_windows(op)):
        if dim in ints(op.attrs.get(_CUT_OUT, "")):
            continue
        if window.side_by_side(whole[dim], source[dim]):
            yield Factor(source[dim], (dim, dim, None), (dim,))
            continue
        fill, adds = never_chosen(op), _adds(op.lambdas[1], op.operands[1].dtype)
        covers = whole[dim] % window.stride == 0 and window.size >= window.stride
        numbers = FILLED in op.attrs or window.plain
        if fill is None or not adds or not covers or not numbers:
            continue
        first, last = _sources(window)
        read = (first * window.stride - window.low, (last - first) * window.stride)
        operand = Reach(window.stride, read[0], read[1] + window.size, fill)
        nothing_ = neutral("sum", op.operands[1])
        updates = Reach(1, first, last - first + 1, nothing_)
        yield Factor(
            whole[dim] // window.stride,
            (dim, dim, None),
            (dim,),
            reach=(operand, updates),
        )


# Dimensions along which the result is cut out of a larger one.
_CUT_OUT = "partir.cut_out"
# Padding has numbers, chosen only where there are no others: what it gets is lost.
# StableHLO leaves padding out instead.
FILLED = FORMED
_MARKS = (_CUT_OUT, FILLED)


def _sources(window: SlidingWindow) -> tuple[int, int]:
    """Windows, counted from the i-th, that reach into the i-th stride of the input."""
    first = -((window.size - 1 - window.low) // window.stride)
    return first, (window.stride - 1 + window.low) // window.stride


def _adds(region: Lambda, dtype: str) -> bool:
    return common_monoid(region, 1) == "sum" and dtype != "i1"


def never_chosen(op: Signature) -> str | None:
    """What `select` prefers every number to, if it takes the largest or smallest."""
    region = op.lambdas[0]
    if len(region.ops) != 1 or region.ops[0].signature.name != "compare":
        return None
    (test,) = region.ops
    direction = test.signature.attrs.get("comparison_direction", "")
    straight = test.operands == region.arguments
    larger = any(f" {name}>" in direction for name in ("GE", "GT"))
    if not straight or not (larger or any(f" {n}>" in direction for n in ("LE", "LT"))):
        return None
    return identity("max" if larger else "min", op.operands[0])


@local_attrs("select_and_scatter")
def select_and_scatter_attrs(nest: Nest) -> dict[str, str]:
    """What is read in windows has its padding in it."""
    paddings = [[window.low, window.high] for window in pooling_windows(nest.signature)]
    beside = window_dims(nest)
    if not beside:
        return nest.signature.attrs
    for dim in beside:
        paddings[dim] = [0, 0]
    text = f"dense<{paddings}> : tensor<{len(paddings)}x2xi64>"
    mark = {_CUT_OUT: i64_array(sorted(beside))}
    return {**nest.signature.attrs, "padding": text, **mark}


@local_form("select_and_scatter")
def select_and_scatter_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """As large as what is read, padding too if it has numbers; then cut out."""
    signature, beside = nest.signature, window_dims(nest)
    slide, made_type = pooling_windows(signature), nest.result_types[0]
    starts = [0] * len(slide)
    for dim in beside:
        window = slide[dim]
        starts[dim] = window.low - _sources(window)[0] * window.stride
    attrs = {name: text for name, text in nest.attrs.items() if name not in _MARKS}
    if FILLED in nest.attrs:
        around = [
            (0, 0) if dim in beside else (window.low, window.high)
            for dim, window in enumerate(slide)
        ]
        operands = (_surrounded(nest, emitter, operands[0], around), *operands[1:])
        starts = [a + b for a, (b, _) in zip(starts, around, strict=True)]
        attrs.pop("padding")
    wide = made_type.with_shape(_read_shape(made_type, operands[0], nest, beside))
    (made,) = emitter.op(signature.kind, operands, (wide,), attrs, signature.lambdas)
    cut = wide != made_type
    return (sliced(emitter, made, starts, made_type.shape) if cut else made,)


def _read_shape(
    made: TensorType, operand: Ssa, nest: Nest, beside: dict[int, int]
) -> tuple[int, ...]:
    """Shape of what is made before it is cut: what is read, where that is wider."""
    filled = FILLED in nest.attrs
    return tuple(
        operand.type.shape[dim] if filled or dim in beside else size
        for dim, size in enumerate(made.shape)
    )


def _surrounded(
    nest: Nest, emitter: Emitter, value: Ssa, around: Sequence[tuple[int, int]]
) -> Ssa:
    """A value with padding that is never chosen."""
    number = never_chosen(nest.signature)
    if number is None or not any(map(any, around)):
        return value
    low, high = zip(*around, strict=True)
    return padded(emitter, value, low, high, [0] * len(around), number)
