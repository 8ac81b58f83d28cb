"""The comparison: which results of a small program are equal, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import partir.verify.elements.branches
import partir.verify.elements.exchange  # noqa: F401  (ops register themselves)
from partir.ir.core import Program
from partir.ir.types import TensorType
from partir.mesh import Mesh
from partir.verify.classes.rows import GARBAGE as NO_ROW
from partir.verify.elements.alone import Elements, new_ops
from partir.verify.elements.cases import GARBAGE, WORK
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.live import Live, live_values
from partir.verify.elements.lockstep import Lockstep, OnDevices
from partir.verify.elements.products import said_of
from partir.verify.elements.rings import Truths, ring_of
from partir.verify.layouts.layout import Unreadable
from partir.verify.layouts.tiles import rows_of_tiles, tile_shape
from partir.verify.machine.machine import SLIPS

MOST = 1 << 18  # elements of both programs, on all devices
Tiling = Sequence[Sequence[str]]
_ATTEMPTS = 2  # so many times the work of one
_PARTS = 4  # so many times the elements of one
Found = frozenset[int]  # results, by number


class ProgramTilings(NamedTuple):
    """How arguments and results are cut into tiles, by names of axes."""

    arguments: Sequence[Tiling]
    results: Sequence[Tiling]


def written_out(
    source: Program,
    local: Program,
    mesh: Mesh,
    tilings: ProgramTilings,
    results: Sequence[int],
    most: int = MOST,
) -> Found:
    """Those of some results, by number, that devices compute as the source does.

    What can't be written out, or is too large, is not among them. There are two forms
    of tables in tables; some programs are found equal in one, some in the other.
    """
    attempts = _Attempts(_Compared(source, local, mesh, tilings, most))
    found = attempts.equal(results, turns=False)
    left = [number for number in results if number not in found]
    return found | attempts.equal(left, turns=True)


class _Compared(NamedTuple):
    """Two programs, and how many elements of them are looked at in one attempt."""

    source: Program
    local: Program
    mesh: Mesh
    tilings: ProgramTilings
    most: int

    def live(self, results: Sequence[int], most: int) -> _Live | None:
        """What results are made of; None if that has too many elements."""
        source, local, count = self.source, self.local, self.mesh.size
        wanted = [source.results[number].value for number in results]
        here = live_values(source, wanted, most)
        if here is None:
            return None
        own = [local.body.results[number] for number in results]
        there = live_values(local, own, (most - here.elements) // count)
        if there is None:
            return None
        size = here.elements + count * there.elements
        return _Live(here.values, there.values, size)


class _Live(NamedTuple):
    """What results are made of, in both programs."""

    source: Live
    local: Live
    elements: int  # on all devices


class _Attempts:
    """Comparisons of two programs, which share what work may be done."""

    def __init__(self, compared: _Compared) -> None:
        self._of = compared
        self._left, self._elements = _ATTEMPTS * WORK, _PARTS * compared.most

    def equal(self, results: Sequence[int], turns: bool) -> Found:
        """Results that are found equal; if all together are not, each by itself."""
        if not results or self._left <= 0:
            return frozenset()
        live = self._of.live(results, min(self._of.most, self._elements))
        if live is not None:
            self._elements -= live.elements
            found = self._attempt(results, live, turns)
            if found is not None:
                return found
        if len(results) == 1:
            return frozenset()
        return frozenset().union(*(self.equal([n], turns) for n in results))

    def _attempt(
        self, results: Sequence[int], live: _Live, turns: bool
    ) -> Found | None:
        work = min(self._left, WORK >> 2 if turns else WORK)
        ops = new_ops(turns, work)
        try:
            return _equal(ops, self._of, live, results)
        except (Unreadable, RecursionError, *SLIPS):
            return None
        finally:
            self._left -= work - ops.algebra.left


def _equal(
    ops: Elementwise,
    compared: _Compared,
    live: _Live,
    results: Sequence[int],
) -> Found:
    source, local, mesh, tilings, most = compared
    names, sizes = mesh.names, tuple(mesh.axes.values())
    asked = (said_of(op.signature) for op in source.ops)
    ops.precise = frozenset(said for said in asked if said is not None)
    wanted = Lockstep(ops, source, (), (), most, live.source)
    given = [
        (number, *pair)
        for number, pair in enumerate(
            zip(source.body.arguments, local.body.arguments, strict=True)
        )
        if pair[0] in live.source or pair[1] in live.local
    ]
    for number, value, _ in given:
        wanted.env[value] = [_argument(ops, source.types[value], number, most)]
    wanted.run(source.body)
    ops.from_now_on_of_devices()
    devices = Lockstep(ops, local, names, sizes, wanted.most, live.local)
    for number, whole, value in given:
        type_, tiling = source.types[whole], tilings.arguments[number]
        _check_type(local.types[value], type_, tiling, mesh)
        devices.env[value] = _in_tiles(wanted.env[whole][0], type_, tiling, mesh)
    devices.run(local.body)
    found = []
    for number in results:
        value, own = source.results[number].value, local.body.results[number]
        type_ = source.types[value]
        _check_type(local.types[own], type_, tilings.results[number], mesh)
        want = _in_tiles(wanted.env[value][0], type_, tilings.results[number], mesh)
        if _same(ops, type_, want, devices.env[own]):
            found.append(number)
    return frozenset(found)


def _check_type(own: TensorType, whole: TensorType, tiling: Tiling, mesh: Mesh) -> None:
    """An argument or result of devices has the type of a tile."""
    names, sizes = mesh.names, tuple(mesh.axes.values())
    axes = [[names.index(axis) for axis in over] for over in tiling]
    if (own.shape, own.dtype) != (tile_shape(whole.shape, axes, sizes), whole.dtype):
        raise Unreadable("an argument or result of another type")


def _argument(ops: Elementwise, type_: TensorType, number: int, most: int) -> Elements:
    count, ring, algebra = math.prod(type_.shape), ring_of(type_.dtype), ops.algebra
    if not type_.tensor or count > most:
        raise Unreadable("an argument with too many elements")
    if isinstance(ring, Truths):
        return [algebra.truth("argument", number, place) for place in range(count)]
    return [
        ring.unknown(algebra.point, "argument", number, place) for place in range(count)
    ]


def _in_tiles(
    whole: Elements,
    type_: TensorType,
    tiling: Tiling,
    mesh: Mesh,
) -> OnDevices:
    """A value's tiles; `GARBAGE` behind the end of a short one."""
    names, sizes = mesh.names, tuple(mesh.axes.values())
    rank, count = len(type_.shape), math.prod(sizes)
    shape = (*sizes, *(1 for _ in range(rank)))
    place, bad = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
    stride = 1
    for dim in reversed(range(rank)):
        axes = [names.index(axis) for axis in tiling[dim]] if dim < len(tiling) else []
        rows = rows_of_tiles(type_.shape[dim], axes, sizes, dim, rank)
        bad = bad | (rows == NO_ROW)
        place = place + np.where(rows == NO_ROW, 0, rows) * stride
        stride *= type_.shape[dim]
    place = np.where(bad, -1, place)
    found: OnDevices = []
    known: dict[tuple[int, ...], Elements] = {}
    for tile in place.reshape(count, -1).tolist():
        key = tuple(tile)
        if key not in known:
            known[key] = [GARBAGE if n < 0 else whole[n] for n in tile]
        found.append(known[key])
    return found


def _same(
    ops: Elementwise, type_: TensorType, want: OnDevices, have: OnDevices
) -> bool:
    ring, flat = ring_of(type_.dtype), ops.algebra.flat
    for wanted, found in zip(want, have, strict=True):
        for x, y in zip(wanted, found, strict=True):
            if x is GARBAGE:
                continue
            right, own = flat(x, ring), flat(y, ring)
            if right is GARBAGE or own is GARBAGE or right != own:
                return False
    return True
