"""Sums of products: which elements meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from partir.ir.attributes import fields, integer
from partir.ir.core import Signature
from partir.verify.classes.types import has_all_of
from partir.verify.elements.cases import GARBAGE, Scalar
from partir.verify.elements.elementwise import Elementwise, Run
from partir.verify.elements.moving import numbered, shown
from partir.verify.elements.rings import Integers, Plain, Truths, ring_of
from partir.verify.equations.products import PRECISION, conv_numbers, is_mixed
from partir.verify.layouts.layout import Unreadable
from partir.verify.moves.windows import convolved_windows

Elements = list[Scalar]
PRODUCTS = frozenset({"stablehlo.dot_general", "stablehlo.convolution"})
_PRECISION = (PRECISION, "algorithm")
Pairs = tuple[list[list[int]], list[list[int]]]  # of each result: places on both sides


def product(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> Elements:
    """A dot_general or convolution."""
    (result,), types = signature.results, signature.operands
    dtype, ring = result.dtype, ring_of(result.dtype)
    how = 1 if isinstance(ring, Integers) else _precision(ops, signature)
    if how is None:
        return [GARBAGE] * math.prod(result.shape)
    if isinstance(ring, Integers) or _is_exact(signature):
        sides = [
            list(map(ops.convert(type_.dtype, dtype), values))
            for type_, values in zip(types, given, strict=True)
        ]
        times = ops.times(dtype)
    else:
        sides, times = [*given], _narrowed(ops, signature)
    left, right = _pairs(signature)
    total, linear = ops.monoids.total, ops.algebra.linear
    names = ("or", "and") if isinstance(ring, Truths) else ("sum", "product")
    made = []
    for places, others in zip(left, right, strict=True):
        terms = [ring.zero]
        for x, y in zip(places, others, strict=True):
            if x >= 0:
                one, two = sides[0][x], sides[1][y]
                terms.append(
                    times(one, two)
                    if names[1] == "product"
                    else total("and", dtype, ring, (one, two))
                )
        made.append(total(names[0], dtype, ring, terms))
    if how == 1:
        return made
    tagged = ops.tagged(how, dtype)
    return [linear(tagged, ring, one) for one in made]


def said_of(signature: Signature) -> tuple[str, ...] | None:
    """How precise a product of floats is to be; None of other ops."""
    if signature.name not in ("dot_general", "convolution"):
        return None
    if isinstance(ring_of(signature.results[0].dtype), Integers):
        return None
    return tuple(signature.attrs.get(name, "") for name in _PRECISION)


def _precision(ops: Elementwise, signature: Signature) -> int | None:
    """What tells a product of floats from one of other precision; None: not known."""
    said = said_of(signature)
    assert said is not None
    if is_mixed(signature.attrs):
        raise Unreadable("a product of operands in different precisions")
    return ops.as_precise(said)


def _is_exact(signature: Signature) -> bool:
    """Whether a result's type has all numbers of the operands."""
    (result,) = signature.results
    return all(has_all_of(result.dtype, t.dtype) for t in signature.operands)


def _narrowed(ops: Elementwise, signature: Signature) -> Run:
    """Products in a type with fewer numbers: nobody says when factors are rounded.

    Each is a function of its factors, of which only zeros of both are known to vanish:
    a finite number may be infinite in that type.
    """
    (result,), types = signature.results, signature.operands
    ring, rings = ring_of(result.dtype), [ring_of(type_.dtype) for type_ in types]
    point, (one, other) = ops.algebra.point, (type_.dtype for type_ in types)
    zeros = [{r.zero, ops.numbers.special["-0.0"]} for r in rings]

    def plain(x: Plain, y: Plain) -> Plain:
        if GARBAGE in (x, y):
            return GARBAGE
        if x in zeros[0] and y in zeros[1]:
            return ring.zero
        factors = sorted(((one, x), (other, y)))
        made = ring.unknown(point, "narrowed", result.dtype, tuple(factors))
        return ops.algebra.as_far(made, (x, y))

    return lambda x, y: ops.algebra.apply(plain, ring, rings, x, y)


