"""Ops that move elements: where each element of a result comes from.

The answer is an array of places in the operands, one behind the other; the last place
of all is what pads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from partir.ir.attributes import ROLL, integer, ints
from partir.ir.core import Signature
from partir.verify.moves.windows import WindowFacts

Places = np.ndarray
Move = Callable[[Signature, list[Places]], Places]
_MOVES: dict[str, Move] = {}


def _move(*names: str) -> Callable[[Move], Move]:
    def keep(run: Move) -> Move:
        for name in names:
            _MOVES[name if "." in name else f"stablehlo.{name}"] = run
        return run

    return keep


def places(signature: Signature) -> list[int] | None:
    """For each element of the result a place in the operands; None for other ops."""
    run = _MOVES.get(signature.kind)
    if run is None:
        return None
    made = run(signature, numbered([t.shape for t in signature.operands]))
    found: list[int] = made.reshape(-1).tolist()
    return found


def numbered(shapes: Sequence[tuple[int, ...]]) -> list[Places]:
    """Places of operands, one behind the other."""
    first, found = 0, []
    for shape in shapes:
        count = math.prod(shape)
        found.append(np.arange(first, first + count).reshape(shape))
        first += count
    return found


@_move("reshape")
def _reshape(signature: Signature, at: list[Places]) -> Places:
    return at[0]


@_move("transpose")
def _transpose(signature: Signature, at: list[Places]) -> Places:
    return at[0].transpose(ints(signature.attrs["permutation"]))


@_move("broadcast_in_dim")
def _broadcast(signature: Signature, at: list[Places]) -> Places:
    (type_,) = signature.results
    shape = [1] * len(type_.shape)
    for dim, size in zip(
        ints(signature.attrs["broadcast_dimensions"]), at[0].shape, strict=True
    ):
        shape[dim] = size
    order = np.argsort(ints(signature.attrs["broadcast_dimensions"]), kind="stable")
    return np.broadcast_to(at[0].transpose(order).reshape(shape), type_.shape)


@_move("slice")
def _slice(signature: Signature, at: list[Places]) -> Places:
    names = ("start_indices", "limit_indices", "strides")
    bounds = zip(*(ints(signature.attrs[n]) for n in names), strict=True)
    return at[0][tuple(slice(*bound) for bound in bounds)]


@_move("reverse")
def _reverse(signature: Signature, at: list[Places]) -> Places:
    return np.flip(at[0], ints(signature.attrs["dimensions"]))


@_move("concatenate")
def _concatenate(signature: Signature, at: list[Places]) -> Places:
    return np.concatenate(at, integer(signature.attrs["dimension"]))


@_move(ROLL)
def _roll(signature: Signature, at: list[Places]) -> Places:
    dim, start = (integer(signature.attrs[n]) for n in ("dimension", "start"))
    rows = np.arange(signature.results[0].shape[dim])
    made: Places = np.take(at[0], (start + rows) % at[0].shape[dim], axis=dim)
    return made


@_move("pad")
def _pad(signature: Signature, at: list[Places]) -> Places:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    value, fill = at
    for dim, (low, high, inner) in enumerate(
        zip(*(ints(signature.attrs[n]) for n in names), strict=True)
    ):
        value = padded(value, dim, (low, high, inner), int(fill.reshape(())))
    return value


def padded(at: Places, dim: int, sizes: tuple[int, int, int], fill: int) -> Places:
    """Places with others around and between them, or without some at the ends."""
    low, high, inner = sizes
    count = at.shape[dim]
    wide = count + inner * max(count - 1, 0)
    shape = list(at.shape)
    shape[dim] = max(low, 0) + wide + max(high, 0)
    made = np.full(shape, fill)
    index = [slice(None)] * at.ndim
    index[dim] = slice(max(low, 0), max(low, 0) + wide, inner + 1)
    made[tuple(index)] = at
    index[dim] = slice(max(-low, 0), shape[dim] - max(-high, 0))
    return made[tuple(index)]


def shown(at: Places, dim: int, window: WindowFacts) -> Places:
    """Places that windows along a dimension show, behind all others; -1 for none."""
    nothing = np.full((*at.shape[:dim], 1, *at.shape[dim + 1 :]), -1)
    wide = np.concatenate([at, nothing], dim)  # the last is at -1, too
    rows = np.take(wide, window.places(at.shape[dim]), axis=dim)
    return np.moveaxis(rows, dim + 1, -1)
