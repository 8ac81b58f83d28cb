"""`prove`: run both programs, and compare what they return."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import partir.verify.devices.collectives
import partir.verify.devices.loops
import partir.verify.devices.manual
import partir.verify.devices.permutes
import partir.verify.lookups.scatters
import partir.verify.machine.counting
import partir.verify.moves.cutting
import partir.verify.moves.moving
import partir.verify.moves.pools
import partir.verify.moves.windows
import partir.verify.reductions.ordering
import partir.verify.reductions.reductions  # noqa: F401  (handlers register themselves)
from partir.errors import VerificationError
from partir.frontend.device_local import read_device_local
from partir.ir.core import Program
from partir.ir.garbage import collection_paused
from partir.ir.types import TensorType
from partir.mesh import Mesh
from partir.verify.classes.classes import Classes
from partir.verify.classes.terms import ClassTerm
from partir.verify.devices.bundles import unbundled
from partir.verify.devices.held import given_in_tiles, in_tiles
from partir.verify.devices.pieces import put_together
from partir.verify.elements.written_out import ProgramTilings, written_out
from partir.verify.failures.blame import (
    blamed,
    described,
    difference,
    layout_text,
    part_of,
)
from partir.verify.failures.excerpt import excerpt
from partir.verify.layouts.alike import alike
from partir.verify.layouts.layout import Digit, DigitLayout, View, size_of
from partir.verify.layouts.spread import same
from partir.verify.machine.machine import Known, Machine, Unknown
from partir.verify.promises import Promises, kept_call

_SHOWN = 5
NOTHING_PROMISED = Promises()
Tilings = Sequence[Sequence[Sequence[str]]]  # per value and dimension, its axes


@dataclass(frozen=True)
class NotProved:
    """A result that is not proved: why, where, and whether it is certainly wrong.

    `op` is the first op that computes something else than the source, or that can't be
    read, `where` the user's line; `module` the smallest part of the program that shows
    it, which parses by itself.
    """

    result: str
    reason: str
    where: str = ""
    disproved: bool = False
    op: str = ""
    module: str = ""

    def __str__(self) -> str:
        """As errors show it."""
        verdict = "is wrong" if self.disproved else "is not proved"
        return f"{self.result} {verdict}: {self.reason}" + (
            f" (at {self.where})" if self.where else ""
        )


@dataclass(frozen=True)
class Proof:
    """What was proved of a device-local program, result by result.

    `proved` are names of results, `not_proved` the others with reasons. Those of the
    former that only a comparison element by element has proved are `written_out`.
    """

    proved: tuple[str, ...]
    not_proved: tuple[NotProved, ...]
    seconds: float
    written_out: tuple[str, ...] = ()

    @property
    def disproved(self) -> tuple[NotProved, ...]:
        """Results that are wrong for certain."""
        return tuple(one for one in self.not_proved if one.disproved)

    def __str__(self) -> str:
        """How many results are proved, and the first that are not."""
        total = len(self.proved) + len(self.not_proved)
        head = f"{len(self.proved)} of {total} results proved in {self.seconds:.2f} s"
        shown = [f"  {one}" for one in self.not_proved[:_SHOWN]]
        more = len(self.not_proved) - len(shown)
        return "\n".join([head, *shown, *([f"  and {more} more"] if more else [])])

    def require(self) -> Proof:
        """This proof; a VerificationError if something is not proved."""
        if not self.not_proved:
            return self
        worst = (*self.disproved, *self.not_proved)[0]
        others = len(self.not_proved) - 1
        rest = f", and {others} more results" if others else ""
        part = f"\nThe part that shows it:\n{worst.module}" if worst.module else ""
        raise VerificationError(f"{worst}{rest}{part}")


@collection_paused
def prove(
    source: Program,
    module: str | bytes,
    mesh: Mesh,
    in_tilings: Tilings,
    out_tilings: Tilings,
    promises: Promises = NOTHING_PROMISED,
) -> Proof:
    """Hold a device-local module against its source.

    `promises` are what users say of calls that can't be looked into.
    """
    begin = time.perf_counter()
    kept = partial(kept_call, promises, module) if isinstance(module, str) else None
    local = read_device_local(module, kept)
    held = ReadSource(source, promises)
    found = compare(held, local, mesh, in_tilings, out_tilings)
    return replace(found, seconds=time.perf_counter() - begin)


class ReadSource:
    """A program whose values are known, to hold device-local programs against."""

    def __init__(self, program: Program, promises: Promises = NOTHING_PROMISED) -> None:
        """Run it."""
        self.program, self.classes = program, Classes()
        self.classes.promised = promises.rules
        self.machine = _run_source(self.classes, program)
        self.classes.seal()


def compare(
    source: Program | ReadSource,
    local: Program,
    mesh: Mesh,
    in_tilings: Tilings,
    out_tilings: Tilings,
) -> Proof:
    """Hold a device-local program, read already, against its source."""
    begin = time.perf_counter()
    if isinstance(source, Program):
        source = ReadSource(source)
    else:
        source.classes.forget()
    return _held_against(source, local, mesh, (in_tilings, out_tilings), begin)


def _held_against(
    held: ReadSource,
    local: Program,
    mesh: Mesh,
    tilings: Sequence[Tilings],
    begin: float,
) -> Proof:
    source, wanted, (in_tilings, out_tilings) = held.program, held.machine, tilings
    sizes = tuple(mesh.axes.values())
    local = put_together(unbundled(local, source))
    machine = Machine(held.classes, local, mesh.names, sizes, loops=wanted.loops)
    _check_counts(source, local)
    for value, number, tiling in zip(
        local.body.arguments, source.body.arguments, in_tilings, strict=True
    ):
        whole, type_ = wanted.env[number], source.types[number]
        given = given_in_tiles(machine, whole, type_, tiling)
        machine.env[value] = _of_type(given, local.types[value], type_, "an argument")
    machine.run(local.body)
    failed: dict[int, NotProved] = {}
    for number, (port, value, tiling) in enumerate(
        zip(source.results, local.body.results, out_tilings, strict=True)
    ):
        whole = wanted.env[port.value]
        want = in_tiles(machine, whole, source.types[port.value], tiling)
        have = _of_type(
            machine.env[value], local.types[value], source.types[port.value], "a result"
        )
        if not _is_proved(held.classes, want, have):
            blames = len(failed) < _SHOWN
            failed[number] = _compared(machine, port.name, want, have, value, blames)
    cut = ProgramTilings(in_tilings, out_tilings)
    equal = written_out(source, local, mesh, cut, [*failed])
    names = [port.name for port in source.results]
    return Proof(
        tuple(n for i, n in enumerate(names) if i not in failed or i in equal),
        tuple(one for number, one in failed.items() if number not in equal),
        time.perf_counter() - begin,
        tuple(n for i, n in enumerate(names) if i in equal),
    )


def _run_source(classes: Classes, source: Program) -> Machine:
    machine = Machine(classes, source)
    for number, value in enumerate(source.body.arguments):
        type_ = source.types[value]
        if 0 in type_.shape:
            machine.env[value] = machine.empty(type_)
            continue
        sizes = tuple(size for size in type_.shape if size > 1)
        term = ClassTerm("argument", number, (), (), (), new=sizes, dtype=type_.dtype)
        numbers = iter(range(len(sizes)))
        local = tuple(
            (Digit(next(numbers), 1, size),) if size > 1 else () for size in type_.shape
        )
        machine.env[value] = View(classes.of(term), DigitLayout(local, ()))
    machine.run(source.body)
    return machine


def _check_counts(source: Program, local: Program) -> None:
    for which in ("arguments", "results"):
        have, want = (len(getattr(p.body, which)) for p in (local, source))
        if have != want:
            raise VerificationError(
                f"the module has {have} {which}, its source {want}: it is another's"
            )


def _of_type(known: Known, local: TensorType, whole: TensorType, what: str) -> Known:
    """An argument or result, if the module has it in this shape and type."""
    if isinstance(known, Unknown):
        return known
    shape = tuple(map(size_of, known.layout.local))
    if (shape, whole.dtype) == (local.shape, local.dtype):
        return known
    wanted = whole.with_shape(shape)
    return Unknown(None, f"{what} of type {local}, should be of type {wanted}")


def _is_proved(classes: Classes, want: Known, have: Known) -> bool:
    known = isinstance(want, View) and isinstance(have, View)
    return known and alike(classes, have, want)  # type: ignore[arg-type]  # both are


def _compared(
    machine: Machine, name: str, want: Known, have: Known, value: int, blames: bool
) -> NotProved:
    """Why a result is not proved; `blames` asks for the op."""
    if isinstance(want, Unknown):
        return NotProved(name, f"source: {want.reason}")
    if isinstance(have, Unknown):
        return _told(machine, NotProved(name, have.reason), have.op)
    if want.node == have.node and not (want.layout.tables or have.layout.tables):
        text = "is laid out as {}, should be {}".format(
            *(layout_text(machine, view) for view in (have, want))
        )
        found = NotProved(name, text, disproved=True)
        return _told(machine, found, machine.program.producers.get(value))
    part = part_of(machine, have)
    if part is not None and same(part.whole, want):
        what = described(machine.classes.terms[part.whole.node])
        axes = ", ".join(part.axes)
        text = f"is a partial {part.monoid} over {axes} of {what}, should be the whole"
        found = NotProved(name, text, disproved=True)
        return _told(machine, found, machine.origins.get(have.node))
    if not blames:
        return NotProved(name, "computes something else than the source")
    node, _ = blamed(machine, have.node)
    op = machine.origins.get(node)
    text = f"the source has no {described(machine.classes.terms[node])}"
    if op is not None:
        text = difference(machine, machine.program.ops[op])
    return _told(machine, NotProved(name, text), op)


def _told(machine: Machine, found: NotProved, op: int | None) -> NotProved:
    """With the op, the user's line, and the part of the program that shows it."""
    if op is None:
        return found
    made = machine.program.ops[op]
    module = excerpt(machine, made.results[0]) if made.results else ""
    return replace(
        found, where=str(made.location), op=str(made.signature), module=module
    )
