"""Reductions, over dimensions and windows; orders; choices in windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from partir.ir.attributes import FORMED, integer, ints
from partir.ir.core import Lambda, Signature
from partir.verify.classes.monoids import monoid_of
from partir.verify.elements.bodies import Nameless
from partir.verify.elements.cases import GARBAGE, Scalar
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.moving import numbered, shown
from partir.verify.elements.rings import Ring, ring_of
from partir.verify.layouts.layout import Unreadable
from partir.verify.moves.windows import reduce_windows

Elements = list[Scalar]
OUTSIDE = -1


def reduce(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> list[Elements]:
    """Over dimensions."""
    shape = signature.operands[0].shape
    dims = sorted(ints(signature.attrs["dimensions"]))  # elements are in this order
    kept = [d for d in range(len(shape)) if d not in dims]
    at = numbered([shape])[0].transpose([*kept, *dims])
    count = math.prod(shape[d] for d in kept)
    members = at.reshape(count, math.prod(shape[d] for d in dims))
    return _reduced(ops, signature, given, members.tolist())


def reduce_window(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> list[Elements]:
    """Over windows; XLA leaves padding out, and counts the start once."""
    return _reduced(ops, signature, given, _windows(signature))


@lru_cache(maxsize=256)
def _windows(signature: Signature) -> list[list[int]]:
    """Places that each window shows, `OUTSIDE` for padding."""
    (at,) = numbered([signature.operands[0].shape])
    windows = reduce_windows(signature)
    for dim, window in enumerate(windows):
        at = shown(at, dim, window)
    made: list[list[int]] = at.reshape(-1, math.prod(w.size for w in windows)).tolist()
    return made


def _reduced(
    ops: Elementwise,
    signature: Signature,
    given: Sequence[Elements],
    members: Sequence[Sequence[int]],
) -> list[Elements]:
    count, body = len(signature.results), signature.lambdas[0]
    values = [
        list(map(ops.convert(type_.dtype, wide.dtype), held))
        for type_, wide, held in zip(
            signature.operands,
            [body.types[a] for a in body.arguments] * 2,
            given,
            strict=False,
        )
    ]
    if [body.types[r].dtype for r in body.results] != [
        t.dtype for t in signature.results
    ]:
        raise Unreadable("a reduction that gives another type than it adds up in")
    starts = [one for (one,) in values[count:]]
    if count == 1:
        monoid, dtype = named(body), signature.results[0].dtype
        if monoid is not None:
            ring, (held,) = ring_of(dtype), values[:1]
            return [
                [
                    ops.monoids.total(
                        monoid, dtype, ring, [starts[0], *_picked(held, places)]
                    )
                    for places in members
                ]
            ]
    return _by_body(ops, signature, values[:count], starts, members)


def _picked(held: Elements, places: Sequence[int]) -> Elements:
    return [held[place] for place in places if place != OUTSIDE]


def _by_body(
    ops: Elementwise,
    signature: Signature,
    values: Sequence[Elements],
    starts: Elements,
    members: Sequence[Sequence[int]],
) -> list[Elements]:
    """By what has no name."""
    reducer = Nameless(ops, signature.lambdas[0], tuple(starts))
    found = [
        reducer.reduced([*zip(*(_picked(held, p) for held in values), strict=True)])
        for p in members
    ]
    return [[row[number] for row in found] for number in range(len(values))]


def named(body: Lambda) -> str | None:
    """The monoid that a reducer is, if it has a name here."""
    plain = len(body.ops) == 1 and {*body.ops[0].operands} == {*body.arguments}
    if plain and body.ops[0].kind == "stablehlo.xor" and len(body.arguments) == 2:
        return "xor" if body.ops[0].results == body.results else None
    return monoid_of(body)


def spelled(body: Lambda) -> Any:
    """A region as what it computes, without where it was written."""
    return (
        tuple(body.types[a].dtype for a in body.arguments),
        tuple(
            (
                op.kind,
                tuple(sorted(op.signature.attrs.items())),
                (*op.operands, *op.results),
                tuple(t.dtype for t in op.signature.results),
                tuple(map(spelled, op.signature.lambdas)),
            )
            for op in body.ops
        ),
        body.arguments,
        body.results,
    )


# Orders


def sort(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> list[Elements]:
    """Each row is what it is by all of its elements."""
    attrs, shape = signature.attrs, signature.operands[0].shape
    dim = integer(attrs["dimension"]) % len(shape) if "dimension" in attrs else -1
    key = ("sorted", attrs.get("is_stable", ""), spelled(signature.lambdas[0]))
    return _by_rows(ops, signature, given, dim, key)


def fft(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> list[Elements]:
    """Each transform is what it is by all that it transforms."""
    (type_,), (result,) = signature.operands, signature.results
    lengths = ints(signature.attrs["fft_length"])
    key = ("transformed", signature.attrs["fft_type"], lengths, type_.dtype)
    ring, out, algebra = ring_of(type_.dtype), ring_of(result.dtype), ops.algebra
    size = math.prod(type_.shape[-len(lengths) :])
    count = math.prod(result.shape[-len(lengths) :])
    made: Elements = []
    for first in range(0, len(given[0]) if size else 0, size or 1):
        row = tuple(algebra.flat(x, ring) for x in given[0][first : first + size])
        made += [
            GARBAGE if GARBAGE in row else algebra.made_of(row, out, key, row, place)
            for place in range(count)
        ]
    if len(made) != math.prod(result.shape):
        raise Unreadable("a transform of nothing")
    return [made]


def _by_rows(
    ops: Elementwise,
    signature: Signature,
    given: Sequence[Elements],
    dim: int,
    key: tuple[Any, ...],
) -> list[Elements]:
    """A function of whole rows, of which nothing else is known."""
    shape, algebra = signature.operands[0].shape, ops.algebra
    at = np.moveaxis(numbered([shape])[0], dim, -1)
    rows = at.reshape(-1, shape[dim])
    rings = [ring_of(type_.dtype) for type_ in signature.operands]
    dtypes = tuple(type_.dtype for type_ in signature.operands)
    outs = [ring_of(type_.dtype) for type_ in signature.results]
    length = shape[dim]
    made = [np.empty((len(rows), length), dtype=object) for _ in outs]
    for number, row in enumerate(rows.tolist()):
        flat = tuple(
            tuple(algebra.flat(held[place], ring) for place in row)
            for held, ring in zip(given, rings, strict=True)
        )
        bad = any(GARBAGE in one for one in flat)
        for which, (into, ring) in enumerate(zip(made, outs, strict=True)):
            for place in range(length):
                into[number, place] = (
                    GARBAGE
                    if bad
                    else algebra.made_of(
                        flat[which], ring, key, dtypes, flat, which, place
                    )
                )
    wide = (*at.shape[:-1], length)
    return [list(np.moveaxis(into.reshape(wide), -1, dim).reshape(-1)) for into in made]


# Choices in windows


def select_and_scatter(
    ops: Elementwise, signature: Signature, given: Sequence[Elements]
) -> Elements:
    """Each window's number goes to the element that is chosen there."""
    value, source, (start,) = given
    type_, (result,) = signature.operands[0], signature.results
    ring, held = ring_of(result.dtype), ring_of(type_.dtype)
    choose, add = signature.lambdas
    monoid = monoid_of(add)
    types = {type_.dtype for type_ in signature.operands}
    if monoid != "sum" or types != {result.dtype}:
        raise Unreadable("choices in windows that are not added up")
    key = ("chosen", type_.dtype, spelled(choose))
    fill = _filled(ops, signature)
    members = [[start] for _ in value]
    for places, number in zip(_windows(signature), source, strict=True):
        seen = [place for place in places if place != OUTSIDE or fill is not None]
        flat = tuple(
            fill if place == OUTSIDE else ops.algebra.flat(value[place], held)
            for place in seen
        )
        for rank, place in enumerate(seen):
            if place != OUTSIDE:
                members[place].append(_where(ops, ring, key, flat, rank, number))
    return [ops.monoids.total("sum", result.dtype, ring, m) for m in members]


