"""Loops by induction on what they carry, and branches.

The source's loop makes a symbol for each value that it carries. The device-local loop
is run on tiles of the same symbols: if what it starts from, its condition and its body
then give the tiles that the source's do, both loops carry the same. How the values are
tiled follows from their local shapes, from what they start from and, where these leave
a choice (zeros look alike in all tiles), from what the body makes of them.

A loop may carry parts whose sum is what the source carries: a symbol with one more
dimension for each axis, which sums up to the source's symbol.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from partir.ir.core import Op
from partir.ir.types import TensorType
from partir.verify.devices.device_loops import define_on_devices, match_on_devices
from partir.verify.joins.uneven import uneven_tile
from partir.verify.layouts.align import Equation
from partir.verify.layouts.constancy import Place, constant_along, is_constant
from partir.verify.layouts.layout import (
    DigitLayout,
    Unreadable,
    View,
    depends_on,
    repeating,
)
from partir.verify.layouts.spread import dims_held, same
from partir.verify.layouts.tiles import (
    AxesOfDims,
    is_even,
    possible,
    shown,
    tile_shape,
    tiled,
)
from partir.verify.lookups.lookups import part
from partir.verify.machine.carried import LoopPair, symbols, turn
from partir.verify.machine.equal_loops import written
from partir.verify.machine.machine import Machine, control
from partir.verify.reductions.reductions import reduced_over_axes

_TRIES = 6


@control("while")
def _while(machine: Machine, index: int, op: Op) -> None:
    inits = machine.read(op.operands)
    if machine.classes.source is None:
        define = define_on_devices if machine.sizes else _define
        made = define(machine, op, inits)
    else:
        made = _match(machine, op, inits)
    machine.env.update(zip(op.results, made, strict=True))


def _define(machine: Machine, op: Op, inits: list[View]) -> list[View]:
    """A loop of the source: its own symbols, and symbols for what it leaves.

    One that is written twice leaves what the first one does.
    """
    form = written(machine, op, inits)
    before = machine.written.get(form)
    if before is not None and before.stands_in(machine.loops):
        return list(before.results)
    key, constant = len(machine.loops), frozenset[Place]()
    carried = symbols(machine, "carried", key, op.signature.operands)
    machine.loops.append(())  # loops inside have numbers of their own
    condition, body = turn(machine, op, carried, key)
    along = constant_along(machine.classes, inits, carried, body)
    if along:
        inside = machine.loops[key + 1 :]
        del machine.loops[key + 1 :]
        fewer = symbols(machine, "carried", key, op.signature.operands, along)
        again = turn(machine, op, fewer, key)
        if all(is_constant(again[1][number], dim) for number, dim in along):
            constant, carried, (condition, body) = along, fewer, again
        else:
            machine.loops[key + 1 :] = inside
    results = symbols(machine, "looped", key, op.signature.operands, constant)
    machine.loops[key] = LoopPair(
        tuple(inits),
        tuple(carried),
        condition,
        tuple(body),
        tuple(results),
        op.signature.operands,
        number=key,
    )
    machine.written[form] = machine.loops[key]
    return results


@dataclass(frozen=True)
class _Guess:
    """How a carried value is tiled, and the axes over which it is a part of a sum."""

    shape: tuple[int, ...]  # of the whole
    tiling: AxesOfDims
    parts: tuple[int, ...] = ()

    @property
    def axes(self) -> set[int]:
        """Axes that tiles differ along."""
        return {axis for axes in self.tiling for axis in axes}

    def tile(self, machine: Machine, whole: View) -> View:
        """The tile of a value that the source has."""
        if 0 in self.shape:
            shape = tile_shape(self.shape, self.tiling, machine.sizes)
            return View(whole.node, repeating(shape, machine.sizes))
        if is_even(self.shape, self.tiling, machine.sizes):
            return shown(tiled(self.shape, self.tiling, machine.sizes), whole)
        return uneven_tile(machine, whole, self.tiling)

    def show(self, machine: Machine, symbol: View, op: Op) -> View:
        """What the value is in a loop, if the source's is `symbol`."""
        view = self.tile(machine, symbol)
        return part(machine, view, self.parts, op.results) if self.parts else view

    def holds(self, machine: Machine, found: View, source: View) -> bool:
        """Whether a value is this tile, or this part, of what the source has."""
        if self.parts:
            shape = [1] * len(found.layout.local)
            found = reduced_over_axes(machine, "sum", found, self.parts, shape)
        return same(found, self.tile(machine, source))


def _guesses(
    machine: Machine, whole: TensorType, local: TensorType, init: View, source: View
) -> list[_Guess]:
    """Ways of tiling what a loop carries that it may start from."""
    found = []
    for tiling in possible(whole.shape, local.shape, machine.sizes):
        guess = _Guess(whole.shape, tiling)
        with contextlib.suppress(Unreadable):  # no rows that could be nowhere
            if guess.holds(machine, init, source):
                found.append(guess)
    return found


def _match(machine: Machine, op: Op, inits: list[View]) -> list[View]:
    """The loop of the source that this one is, if one is."""
    reason = "a loop that starts from what no loop of the source starts from"
    nodes = [view.node for view in inits]
    last, _ = machine.inducted.get(op.results, (None, []))
    for loop in sorted(machine.loops, key=lambda loop: loop is not last):
        if not isinstance(loop, LoopPair) or [v.node for v in loop.inits] != nodes:
            continue
        ranks = [len(type_.shape) for type_ in op.signature.operands]
        if [len(type_.shape) for type_ in loop.types] != ranks:
            continue
        try:
            if loop.sizes:
                return match_on_devices(machine, op, inits, loop)
            return _induct(machine, op, inits, loop)
        except Unreadable as error:
            reason = str(error)
    raise Unreadable(reason)


