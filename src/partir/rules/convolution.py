"""convolution: batch, features, groups of either, windows side by side, the kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from partir.ir.attributes import i64_array, integer
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
from partir.rules.registry import local_attrs, local_form, rule
from partir.rules.window import Window, windows

_SIDE = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Dims:
    """Where in the left operand, the kernel and the result a convolution has what.

    Each is a mapping from `b`, `f`, `i`, `o` or the number of a spatial dimension.
    """

    left: dict[str, int]
    kernel: dict[str, int]
    result: dict[str, int]
    feature_groups: int
    batch_groups: int
    windows: tuple[Window, ...]

    @classmethod
    def of(cls, op: Signature) -> Dims:
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
    """``(b, i, _), (o, i, k) -> (b, o, _) sum=i sum=k``.

    Groups of features or of batches are tiled instead of what they divide, and a
    spatial dimension is where no window reaches into another tile. A kernel as long as
    the input is (the gradient of another kernel) is tiled together with it; not if it
    is reversed: then its first tile sees the last of the input.
    """
    dims = Dims.of(op)
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
    for number, window in enumerate(dims.windows):
        spatial = str(number)
        x, k, y = dims.left[spatial], dims.kernel[spatial], dims.result[spatial]
        count = op.results[0].shape[y]
        yield Factor(_independent(window, left[x], count), (x, None), (y,))
        as_long = window.plain and window.size * window.dilation == left[x]
        together = as_long and not _reversed(op, number)
        if monoid:
            yield Factor(window.size, (x if together else None, k), (None,), monoid)


def _independent(window: Window, whole: int, count: int) -> int:
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
    dims = Dims.of(nest.signature)
    features, batches = dims.feature_groups, dims.batch_groups
    for loop in nest.loops:
        operands = loop.factor.operands
        if features > 1 and operands == (dims.left["f"], dims.kernel["o"]):
            features //= loop.size
        if batches > 1 and operands == (dims.left["b"], dims.kernel["o"]):
            batches //= loop.size
    attrs["feature_group_count"] = f"{features} : i64"
    attrs["batch_group_count"] = f"{batches} : i64"
    return attrs


@local_form("convolution")
def convolution_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """Part of the kernel sees part of the input: where it would be in the whole."""
    dims = Dims.of(nest.signature)
    tiled = [
        number
        for number in range(len(dims.windows))
        for loop in nest.loops
        if loop.factor.operands == (None, dims.kernel[str(number)])
        and loop.factor.reduce
    ]
    left, kernel = operands
    attrs = _unpadded(nest, dims, tiled) if tiled else dict(nest.attrs)
    for number in sorted(set(tiled)):
        left = _seen(nest, emitter, dims, number, left)
    if attrs.pop("window_reversal", None):
        kernel = _turned(nest, emitter, dims, kernel)
    return emitter.op(nest.signature.kind, (left, kernel), nest.result_types, attrs)


def _turned(nest: Nest, emitter: Emitter, dims: Dims, kernel: Ssa) -> Ssa:
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


def _unpadded(nest: Nest, dims: Dims, tiled: Sequence[int]) -> dict[str, str]:
    """Attributes without what `_seen` does along the dimensions `tiled`."""
    paddings, dilations = [], []
    for number, window in enumerate(dims.windows):
        done = number in tiled
        paddings.append([0, 0] if done else [window.low, window.high])
        dilations.append(1 if done else window.base_dilation)
    shape = f"{len(paddings)}x2xi64"
    return {
        **nest.attrs,
        "padding": f"dense<{paddings}> : tensor<{shape}>",
        "lhs_dilation": i64_array(dilations),
    }


def _seen(nest: Nest, emitter: Emitter, dims: Dims, number: int, left: Ssa) -> Ssa:
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


def _padded(emitter: Emitter, left: Ssa, dim: int, window: Window) -> Ssa:
    low, high, interior = ([0] * len(left.type.shape) for _ in range(3))
    low[dim], high[dim] = window.low, window.high
    interior[dim] = window.base_dilation - 1
    zero = identity("sum", left.type)
    return padded(emitter, left, low, high, interior, zero)