@lru_cache(maxsize=256)
def _pairs(signature: Signature) -> Pairs:
    find = _of_dot if signature.name == "dot_general" else _of_convolution
    left, right = find(signature)
    return left.tolist(), right.tolist()


def _of_dot(signature: Signature) -> tuple[np.ndarray, np.ndarray]:
    found = fields(signature.attrs["dot_dimension_numbers"])
    sides = []
    for side, at in zip(("lhs", "rhs"), _places(signature), strict=True):
        batch = found.get(f"{side}_batching_dimensions", ())
        summed = found.get(f"{side}_contracting_dimensions", ())
        free = [d for d in range(at.ndim) if d not in (*batch, *summed)]
        shape = [
            int(np.prod([at.shape[d] for d in dims], dtype=np.int64))
            for dims in (batch, free, summed)
        ]
        sides.append(at.transpose([*batch, *free, *summed]).reshape(shape))
    x, y = sides
    wide = (x.shape[0], x.shape[1], y.shape[1], x.shape[2])
    flat = (-1, x.shape[2]) if x.shape[2] else (x.shape[0] * x.shape[1] * y.shape[1], 0)
    return (
        np.broadcast_to(x[:, :, None], wide).reshape(flat),
        np.broadcast_to(y[:, None], wide).reshape(flat),
    )


def _places(signature: Signature) -> list[np.ndarray]:
    return [numbered([type_.shape])[0] for type_ in signature.operands]


def _of_convolution(signature: Signature) -> tuple[np.ndarray, np.ndarray]:
    """Result (batch, group, feature, space) and the terms of each."""
    attrs = signature.attrs
    order = conv_numbers(attrs["dimension_numbers"])
    x, y = (
        at.transpose([names.index(n) for n in ordered])
        for at, names, ordered in zip(
            _places(signature),
            order,
            (_ordered("bf", order[0]), _ordered("oi", order[1])),
            strict=False,
        )
    )
    space = x.ndim - 2
    turned = [
        "true" in flag
        for flag in attrs.get("window_reversal", "").partition(":")[2].split(",")
    ]
    for s, window in enumerate(convolved_windows(signature)):
        x = shown(x, s + 2, window)
        if s < len(turned) and turned[s]:
            y = np.flip(y, s + 2)
    groups = integer(attrs["feature_group_count"])
    batches = integer(attrs["batch_group_count"])
    left, right = _grouped(x, y, groups, batches, space)
    spelled = _ordered("bf", order[2])
    back = [spelled.index(n) for n in order[2]]
    return tuple(  # type: ignore[return-value]  # two of them
        side.transpose([*back, side.ndim - 1]).reshape(-1, side.shape[-1])
        for side in (left, right)
    )


def _ordered(first: str, names: Sequence[str]) -> list[str]:
    return [*first, *sorted((n for n in names if n.isdigit()), key=int)]


def _grouped(
    windows: np.ndarray, y: np.ndarray, groups: int, batches: int, space: int
) -> tuple[np.ndarray, np.ndarray]:
    """Both sides as (batch, out feature, space…, terms)."""
    batch, feature = windows.shape[:2]
    out, inner = windows.shape[2 : 2 + space], windows.shape[2 + space :]
    count = max(groups, batches)
    if batches > 1:
        x = windows.reshape(batches, batch // batches, feature, *out, *inner)
        x = np.moveaxis(x, 0, 1)  # (batch, group, feature, …)
    else:
        x = windows.reshape(batch, groups, feature // groups, *out, *inner)
    per = y.shape[0] // count
    y = y.reshape(count, per, *y.shape[1:])
    x = np.moveaxis(x, 2, 2 + space)  # (batch, group, out…, feature, taps…)
    terms = int(np.prod(x.shape[2 + space :], dtype=np.int64))
    x = x.reshape(*x.shape[: 2 + space], terms)
    x = np.broadcast_to(x[:, :, None], (*x.shape[:2], per, *x.shape[2:]))
    y = y.reshape(count, per, *(1,) * space, terms)
    y = np.broadcast_to(y[None], x.shape)
    shape = (x.shape[0], count * per, *out, terms)
    return x.reshape(shape), y.reshape(shape)
