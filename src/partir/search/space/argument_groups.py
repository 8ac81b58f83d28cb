"""Groups of arguments that moves are about, found by the graph alone.

*Inputs* are arguments that no result succeeds, *state* those that one does; *weights*
are state that more than its own update reads.
"""

from __future__ import annotations

from functools import cached_property

from partir.partition.graph import Graph
from partir.search.fold.folded import Folded
from partir.search.fold.heavy_readers import heavy_reads

_LARGE = 1 / 64  # of the largest argument


class ArgumentGroups:
    """The arguments of a folded program that may be tiled, in groups."""

    def __init__(self, folded: Folded, graph: Graph, allowed: set[int] | None) -> None:
        """`allowed` are the arguments (folded values) that may be tiled; None: all."""
        self._folded, self._program = folded, graph.program
        arguments = graph.program.body.arguments
        self.allowed = [v for v in arguments if allowed is None or v in allowed]

    @cached_property
    def inputs(self) -> set[int]:
        """Allowed arguments that are not state."""
        return set(self.allowed) - self.state

    @cached_property
    def state(self) -> set[int]:
        """Arguments that a result succeeds; without any, what looks like weights.

        Those are the arguments that are the second operand of what multiplies them.
        """
        program, handed = self._program, self._folded.times.handed
        ties = [t for t in program.ties if t.owner is None]
        tied = {t.targets[0] for t in ties if t.sources[0] not in handed}
        if tied:
            return tied
        types = program.types
        count = len(self._folded.times.results)
        results = {types[port.value] for port in program.results[:count]}
        alike = {v for v in program.body.arguments if types[v] in results}
        return alike or {v for v in program.body.arguments if self._is_second(v)}

    def _is_second(self, value: int) -> bool:
        """Whether heavy ops read it behind another operand."""
        return any(position > 0 for position in heavy_reads(self._program, value))

    @cached_property
    def weights(self) -> set[int]:
        """State that is read by more than elementwise ops."""
        program = self._program
        return {v for v in self.state if any(True for _ in heavy_reads(program, v))}

    @cached_property
    def large_state(self) -> set[int]:
        """Allowed state of a size that matters."""
        types = self._program.types
        state = [v for v in self.allowed if v in self.state]
        most = max((types[v].bytes for v in state), default=0)
        return {v for v in state if types[v].bytes >= most * _LARGE}
