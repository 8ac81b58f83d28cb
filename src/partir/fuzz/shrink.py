"""From a case that fails to a smallest one that fails at the same stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from partir.api.jit import partition
from partir.errors import PartirError
from partir.frontend.load import load
from partir.fuzz.case import Case, Failure, Tactics
from partir.fuzz.edit import (
    Edit,
    edited,
    edits,
    source_text,
    unread,
    without_arguments,
)
from partir.ir.core import Program
from partir.mesh import Mesh
from partir.partition.actions import Action
from partir.partition.values import Values
from partir.tactics.recorded import recorded_schedule

Try = Callable[[Case], Failure | None]


def shrunk(case: Case, stage: str, attempt: Try, limit: int = 400) -> Case:
    """The smallest case found in so many attempts; a local minimum."""
    return _Shrinker(stage, attempt, limit).run(case)


@dataclass
class _Shrinker:
    stage: str
    attempt: Try
    left: int

    def run(self, case: Case) -> Case:
        case = self.smallest(case)
        # Actions on what is needed no more than to carry them on are in the way.
        told = _explicit(case)
        if told is not None and self.fails(told):
            other = self.smallest(told)
            case = min(case, other, key=_size)
        return case

    def smallest(self, case: Case) -> Case:
        smaller: Case | None = case
        while smaller is not None:
            case = smaller
            smaller = next((c for c in _candidates(case) if self.fails(c)), None)
        return case

    def fails(self, case: Case) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        found = self.attempt(case)
        return found is not None and found.stage == self.stage


def _size(case: Case) -> int:
    return len(case.text.splitlines()) + sum(len(taken) for _, taken in case.schedule)


def _explicit(case: Case) -> Case | None:
    """The same layout of the arguments, by an action for each."""
    program = load(case.text)
    try:
        schedule, carry = recorded_schedule(case.schedule), case.carried(program)
        made = partition(program, case.mesh, schedule, carry=carry)
    except Exception:
        return None
    actions = tuple(
        Action("tile", port.name, axis, dim)
        for port, tiling in zip(program.arguments, made.spmd.in_tilings, strict=True)
        for dim, axes in enumerate(tiling)
        for axis in axes
    )
    return replace(case, schedule=(("layout", actions),))


def _candidates(case: Case) -> Iterator[Case]:
    yield from _less_program(case)
    yield from _less_schedule(case)
    yield from _less_carried(case)
    yield from _less_mesh(case)


# The program


def _less_program(case: Case) -> Iterator[Case]:
    program = load(case.text)
    dropped = unread(program)
    if dropped:
        yield _renamed(case, program, without_arguments(program, dropped))
    for edit in edits(program):
        try:
            yield _renamed(case, program, edited(program, edit), edit)
        except PartirError:
            continue


def _renamed(
    case: Case, before: Program, after: Program, edit: Edit | None = None
) -> Case:
    """The case with another program; actions follow their values to their new names."""
    names, renamed = Values(before), Values(after)
    kept = {v: h for v, h in zip(before.body.arguments, case.holds, strict=True)}
    holds = tuple(
        kept.get(v) or _holds(after.types[v].dtype, case) for v in after.body.arguments
    )
    alive = {v for n in after.walk() for v in after.ops[n].results}
    alive |= set(after.body.arguments) | _region_arguments(after)

    def follow(action: Action) -> Action | None:
        found = names.exactly(action.target)
        if found is None or action.kind == "choose":
            return action
        if found[1] not in alive:
            return None
        return replace(action, target=renamed.unique_name(found[1]))

    tactics = tuple(
        (name, tuple(a for a in map(follow, actions) if a is not None))
        for name, actions in case.schedule
    )
    return replace(
        case,
        text=source_text(after),
        holds=holds,
        schedule=tactics,
        carry=_carried(case, before, after, edit),
    )


def _carried(
    case: Case, before: Program, after: Program, edit: Edit | None
) -> tuple[tuple[int, int], ...]:
    """Pairs of a result and an argument that are both still there."""
    count = range(len(before.results))
    kept = list(count if edit is None or edit.results is None else edit.results)
    places = {value: n for n, value in enumerate(after.body.arguments)}
    return tuple(
        (kept.index(result), places[before.body.arguments[argument]])
        for result, argument in case.carry
        if result in kept and before.body.arguments[argument] in places
    )


def _region_arguments(program: Program) -> set[int]:
    return {
        value
        for number in program.walk()
        for region in program.ops[number].regions
        for value in region.arguments
    }


def _holds(dtype: str, case: Case) -> str:
    """What a value that became an argument is given."""
    if dtype.startswith(("i", "ui")):
        return "small"
    return next((h for h in case.holds if h in ("whole", "plain", "wild")), "whole")


# The schedule


def _less_schedule(case: Case) -> Iterator[Case]:
    tactics: Tactics = case.schedule
    for number, (name, actions) in enumerate(tactics):
        rest = (*tactics[:number], *tactics[number + 1 :])
        if rest:
            yield replace(case, schedule=rest)
        for place in range(len(actions)):
            fewer = (*actions[:place], *actions[place + 1 :])
            changed = (*tactics[:number], (name, fewer), *tactics[number + 1 :])
            yield replace(case, schedule=changed)


def _less_carried(case: Case) -> Iterator[Case]:
    for pair in case.carry:
        yield replace(case, carry=tuple(p for p in case.carry if p != pair))


def _less_mesh(case: Case) -> Iterator[Case]:
    """Without an axis, or with a smaller one."""
    axes = case.mesh.axes
    for axis, size in axes.items():
        if len(axes) > 1:
            others = {name: n for name, n in axes.items() if name != axis}
            tactics = tuple(
                (name, tuple(a for a in actions if a.axis != axis))
                for name, actions in case.schedule
            )
            yield replace(case, mesh=Mesh(others), schedule=tactics)
        if size > 2:
            yield replace(case, mesh=Mesh({**axes, axis: 2}))