def _induct(machine: Machine, op: Op, inits: list[View], loop: LoopPair) -> list[View]:
    choices = [
        _guesses(machine, *each)
        for each in zip(
            loop.types, op.signature.operands, inits, loop.inits, strict=True
        )
    ]
    for number, found in enumerate(choices):
        if not found:
            raise Unreadable(f"value {number} of a loop does not start as the source's")
    first = [found[0] for found in choices]
    with contextlib.suppress(Unreadable):
        known = _known(machine, op, inits, loop, choices)
        if known and known != first:
            return _settle(machine, op, inits, loop, choices, known)
    return _settle(machine, op, inits, loop, choices, first)


def _known(
    machine: Machine,
    op: Op,
    inits: list[View],
    loop: LoopPair,
    choices: list[list[_Guess]],
) -> list[_Guess]:
    """How a loop in a loop was tiled in the last turn around it, if it starts so again.

    A loop around it takes several turns to settle, and each of them runs this one.
    """
    last, guesses = machine.inducted.get(op.results, (None, []))
    if last is not loop:
        return []
    starts = zip(guesses, choices, inits, loop.inits, strict=True)
    for guess, found, init, source in starts:
        if guess in found:
            continue
        if not guess.parts or not guess.holds(machine, init, source):
            return []
    return [*guesses]


def _settle(
    machine: Machine,
    op: Op,
    inits: list[View],
    loop: LoopPair,
    choices: list[list[_Guess]],
    guesses: list[_Guess],
) -> list[View]:
    """Turn after turn, until the body gives what was guessed."""
    tried = [{guess} for guess in guesses]
    for _ in range(_TRIES + 2 * max(map(len, choices), default=0)):
        carried = [
            guess.show(machine, symbol, op)
            for guess, symbol in zip(guesses, loop.carried, strict=True)
        ]
        condition, body = turn(machine, op, carried, loop.number)
        wrong = [
            number
            for number, guess in enumerate(guesses)
            if not guess.holds(machine, body[number], loop.body[number])
        ]
        if not wrong and same(condition, shown(_whole(machine), loop.condition)):
            machine.inducted[op.results] = loop, guesses
            return [
                guess.show(machine, symbol, op)
                for guess, symbol in zip(guesses, loop.results, strict=True)
            ]
        better = {
            n: _better(
                machine,
                (body[n], loop.body[n]),
                (inits[n], loop.inits[n]),
                choices[n],
                (guesses[n], tried[n]),
            )
            for n in wrong
        }
        if not any(better.values()):
            break
        for n, next_ in better.items():
            guesses[n] = next_ or guesses[n]
            tried[n].add(guesses[n])
    raise Unreadable("a loop whose body is not the source's" + _which(wrong))


def _whole(machine: Machine) -> DigitLayout:
    """A single number, the same on all devices."""
    return DigitLayout((), machine.alone)


def _which(wrong: list[int]) -> str:
    return f" in value {wrong[0]}" if wrong else ": its condition differs"


def _better(
    machine: Machine,
    made: tuple[View, View],
    start: tuple[View, View],
    choices: list[_Guess],
    before: tuple[_Guess, set[_Guess]],
) -> _Guess | None:
    """A guess that agrees with what the body made, or may do so in the next turn.

    `made` and `start` are what the loop has, and the source's; `before` the last guess,
    and all that were tried.
    """
    found, (last, tried) = made[0], before
    left = [guess for guess in choices if guess not in tried]
    for guess in left:
        if guess.holds(machine, *made):
            return guess
    axes = {a for a in range(len(machine.sizes)) if depends_on(found.layout, a)}
    more = replace(last, parts=tuple(sorted(axes - last.axes)))
    fits = more not in tried and _in_one(last, found)
    if fits and more.holds(machine, *start):
        return more
    for guess in left:
        if guess.axes <= axes:
            return guess
    for guess in choices:
        summed = replace(guess, parts=tuple(sorted(axes - guess.axes)))
        if summed not in tried and summed.holds(machine, *start):
            return summed
    return left[0] if left else None


def _in_one(guess: _Guess, found: View) -> bool:
    """Whether tiles, as guessed, lie in the dimensions that local ones are parts of."""
    local = {dim for items in found.layout.local for dim in dims_held(items)}
    held = [dims_held(found.layout.axes[axis]) for axis in guess.axes]
    return all(dims & local for dims in held)


@control("case", "if")
def _branch(machine: Machine, index: int, op: Op) -> None:
    """Every branch's results; which one it is, all devices decide alike."""
    (chosen,) = machine.read(op.operands)
    if any(depends_on(chosen.layout, axis) for axis in range(len(machine.sizes))):
        raise Unreadable("a branch that devices take differently")
    branches = []
    for number, region in enumerate(op.regions):
        with machine.inside((op.kind, chosen.node, number)):
            machine.run(region)
        branches.append(machine.read(region.results))
    for value, type_, views in zip(
        op.results, op.signature.results, zip(*branches, strict=True), strict=True
    ):
        labels = tuple(range(len(type_.shape)))
        equation = Equation(op.kind, ((), *(labels,) * len(views)), (labels,))
        (machine.env[value],) = machine.apply(equation, (chosen, *views), (type_,))
