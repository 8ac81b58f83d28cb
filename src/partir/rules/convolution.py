"""convolution: batch, features, groups of either, space in windows, the kernel."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from partir.ir.attributes import i64_array, integer, ints
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import (
    Emitter,
    Ssa,
    all_starts,
    binary,
    constant,
    converted,
    padded,
    place_type,
    sliced_at,
    tile_offset,
)
from partir.rules.monoids import adding, identity
from partir.rules.nest import Nest
from partir.rules.reach import Reach
from partir.rules.registry import local_attrs, local_form, rule
from partir.rules.window import SlidingWindow, windows

_SIDE = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class ConvolutionDims:
    """Where in the left operand, the kernel and the result a convolution has what.

    Each is a mapping from `b`, `f`, `i`, `o` or the number of a spatial dimension.
    """

    left: dict[str, int]
    kernel: dict[str, int]
    result: dict[str, int]
    feature_groups: int
    batch_groups: int
    windows: tuple[SlidingWindow, ...]

    @classmethod
    def of(cls, op: Signature) -> ConvolutionDims:
        """Read an op's attributes."""
        left, kernel, result = (
            {name.strip(): dim for dim, name in enumerate(side.split(","))}
            for side in _SIDE.findall(op.attrs["dimension_numbers"])
        )
        spatial = range(len(left) - 2)
        sizes = [op.operands[1].shape[kernel[str(n)]] for n in spatial]
        return cls(
            left,
            kernel,
            result,
            integer(op.attrs["feature_group_count"]),
            integer(op.attrs["batch_group_count"]),
            tuple(windows(op, sizes)),
        )


@rule("convolution")
def convolution(op: Signature) -> Iterator[Factor]:
    """``(b, i, ~x), (o, i, k) -> (b, o, x) sum=i sum=k``.

    Groups of features or of batches are tiled instead of what they divide.
    """
    dims = ConvolutionDims.of(op)
    left, kernel = op.operands[0].shape, op.operands[1].shape
    b, f, i, o = dims.left["b"], dims.left["f"], dims.kernel["i"], dims.kernel["o"]
    out_b, out_f = dims.result["b"], dims.result["f"]
    if dims.batch_groups > 1:
        yield Factor(dims.batch_groups, (b, o), (out_f,))
    else:
        yield Factor(left[b], (b, None), (out_b,))
    if dims.feature_groups > 1:
        yield Factor(dims.feature_groups, (f, o), (out_f,))
    elif dims.batch_groups == 1:
        yield Factor(kernel[o], (None, o), (out_f,))
    monoid = adding(op.results[0].dtype)
    if dims.feature_groups == 1 and monoid:
        yield Factor(kernel[i], (f, i), (None,), monoid)
    parts = (*_marked(op, _KERNEL_IN_PARTS), *_marked(op, _BOTH_IN_PARTS))
    for number in range(len(dims.windows)):
        if number not in parts:
            yield from _along(op, dims, number)
        empty = not op.results[0].shape[dims.result[str(number)]]  # nothing to sum
        if monoid and not empty and number not in _marked(op, _READ_IN_WINDOWS):
            yield _kernel_along(op, dims, number, monoid)


# Spatial dimensions along which loops have cut the kernel, kernel and input together,
# or the input into windows: inside of them, only the same can be done again.
_KERNEL_IN_PARTS = "partir.kernel_in_parts"
_BOTH_IN_PARTS = "partir.both_in_parts"
_READ_IN_WINDOWS = "partir.read_in_windows"
_MARKS = (_KERNEL_IN_PARTS, _BOTH_IN_PARTS, _READ_IN_WINDOWS)


def _marked(op: Signature, mark: str) -> tuple[int, ...]:
    return ints(op.attrs.get(mark, ""))


def _along(op: Signature, dims: ConvolutionDims, number: int) -> Iterator[Factor]:
    """Along a spatial dimension: in tiles, or with what windows reach beside them."""
    window, spatial = dims.windows[number], str(number)
    x, y = dims.left[spatial], dims.result[spatial]
    whole, count = op.operands[0].shape[x], op.results[0].shape[y]
    parts = _independent(window, whole, count)
    if parts > 1:
        yield Factor(parts, (x, None), (y,))
    elif count >= window.size:
        beside = window.beside(whole, count, identity("sum", op.operands[0]))
        if beside is not None:
            size, reach = beside
            loose = size == count
            yield Factor(size, (x, None), (y,), reach=(reach,), loose=loose)


