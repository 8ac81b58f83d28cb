"""Propagation: one generic rule for all ops, in rounds, whatever the order of actions.

Every node next to a change is judged against the state at the start of the round;
then the choices are applied in program order, a home once set staying. No cost, no
op by name: what can't be told from the factors is left and recorded as a conflict.
"""

from __future__ import annotations

from partir.partition.state import Conflict, Origin, State
from partir.rules.nest import NO_SINGLE_FACTOR, UNDECIDED


def propagate(state: State, axis: str) -> None:
    """To a fixpoint on one axis, from what changed since the last time."""
    stuck: set[int] = {c.node for c in state.conflicts[axis]}
    while state.dirty[axis]:
        _rounds(state, axis, stuck)
        _settle(state, axis, stuck)
    chosen = state.chosen[axis]
    found = (_conflict(state, axis, n) for n in sorted(stuck) if not chosen[n])
    state.record_conflicts(axis, [conflict for conflict in found if conflict])


def _rounds(state: State, axis: str, stuck: set[int]) -> None:
    """Judge and apply until nothing next to a change has a single candidate.

    What operands support goes first. What only results ask for waits until nothing
    more flows forward: a gradient must not decide how the forward pass is tiled while
    the inputs' own tiling is still on its way.
    """
    waiting: set[int] = set()
    while state.dirty[axis] or waiting:
        backward = not state.dirty[axis]
        frontier = waiting if backward else state.dirty[axis]
        waiting = set() if backward else waiting - frontier
        state.dirty[axis] = set()
        waiting |= _round(state, axis, sorted(frontier), stuck, backward)


def _round(
    state: State, axis: str, frontier: list[int], stuck: set[int], backward: bool
) -> set[int]:
    """Judge these nodes, then apply what can be; returns those that wait."""
    size = state.mesh.axes[axis]
    graph, redirects = state.graph, state.graph.redirects
    chosen, seen, homes = state.chosen[axis], state.seen[axis], state.homes[axis]
    operands, results, nests = graph.operands, graph.results, state.nests
    choices, turned, waiting = [], [], set()
    for node in frontier:
        if chosen[node]:
            continue
        given = [seen[v] for v in operands[node]]
        known = (*given, *[homes[v] for v in results[node]])
        factor = nests[node].judge(size, known)
        if node in redirects:
            turned.append((node, factor))
        elif factor >= 0:
            if backward or max(given, default=UNDECIDED) >= 0:
                choices.append((node, factor))
            else:
                waiting.add(node)
        if factor == NO_SINGLE_FACTOR:
            stuck.add(node)
    for node, factor in choices:
        state.enter(node, factor, axis, Origin(state.step, node))
    for node, factor in turned:
        _redirect(state, axis, node, factor)
    return waiting


def _redirect(state: State, axis: str, node: int, factor: int) -> None:
    """A loop steps through the major part of this split: another part takes the axis.

    So the microbatch, not the number of microbatches, is what data parallelism tiles.
    """
    split, origin = state.graph.redirects[node], Origin(state.step, node)
    (operand,), (result,) = state.graph.operands[node], state.graph.results[node]
    ours = state.seen[axis][operand] == split.operand_dim
    if not ours or state.homes[axis][result] != UNDECIDED:
        if factor >= 0:
            state.enter(node, factor, axis, origin)
        return
    if factor >= 0:
        state.enter(node, factor, axis, origin, results=False)
    any(state.set_home(result, dim, axis, node) for dim in split.others)


def _settle(state: State, axis: str, stuck: set[int]) -> None:
    """Nodes still stuck follow their results where these leave one factor.

    Else ops follow their operands where these all agree on one; what is carried from
    call to call or around a loop does not: it would be moved every time.
    """
    size = state.mesh.axes[axis]
    choices = []
    for node in sorted(stuck):
        if not state.chosen[axis][node]:
            tied = state.graph.op(node) is None
            factor = state.nests[node].settle(size, state.known(node, axis), tied)
            if factor >= 0:
                choices.append((node, factor))
    for node, factor in choices:
        state.enter(node, factor, axis, Origin(state.step, node))


def _conflict(state: State, axis: str, node: int) -> Conflict | None:
    """The evidence, if at least two different loops are asked for."""
    known = state.known(node, axis)
    nest = state.nests[node]
    if len(nest.supported(state.mesh.axes[axis], known)) < 2:
        return None
    values = state.graph.operands[node] + state.graph.results[node]
    evidence = {
        (value, home): (value, home, state.tactic_of(axis, value))
        for value, home in zip(values, known, strict=True)
        if home >= 0
    }
    return Conflict(node, axis, tuple(evidence.values()))
