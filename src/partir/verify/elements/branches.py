"""Loops and branches, which all devices take together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from partir.ir.core import Op, Region
from partir.verify.elements.cases import FALSE, GARBAGE, TRUE, Cases, Scalar
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.integers import compared
from partir.verify.elements.lockstep import Lockstep, OnDevices, TooLarge, together
from partir.verify.elements.rings import Integers, ring_of
from partir.verify.layouts.layout import Unreadable

_MOST_STEPS = 1 << 10  # of a loop
_MOST_ENDS = 16  # steps at which it may end


@contextmanager
def _only_if(state: Lockstep, *decided: Hashable) -> Iterator[None]:
    """Ops are run of which nobody knows whether they are: something decides."""
    kept = state.ops.only_if
    state.ops.only_if = (*kept, *decided)
    try:
        yield
    finally:
        state.ops.only_if = kept


@together("while")
def _while(state: Lockstep, op: Op) -> list[OnDevices]:
    """A loop, which may end before all of its steps that are run here."""
    with _only_if(state):
        return _steps(state, op)


def _steps(state: Lockstep, op: Op) -> list[OnDevices]:
    """Step by step, as long as all devices go on; if that is not known, as if so.

    Where a loop may end, its values there are kept, and chosen afterwards.
    """
    condition, body = op.regions
    held = state.held(op.operands)
    ends: list[tuple[Scalar, list[OnDevices]]] = []
    for _ in range(_MOST_STEPS):
        state.env.update(zip(condition.arguments, held, strict=True))
        state.run(condition)
        goes_on = _way(state, condition.results[0])
        if goes_on == FALSE:
            return _chosen_end(state, op, held, ends)
        if goes_on != TRUE:
            ends.append((goes_on, held))
            state.ops.only_if += (goes_on,)
        if len(ends) > _MOST_ENDS:
            raise TooLarge("a loop that may end at too many steps")
        state.env.update(zip(body.arguments, held, strict=True))
        state.run(body)
        held = state.held(body.results)
    raise TooLarge("a loop of too many steps")


def _way(state: Lockstep, value: int) -> Scalar:
    """A truth that all devices have: known, or by a name of its own."""
    flat = state.ops.algebra.flat
    found = {flat(one, ring_of("i1")) for (one,) in state.env[value]}
    if len(found) != 1 or GARBAGE in found:
        raise Unreadable("devices that do not go the same way")
    (one,) = found
    return state.ops.algebra.truth("goes on", one) if one[0] else one


def _chosen_end(
    state: Lockstep,
    op: Op,
    held: list[OnDevices],
    ends: Sequence[tuple[Scalar, list[OnDevices]]],
) -> list[OnDevices]:
    for goes_on, before in reversed(ends):
        held = _chosen(state, op, goes_on, held, before)
    return held


def _chosen(
    state: Lockstep, op: Op, which: Scalar, new: list[OnDevices], old: list[OnDevices]
) -> list[OnDevices]:
    """One of two results of all devices, by a truth that they have in common."""
    made = []
    for type_, *both in zip(op.signature.results, new, old, strict=True):
        select = state.ops.select(type_.dtype)
        state.spend(op, len(state.devices))
        made.append(
            [
                x
                if x is y
                else [select(which, a, b) for a, b in zip(x, y, strict=True)]
                for x, y in zip(*both, strict=True)
            ]
        )
    return made


def _agreed(state: Lockstep, value: int) -> int:
    """A truth or number that is known, and the same on all devices."""
    found = {one for (one,) in state.env[value] if one is not GARBAGE}
    if len(found) != 1 or any(one is GARBAGE for (one,) in state.env[value]):
        raise Unreadable("devices that do not go the same way")
    (one,) = found
    ring = ring_of(state.program.types[value].dtype)
    known = None
    if isinstance(ring, Integers) and type(one) is not Cases:
        known = ring.known(one)
    if known is None:
        raise Unreadable("a way that depends on what is not known")
    return known


@together("case", "if")
def _case(state: Lockstep, op: Op) -> list[OnDevices]:
    """The branch that is known to be taken, or each where it would be."""
    which = op.operands[0]
    branches = op.regions if op.kind == "stablehlo.case" else op.regions[::-1]
    try:
        taken = _agreed(state, which)
    except Unreadable:
        return _each(state, op, branches)
    last = len(branches) - 1
    branch = branches[taken if 0 <= taken <= last else last]
    state.run(branch)
    return state.held(branch.results)


def _each(state: Lockstep, op: Op, branches: Sequence[Region]) -> list[OnDevices]:
    which = state.env[op.operands[0]]
    ring = ring_of(state.program.types[op.operands[0]].dtype)
    garbage = state.ops.algebra.flat(which[0][0], ring) is GARBAGE
    if garbage or any(one != which[0] for one in which[1:]):
        raise Unreadable("devices that do not go the same way")
    made = []
    for number_, branch in enumerate(branches):
        with _only_if(state, which[0][0], number_):
            state.run(branch)
        made.append(state.held(branch.results))
    dtype, ops = state.program.types[op.operands[0]].dtype, state.ops
    compare = _equal_to(ops, dtype)
    found = made[-1]
    for number_, results in enumerate(made[:-1]):
        found = _chosen(state, op, compare(which[0][0], number_), results, found)
    return found


def _equal_to(ops: Elementwise, dtype: str) -> Callable[[Scalar, int], Scalar]:
    ring, truths = ring_of(dtype), ring_of("i1")
    assert isinstance(ring, Integers)

    def run(x: Scalar, count: int) -> Scalar:
        def plain(one: Scalar) -> Scalar:
            if one is GARBAGE:
                return GARBAGE
            return compared(ops.algebra, ring, "EQ", one, ring.number(count))

        return ops.algebra.apply(plain, truths, (ring,), x)

    return run