def _kernel_along(
    op: Signature, dims: ConvolutionDims, number: int, monoid: str
) -> Factor:
    """The kernel in tiles, and what they make summed.

    A kernel that is longer than the result is a gradient of another: each of its tiles
    sees a window of the input. If it is as long as the input, that is a tile; not if it
    is reversed: then its first tile sees the last of the input.
    """
    window, spatial = dims.windows[number], str(number)
    x, k = dims.left[spatial], dims.kernel[spatial]
    count = op.results[0].shape[dims.result[spatial]]
    backward = _reversed(op, number)
    if number in _marked(op, _KERNEL_IN_PARTS):
        return Factor(window.size, (None, k), (None,), monoid)
    as_long = window.plain and window.size * window.dilation == op.operands[0].shape[x]
    if as_long and not backward:
        return Factor(window.size, (x, k), (None,), monoid)
    both = number in _marked(op, _BOTH_IN_PARTS)
    apart = _independent(window, op.operands[0].shape[x], count) > 1
    shorter = count >= window.size
    if not both and (apart or shorter or window.base_dilation > 1):
        return Factor(window.size, (None, k), (None,), monoid)
    stride, first = window.dilation, -window.low
    if backward:
        first, stride = first + (window.size - 1) * stride, -stride
    zero = identity("sum", op.operands[0])
    reach = Reach(stride, first, (count - 1) * window.stride + 1, zero)
    loose = not backward  # what is behind the end of a turned tile comes first
    return Factor(
        window.size, (x, k), (None,), monoid, reach=(reach, None), loose=loose
    )


def _independent(window: SlidingWindow, whole: int, count: int) -> int:
    """Into how many parts input and output fall that have nothing in common.

    Either windows are side by side, or (transposed convolution) what each element of
    the input is spread over is.
    """
    if window.side_by_side(whole, count):
        return count
    length = (window.size - 1) * window.dilation + 1
    dilation = window.base_dilation
    spread = (whole - 1) * dilation + 1 + window.low + window.high
    apart = (
        window.stride == 1
        and count == whole * dilation == spread - length + 1
        and length - 1 <= window.low < dilation
    )
    return whole if apart else 1


@local_attrs("convolution")
def convolution_attrs(nest: Nest) -> dict[str, str]:
    """Each tile has its share of the groups."""
    attrs = dict(nest.signature.attrs)
    dims = ConvolutionDims.of(nest.signature)
    features, batches = dims.feature_groups, dims.batch_groups
    for loop in nest.loops:
        operands = loop.factor.operands
        if features > 1 and operands == (dims.left["f"], dims.kernel["o"]):
            features //= loop.size
        if batches > 1 and operands == (dims.left["b"], dims.kernel["o"]):
            batches //= loop.size
    attrs["feature_group_count"] = f"{features} : i64"
    attrs["batch_group_count"] = f"{batches} : i64"
    return {**attrs, **_local_windows(nest, dims)}


def _local_windows(nest: Nest, dims: ConvolutionDims) -> dict[str, str]:
    """Padding of what is read in windows, and marks."""
    paddings = [[window.low, window.high] for window in dims.windows]
    parts, both, beside = set(), set(), set()
    for loop, number in itertools.product(nest.loops, range(len(paddings))):
        spatial, factor = str(number), loop.factor
        x, k, y = dims.left[spatial], dims.kernel[spatial], dims.result[spatial]
        if factor.operands == (None, k) and factor.reduce:
            parts.add(number)
        elif factor.reach and factor.operands == (x, None):
            rows, count = nest.operand_types[0].shape[x], nest.result_types[0].shape[y]
            paddings[number] = list(dims.windows[number].paddings_of(rows, count))
            beside.add(number)
        elif factor.operands == (x, k) and factor.reduce:
            paddings[number] = [0, 0]
            both.add(number)
    attrs = {"padding": f"dense<{paddings}> : tensor<{len(paddings)}x2xi64>"}
    marks = zip(_MARKS, (parts, both, beside), strict=True)
    attrs |= {mark: i64_array(sorted(found)) for mark, found in marks if found}
    return attrs if paddings else {}


