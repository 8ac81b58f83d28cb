"""Loops inside of shard_maps: devices of a mesh carry values of their own.

Here the source says what each device holds. Its symbols have one more dimension for
each axis along which devices hold different values, and a loop of the device-local
program is the same if it carries just these.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.core import Op
from partir.verify.layouts.layout import Unreadable, View, depends_on
from partir.verify.layouts.spread import same
from partir.verify.machine.carried import Axes, LoopPair, symbols, turn
from partir.verify.machine.machine import Machine


def define_on_devices(machine: Machine, op: Op, inits: Sequence[View]) -> list[View]:
    """A loop of the source, on the devices of a shard_map.

    A value differs along an axis if it does at first, or after a turn: more axes are
    tried until no turn adds one.
    """
    key, types = len(machine.loops), op.signature.operands
    machine.loops.append(())  # loops inside have numbers of their own
    over = [_axes(machine, view) for view in inits]
    while True:
        del machine.loops[key + 1 :]  # of the turn before
        carried = symbols(machine, "carried", key, types, over=over)
        condition, body = turn(machine, op, carried, key)
        wider = [
            tuple(sorted({*axes, *_axes(machine, view)}))
            for axes, view in zip(over, body, strict=True)
        ]
        if wider == over:
            break
        over = wider
    if _axes(machine, condition):
        raise Unreadable("a loop that devices leave at different turns")
    results = symbols(machine, "looped", key, types, over=over)
    machine.loops[key] = LoopPair(
        tuple(inits),
        tuple(carried),
        condition,
        tuple(body),
        tuple(results),
        types,
        machine.names,
        machine.sizes,
        key,
    )
    return results


def match_on_devices(
    machine: Machine, op: Op, inits: Sequence[View], loop: LoopPair
) -> list[View]:
    """What a device-local loop leaves, if it carries what the source's devices do."""
    if (machine.names, machine.sizes) != (loop.names, loop.sizes):
        raise Unreadable("a loop of a shard_map over another mesh")
    if op.signature.operands != loop.types:
        raise Unreadable("a loop of a shard_map that carries other types")
    _check(inits, loop.inits, "does not start as the source's")
    condition, body = turn(machine, op, loop.carried, loop.number)
    _check([condition], [loop.condition], "ends at another turn")
    _check(body, loop.body, "is not the source's after a turn")
    return list(loop.results)


def _check(found: Sequence[View], wanted: Sequence[View], otherwise: str) -> None:
    for number, pair in enumerate(zip(found, wanted, strict=True)):
        if not same(*pair):
            raise Unreadable(f"value {number} of a loop in a shard_map {otherwise}")


def _axes(machine: Machine, view: View) -> Axes:
    return tuple(a for a in range(len(machine.sizes)) if depends_on(view.layout, a))
