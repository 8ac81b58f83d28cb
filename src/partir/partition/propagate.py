"""Propagation: one generic rule for all ops, in program order, whatever the actions'.

Nodes next to a change are judged in the order of the program, so that an op is decided
only when all that flows into it has arrived. A home once set stays. No cost, no op by
name: what can't be told from the factors is left and recorded as a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from partir.partition.follow import followed
from partir.partition.state import Conflict, Origin, State
from partir.rules.nest import NO_SINGLE_FACTOR, UNDECIDED, Homes, Verdict


def propagate(state: State, axis: str) -> None:
    """To a fixpoint on one axis, from what changed since the last time."""
    chosen = state.chosen[axis]
    if state.dirty[axis] or any(chosen[node] for node in state.left[axis]):
        Propagation(state, axis).run()


class Propagation:
    """The way to a fixpoint on one axis.

    What operands support goes first. What only results ask for waits until nothing
    more flows forward: a gradient must not decide how the forward pass is tiled while
    the inputs' own tiling is still on its way. What lies behind a conflict waits too.
    """

    def __init__(self, state: State, axis: str) -> None:
        """Start from what changed, and from what was left the last time."""
        self.state, self.axis = state, axis
        self.size = state.mesh.axes[axis]
        self.stuck: set[int] = set(state.left[axis])  # nodes
        self.open: set[int] = set()  # values that wait for a conflict to be settled
        state.dirty[axis] |= self.stuck

    def run(self) -> None:
        """Judge and settle until nothing changes, then put on record what is left."""
        state, axis = self.state, self.axis
        while state.dirty[axis]:
            self._flow()
            self._settle()
        chosen = state.chosen[axis]
        left = [node for node in sorted(self.stuck) if not chosen[node]]
        found = (_conflict(state, axis, node) for node in left)
        state.record_left(axis, left, [conflict for conflict in found if conflict])

    def _flow(self) -> None:
        """Until nothing next to a change has a single factor."""
        state, axis = self.state, self.axis
        waiting: set[int] = set()
        while state.dirty[axis] or waiting:
            backward = not state.dirty[axis]
            frontier = waiting if backward else state.dirty[axis]
            waiting = set() if backward else waiting - frontier
            state.dirty[axis] = set()
            waiting |= self._sweep(frontier, backward)

    def _sweep(self, frontier: set[int], backward: bool) -> set[int]:
        """Visit these nodes and what changes behind them; returns those that wait."""
        state, graph, order = self.state, self.state.graph, self.state.graph.order
        chosen, fresh = state.chosen[self.axis], state.dirty[self.axis]
        seen, homes = state.seen[self.axis], state.homes[self.axis]
        operands, results, redirects = graph.operands, graph.results, graph.redirects
        nests, size = state.nests, self.size
        heap = [order.of[node] for node in frontier]
        heapify(heap)
        waiting: set[int] = set()
        earlier: set[int] = set()
        while heap:
            node = order.nodes[heappop(heap)]
            frontier.discard(node)
            if chosen[node]:
                continue
            given = [seen[v] for v in operands[node]]
            known = (*given, *[homes[v] for v in results[node]])
            factor = nests[node].judge(size, known)
            special = factor < 0 or self.open or node in redirects
            if special and self._without_loop(node, factor, known):
                pass
            elif backward or max(given, default=UNDECIDED) >= 0:
                self.enter(node, factor)
            else:
                waiting.add(node)
            if fresh:
                self._queue(order.of[node], heap, frontier, earlier)
        fresh |= earlier
        return waiting

    def _queue(
        self, place: int, heap: list[int], queued: set[int], earlier: set[int]
    ) -> None:
        """What changed behind this place is visited in this sweep, the rest later."""
        places, chosen = self.state.graph.order.of, self.state.chosen[self.axis]
        fresh = self.state.dirty[self.axis]
        for node in fresh:
            if chosen[node] or node in queued:
                continue
            if places[node] > place:
                queued.add(node)
                heappush(heap, places[node])
            else:
                earlier.add(node)
        fresh.clear()

    def _without_loop(self, node: int, factor: Verdict, known: Homes) -> bool:
        """Do what there is to do about a node that can't just enter its loop.

        A split that a loop steps through takes another part (see `_redirect`).
        """
        if self.open and self._waits(node, factor):
            self.stuck.add(node)
            self._keep_open(node)
        elif node in self.state.graph.redirects:
            self._redirect(node, factor)
        elif factor == NO_SINGLE_FACTOR:
            self.stuck.add(node)
            self.leave(node, known)
        else:
            return factor < 0
        return True

    def enter(self, node: int, factor: int) -> None:
        """Put a node into the loop; what waited for its results need not any more."""
        self.state.enter(node, factor, self.axis, Origin(self.state.step, node))
        if self.open:
            self._close(self.state.graph.results[node])

    def leave(self, node: int, known: Homes) -> None:
        """A node without a single factor: if completion finds one, results are open."""
        is_op = self.state.graph.op(node) is not None
        if is_op and followed(self.state.nests[node], self.size, known) >= 0:
            self._keep_open(node)

    # Behind a conflict

    def _waits(self, node: int, factor: Verdict) -> bool:
        """Whether an open operand may yet ask for another loop than this one.

        It can't if the loop runs along it, and leaves the result in tiles.
        """
        seen = self.state.seen[self.axis]
        waiting = [
            position
            for position, value in enumerate(self.state.graph.operands[node])
            if value in self.open and seen[value] == UNDECIDED
        ]
        if not waiting or factor < 0:
            return bool(waiting)
        found = self.state.nests[node].factors[factor]
        return found.reduce is not None or any(
            found.operands[position] is None for position in waiting
        )

    def _keep_open(self, node: int) -> None:
        """Whoever reads the results has to look whether it waits."""
        graph, homes = self.state.graph, self.state.homes[self.axis]
        for value in graph.results[node]:
            if homes[value] == UNDECIDED and value not in self.open:
                self.open.add(value)
                self.state.dirty[self.axis].update(graph.neighbours[value])

    def _close(self, values: Iterable[int]) -> None:
        for value in values:
            if value in self.open:
                self.open.discard(value)
                self.state.dirty[self.axis].update(self.state.graph.neighbours[value])

    # What is left

    def _settle(self) -> None:
        """Nodes still stuck follow their results where these leave one factor.

        Else ops follow their operands where these all agree on one; what is carried
        from call to call or around a loop does not: it would be moved every time.
        """
        state, axis = self.state, self.axis
        choices = []
        for node in sorted(self.stuck):
            if not state.chosen[axis][node]:
                tied = state.graph.op(node) is None
                known = state.known(node, axis)
                factor = state.nests[node].settle(self.size, known, tied)
                if factor >= 0 and not (self.open and self._waits(node, factor)):
                    choices.append((node, factor))
        for node, factor in choices:
            self.enter(node, factor)

    def _redirect(self, node: int, factor: int) -> None:
        """A loop steps through the major part of this split: another takes the axis.

        So the microbatch, not the number of them, is what data parallelism tiles.
        """
        state, axis = self.state, self.axis
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
