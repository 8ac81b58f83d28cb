"""`Decision`: one move of a search as it is for the program itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from partir.ir.core import Program
from partir.partition.state import State
from partir.rules.elementwise import FUSED
from partir.rules.nest import Loop, Nest
from partir.search.fold.folded import Folded
from partir.search.result.patterns import Chosen, chosen_ops
from partir.search.space.moves import Move

_TRIES = 4  # times that a decision is made more explicit
_AT_ONCE = 4  # ops, in all repetitions, that are added each time


@dataclass(frozen=True, slots=True)
class Decision:
    """One move, in values and nodes of the source program.

    `tiles` maps values to dimensions, `whole` are kept so, `loops` maps ops that were
    stuck to factors, the `first` few of them before the others.
    """

    axis: str
    name: str
    reason: str
    tiles: dict[int, int]
    whole: tuple[int, ...]
    loops: dict[int, int]
    first: int = 0

    def chosen(self, program: Program) -> list[Chosen]:
        """Its loops as patterns, in their order."""
        items = list(self.loops.items())
        parts = items[: self.first], items[self.first :]
        return [one for part in parts for one in chosen_ops(program, dict(part))]

    def in_order(self, program: Program) -> Decision:
        """The same, loops in the order in which a tactic with patterns has them."""
        loops = {op: one.factor for one in self.chosen(program) for op in one.ops}
        return replace(self, loops=loops)

    def apply(self, state: State) -> None:
        """Take it, and propagate."""
        Move(
            self.axis,
            "",
            tiles=tuple(self.tiles.items()),
            whole=self.whole,
            loops=tuple(
                (node, state.nests[node].factors[number].resized(0))
                for node, number in self.loops.items()
            ),
        ).apply(state)


def agreed(
    folded: Folded, decision: Decision, before: State, wanted: State
) -> tuple[list[Decision], State]:
    """Decisions with which every repetition becomes what the folded program is.

    Propagation takes what comes first. In the middle of many layers that may differ
    from what it is next to an end, so that layers would not be alike. Then some loops
    of the folded program are decided as well: where an op has none, behind it; where
    it has another one, before anything is propagated.
    """
    made = [decision]
    whole = _after(before, made)
    differ = _differing(folded, decision.axis, whole, wanted)
    for _ in range(_TRIES):
        if not differ:
            break
        other = _explicit(folded, made, before, whole, wanted, differ)
        reached = _after(before, other)
        left = _differing(folded, decision.axis, reached, wanted)
        if len(left) >= len(differ):
            break
        made, whole, differ = other, reached, left
    return made, whole


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
    """Nodes of the folded program with members that are otherwise.

    Each with whether some member has another loop, rather than none.
    """
    found = []
    nests, chosen = whole.nests, whole.chosen[axis]
    for node in range(len(folded.program.ops)):
        nest = wanted.nests[node]
        loop = _loop(nest, axis)
        if loop is not None:
            members = folded.node_members(node)
            wrong = [m for m in members if not _same(nest, nests[m], loop)]
            if wrong:
                found.append((node, any(chosen[m] for m in wrong)))
    return found


def _explicit(
    folded: Folded,
    made: list[Decision],
    before: State,
    whole: State,
    wanted: State,
    differ: list[tuple[int, bool]],
) -> list[Decision]:
    """The decisions with loops of the first few ops that differ."""
    first, *rest = made
    missing = [node for node, another in differ if not another][:_AT_ONCE]
    if missing:
        loops = _numbers(folded, first.axis, missing, whole, wanted)
        name, reason = f"alike in all layers over {first.axis}", "as in other layers"
        alike = Decision(first.axis, name, reason, {}, (), loops)
        return [*made, alike.in_order(folded.source)]
    another = [node for node, _ in differ][:_AT_ONCE]
    loops = _numbers(folded, first.axis, another, before, wanted)
    more = replace(first, loops={**first.loops, **loops})
    return [more.in_order(folded.source), *rest]


def _numbers(
    folded: Folded, axis: str, nodes: list[int], state: State, wanted: State
) -> dict[int, int]:
    """Factors of all members of these nodes that have no loop yet."""
    found = {}
    for node in nodes:
        nest = wanted.nests[node]
        loop = _loop(nest, axis)
        assert loop is not None
        for member in folded.node_members(node):
            number = _number(nest, state.nests[member], loop)
            if number is not None and not state.chosen[axis][member]:
                found[member] = number
    return found


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
