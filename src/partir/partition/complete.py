"""Completion: what propagation leaves is decided before lowering, not gathered.

In program order, as propagation: what a decision brings flows on before the next op is
looked at. It is done on a copy, when all tactics have had their say, so that nothing is
settled that a later one names. Conflicts stay on record.
"""

from __future__ import annotations

from partir.partition.follow import followed
from partir.partition.propagate import Propagation
from partir.partition.state import State
from partir.rules.nest import Homes


def complete(state: State) -> State:
    """The state, or a copy of it in which ops that were left have loops."""
    if not any(state.left.values()):
        return state
    made = state.copy()
    for axis in made.mesh:
        _Completion(made, axis).run()
    made.conflicts = dict(state.conflicts)
    return made


class _Completion(Propagation):
    """Propagation in which no op is left that could have a loop."""

    def leave(self, node: int, known: Homes) -> None:
        """Follow the results if they leave one factor; else the operands; or detour."""
        nest, tied = self.state.nests[node], self.state.graph.op(node) is None
        factor = nest.settle(self.size, known, tied)
        if factor < 0 and not tied:
            factor = followed(nest, self.size, known)
        if factor >= 0:
            self.enter(node, factor)
