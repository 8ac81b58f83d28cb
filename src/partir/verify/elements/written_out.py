"""The comparison: which results of a small program are equal, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import partir.verify.elements.branches
import partir.verify.elements.exchange  # noqa: F401  (ops register themselves)
from partir.ir.core import Op, Program, Region
from partir.ir.types import TensorType
from partir.mesh import Mesh
from partir.verify.elements.alone import Elements, new_ops
from partir.verify.elements.cases import GARBAGE, WORK
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.lockstep import Lockstep, OnDevices
from partir.verify.elements.products import said_of
from partir.verify.elements.rings import Truths, ring_of
from partir.verify.layout import Unreadable
from partir.verify.machine import SLIPS
from partir.verify.rows import GARBAGE as NO_ROW
from partir.verify.tiles import rows_of_tiles, tile_shape

MOST = 1 << 17  # elements of both programs, on all devices
Tiling = Sequence[Sequence[str]]
_ATTEMPTS = 2  # so many times the work of one
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
    if _elements(source) + mesh.size * _elements(local) > most:
        return frozenset()
    attempts = _Attempts(source, local, mesh, tilings, most)
    found = attempts.equal(results, turns=False)
    left = [number for number in results if number not in found]
    return found | attempts.equal(left, turns=True)


class _Attempts:
    """Comparisons of two programs, which share what work may be done."""

    def __init__(
        self,
        source: Program,
        local: Program,
        mesh: Mesh,
        tilings: ProgramTilings,
        most: int,
    ) -> None:
        self._of = (source, local, mesh, tilings, most)
        self._left = _ATTEMPTS * WORK

    def equal(self, results: Sequence[int], turns: bool) -> Found:
        """Results that are found equal; if all together are not, each by itself."""
        if not results or self._left <= 0:
            return frozenset()
        work = min(self._left, WORK >> 2 if turns else WORK)
        ops = new_ops(turns, work)
        try:
            return _equal(ops, *self._of, results)
        except (Unreadable, RecursionError, *SLIPS):
            if len(results) == 1:
                return frozenset()
        finally:
            self._left -= work - ops.algebra.left
        return frozenset().union(*(self.equal([n], turns) for n in results))


def _elements(program: Program) -> int:
    """Of all results of ops; a loop's count once."""
    return sum(
        math.prod(type_.shape) for op in program.ops for type_ in op.signature.results
    )


def _equal(
    ops: Elementwise,
    source: Program,
    local: Program,
    mesh: Mesh,
    tilings: ProgramTilings,
    most: int,
    results: Sequence[int],
) -> Found:
    names, sizes = mesh.names, tuple(mesh.axes.values())
    asked = (said_of(op.signature) for op in source.ops)
    ops.precise = frozenset(said for said in asked if said is not None)
    wanted = Lockstep(ops, source, (), (), most)
    for number, value in enumerate(source.body.arguments):
        wanted.env[value] = [_argument(ops, source.types[value], number, most)]
    _run(wanted, [source.results[n].value for n in results])
    ops.of_source = False
    devices = Lockstep(ops, local, names, sizes, wanted.most)
    for value, whole, tiling in zip(
        local.body.arguments, source.body.arguments, tilings.arguments, strict=True
    ):
        type_ = source.types[whole]
        _check_type(local.types[value], type_, tiling, mesh)
        devices.env[value] = _in_tiles(wanted.env[whole][0], type_, tiling, mesh)
    _run(devices, [local.body.results[n] for n in results])
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


def _run(state: Lockstep, results: Sequence[int]) -> None:
    """What results are made of, and nothing else."""
    needed, program = {*results}, state.program
    for index in reversed(program.body.ops):
        op = program.ops[index]
        if not needed.isdisjoint(op.results):
            needed.update(_read(program, op))
    state.run(program.body, frozenset(needed))


def _read(program: Program, op: Op) -> set[int]:
    found = {*op.operands}
    for region in op.regions:
        found |= _read_in(program, region)
    return found


def _read_in(program: Program, region: Region) -> set[int]:
    found = {*region.results}
    for index in region.ops:
        found |= _read(program, program.ops[index])
    return found