def _filled(ops: Elementwise, signature: Signature) -> Any:
    """The number that windows show outside, in the source's normal form; else None.

    It may be chosen: before what is as far off, or behind what is no number.
    """
    if FORMED not in signature.attrs:
        return None
    choose, dtype = signature.lambdas[0], signature.operands[0].dtype
    direction = ""
    if len(choose.ops) == 1 and choose.ops[0].operands == choose.arguments:
        direction = choose.ops[0].signature.attrs.get("comparison_direction", "")
    for monoid, names in (("max", (" GE>", " GT>")), ("min", (" LE>", " LT>"))):
        if ops.of_source and direction.endswith(names):
            return ops.monoids.start(monoid, dtype, ring_of(dtype))
    raise Unreadable("a normal form of a choice in windows")


def _where(
    ops: Elementwise,
    ring: Ring,
    key: tuple[Any, ...],
    flat: tuple[Any, ...],
    rank: int,
    number: Scalar,
) -> Scalar:
    """A number where a window chooses one of its elements, zero elsewhere."""
    if len(flat) == 1:
        return number
    plain = ops.algebra.flat(number, ring)
    if GARBAGE in flat or plain is GARBAGE:
        return GARBAGE
    if plain in (ring.zero, ops.numbers.special["-0.0"]):
        return ring.zero
    truth = ops.algebra.point.unknown(key, flat, rank)
    return ops.algebra.as_far(ring.scaled(plain, truth), (plain,))