@local_form("convolution")
def convolution_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """Part of the kernel sees part of the input: where it would be in the whole."""
    dims = ConvolutionDims.of(nest.signature)
    tiled = [
        number
        for number in range(len(dims.windows))
        for loop in nest.loops
        if loop.factor.operands == (None, dims.kernel[str(number)])
        and loop.factor.reduce
    ]
    left, kernel = operands
    attrs = _unpadded(nest, dims, tiled) if tiled else dict(nest.attrs)
    for mark in _MARKS:
        attrs.pop(mark, None)
    for number in sorted(set(tiled)):
        left = _seen(nest, emitter, dims, number, left)
    if attrs.pop("window_reversal", None):
        kernel = _turned(nest, emitter, dims, kernel)
    return emitter.op(nest.signature.kind, (left, kernel), nest.result_types, attrs)


def _turned(nest: Nest, emitter: Emitter, dims: ConvolutionDims, kernel: Ssa) -> Ssa:
    """The kernel turned round by an op of its own.

    XLA forgets about it where the kernel is as long as the input and there is one
    feature, which may be so in a tile alone.
    """
    numbers = range(len(dims.windows))
    turned = [dims.kernel[str(n)] for n in numbers if _reversed(nest.signature, n)]
    if not turned:
        return kernel
    attrs = {"dimensions": i64_array(sorted(turned))}
    return emitter.op("stablehlo.reverse", (kernel,), (kernel.type,), attrs)[0]


def _unpadded(
    nest: Nest, dims: ConvolutionDims, tiled: Sequence[int]
) -> dict[str, str]:
    """Attributes without what `_seen` does along the dimensions `tiled`."""
    local = ints(nest.attrs["padding"]) if "padding" in nest.attrs else ()
    paddings, dilations = [], []
    for number, window in enumerate(dims.windows):
        done = number in tiled
        paddings.append([0, 0] if done else list(local[2 * number : 2 * number + 2]))
        dilations.append(1 if done else window.base_dilation)
    shape = f"{len(paddings)}x2xi64"
    return {
        **nest.attrs,
        "padding": f"dense<{paddings}> : tensor<{shape}>",
        "lhs_dilation": i64_array(dilations),
    }


def _seen(
    nest: Nest, emitter: Emitter, dims: ConvolutionDims, number: int, left: Ssa
) -> Ssa:
    """The input, padded, without what only other tiles of the kernel see."""
    window = dims.windows[number]
    x, k = dims.left[str(number)], dims.kernel[str(number)]
    left = _padded(emitter, left, x, window)
    size = nest.operand_types[1].shape[k]
    first = tile_offset(nest, emitter, 1, k)
    assert first is not None
    if _reversed(nest.signature, number):
        last = constant(emitter, first.type, str(window.size - size))
        first = binary(emitter, "subtract", last, first)
    type_ = place_type(left.type.shape[x])
    step = constant(emitter, type_, str(window.dilation))
    start = binary(emitter, "multiply", converted(emitter, first, type_.dtype), step)
    count = nest.result_types[0].shape[dims.result[str(number)]]
    length = (count - 1) * window.stride + (size - 1) * window.dilation + 1
    shape = list(left.type.shape)
    shape[x] = max(length, 0)
    starts = all_starts(emitter, left.type, {x: start})
    return sliced_at(emitter, left, starts, shape)


def _reversed(op: Signature, number: int) -> bool:
    flags = op.attrs.get("window_reversal", "")
    items = flags.partition(":")[2].rstrip(">").split(",")
    return bool(flags) and items[number].strip() == "true"


def _padded(emitter: Emitter, left: Ssa, dim: int, window: SlidingWindow) -> Ssa:
    low, high, interior = ([0] * len(left.type.shape) for _ in range(3))
    low[dim], high[dim] = window.low, window.high
    interior[dim] = window.base_dilation - 1
    zero = identity("sum", left.type)
    return padded(emitter, left, low, high, interior, zero)
