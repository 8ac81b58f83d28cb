"""Calls that hand on residuals are put into the same loops, whatever was decided.

A tactic may have left one of them in other loops than its partner: by a conflict, or a
choice. Then the first in the program has its way, which is the one that saves; what the
others read and give is moved where they stand.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.residual_pairs import Pair
from partir.partition.residual_pairs import Group
from partir.partition.state import State
from partir.rules.nest import Nest
from partir.rules.residual_pairs import PairLoop, in_pair_loops, pair_loops


def tied(state: State) -> State:
    """The state, or a copy of it in which calls of a pair are in the same loops."""
    groups = state.graph.pairs
    if all(_agree(state.nests, group) for group in groups):
        return state
    made = state.copy()
    for group in groups:
        _put_into(made, group, _common_loops(made.nests, group))
    # A call may belong to several groups: those that still differ do without loops.
    while wrong := [group for group in groups if not _agree(made.nests, group)]:
        for group in wrong:
            _put_into(made, group, ())
    return made


def _agree(nests: Sequence[Nest], group: Group) -> bool:
    return len({_axes(nests[node], pair) for node, pair in group}) == 1


def _axes(nest: Nest, pair: Pair) -> frozenset[tuple[int, tuple[str, ...]]]:
    """Axes of the loops over each of a pair's names that has some, outermost first.

    Under vmap, some calls of a pair may have more names than others.
    """
    loops = pair_loops(nest, pair)
    return frozenset(
        (number, tuple(axis for axis, _, n in loops if n == number))
        for _, _, number in loops
    )


def _common_loops(nests: Sequence[Nest], group: Group) -> tuple[PairLoop, ...]:
    """The first member's loops, as far as all can be in them."""
    node, pair = group[0]
    found: tuple[PairLoop, ...] = ()
    for loop in pair_loops(nests[node], pair):
        longer = (*found, loop)
        if all(in_pair_loops(nests[n], p, longer) for n, p in group):
            found = longer
    return found


def _put_into(state: State, group: Group, loops: Sequence[PairLoop]) -> None:
    for node, pair in group:
        nest = in_pair_loops(state.nests[node], pair, loops)
        assert nest is not None
        state.nests[node] = nest
        for axis, chosen in state.chosen.items():
            chosen[node] = axis in nest.axes
