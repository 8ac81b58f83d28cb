"""Decisions completed so that all layers of a program become alike.

Propagation takes what comes first. In middle layers that may differ from what it is
next to the first or the last one. Then some loops of the folded program are decided as
well: where an op has none, after the decision; where it has another one, before
anything is propagated.
"""

from __future__ import annotations

from dataclasses import replace

from partir.partition.state import State
from partir.rules.elementwise import FUSED
from partir.rules.nest import Loop, Nest
from partir.search.fold.folded import Folded
from partir.search.result.decision import Decision

_TRIES = 4  # times that a decision is made more explicit
_AT_ONCE = 4  # ops, in all repetitions, that are added each time


def alike_in_all_layers(
    folded: Folded, decision: Decision, before: State, wanted: State
) -> tuple[list[Decision], State]:
    """Decisions with which every repetition becomes what the folded program is.

    Also the whole program's state after them, which was `before`; the folded one's is
    `wanted`.
    """
    decisions = [decision]
    whole = _after(before, decisions)
    if decision.kept:  # it puts nothing into loops
        return decisions, whole
    differ = _differing(folded, decision.axis, whole, wanted)
    for _ in range(_TRIES):
        if not differ:
            break
        other = _explicit(folded, decisions, before, whole, wanted, differ)
        reached = _after(before, other)
        left = _differing(folded, decision.axis, reached, wanted)
        if len(left) >= len(differ):
            break
        decisions, whole, differ = other, reached, left
    return decisions, whole


def _after(before: State, decisions: list[Decision]) -> State:
    state = before.copy()
    for one in decisions:
        one.apply(state)
    return state


def _loop(nest: Nest, axis: str) -> Loop | None:
    return next((loop for loop in nest.loops if loop.axis == axis), None)


def _differing(
    folded: Folded, axis: str, whole: State, wanted: State
) -> list[tuple[int, bool]]:
    """Nodes of the folded program whose members have other loops.

    Each with whether some member has another loop, rather than none.
    """
    differing = []
    nests, chosen = whole.nests, whole.chosen[axis]
    for node in range(len(folded.program.ops)):
        nest = wanted.nests[node]
        loop = _loop(nest, axis)
        if loop is not None:
            members = folded.node_members(node)
            wrong = [m for m in members if not _same(nest, nests[m], loop)]
            if wrong:
                differing.append((node, any(chosen[m] for m in wrong)))
    return differing


def _explicit(
    folded: Folded,
    decisions: list[Decision],
    before: State,
    whole: State,
    wanted: State,
    differ: list[tuple[int, bool]],
) -> list[Decision]:
    """The decisions with loops of the first few ops that differ."""
    first, *rest = decisions
    missing = [node for node, another in differ if not another][:_AT_ONCE]
    if missing:
        loops = _numbers(folded, first.axis, missing, whole, wanted)
        name, reason = f"alike in all layers over {first.axis}", "as in other layers"
        alike = Decision(first.axis, name, reason, {}, (), loops)
        return [*decisions, alike.in_order(folded.source)]
    another = [node for node, _ in differ][:_AT_ONCE]
    loops = _numbers(folded, first.axis, another, before, wanted)
    more = replace(first, loops={**first.loops, **loops})
    return [more.in_order(folded.source), *rest]


def _numbers(
    folded: Folded, axis: str, nodes: list[int], state: State, wanted: State
) -> dict[int, int]:
    """Factors of all members of these nodes that have no loop yet."""
    numbers = {}
    for node in nodes:
        nest = wanted.nests[node]
        loop = _loop(nest, axis)
        assert loop is not None
        for member in folded.node_members(node):
            number = _number(nest, state.nests[member], loop)
            if number is not None and not state.chosen[axis][member]:
                numbers[member] = number
    return numbers


def _same(wanted: Nest, nest: Nest, loop: Loop) -> bool:
    """Whether an op of the source has the loop of the op that stands for it."""
    if wanted is nest:
        return True
    own = _loop(nest, loop.axis)
    if own is None:
        return False
    if wanted.signature.kind == FUSED:
        return own.factor.results[0] == loop.factor.results[0]
    return own.factor.resized(0) == loop.factor.resized(0)


def _number(wanted: Nest, nest: Nest, loop: Loop) -> int | None:
    """Which factor of an op of the source is that loop's, if it still divides."""
    if wanted.signature.kind == FUSED:
        dims = [factor.results[0] for factor in nest.factors]
        dim = loop.factor.results[0]
        number = dims.index(dim) if dim in dims else None
    else:
        number = nest.factor_like(loop.factor)
    fits = number is not None and nest.factors[number].size % loop.size == 0
    return number if fits else None
