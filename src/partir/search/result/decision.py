"""`Decision`: one move of a search, in values and ops of the whole program."""

from __future__ import annotations

from dataclasses import dataclass, replace

from partir.ir.core import Program
from partir.partition.state import State
from partir.search.result.patterns import LoopPattern, loop_patterns
from partir.search.space.move import Move


@dataclass(frozen=True, slots=True)
class Decision:
    """One move, in values and nodes of the source program.

    `tiles` maps values to dimensions, `whole` are pinned so, `loops` maps ops that were
    stuck to factors, the `first` few of them before the others. What is gathered of
    `kept` values is kept.
    """

    axis: str
    name: str
    reason: str
    tiles: dict[int, int]
    whole: tuple[int, ...]
    loops: dict[int, int]
    first: int = 0
    kept: tuple[int, ...] = ()

    def loop_patterns(self, program: Program) -> list[LoopPattern]:
        """Its loops as patterns, in their order."""
        items = list(self.loops.items())
        parts = items[: self.first], items[self.first :]
        return [one for part in parts for one in loop_patterns(program, dict(part))]

    def in_order(self, program: Program) -> Decision:
        """The same, loops in the order in which a tactic with patterns has them."""
        loops = {
            op: one.factor for one in self.loop_patterns(program) for op in one.ops
        }
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
            kept=self.kept,
        ).apply(state)
