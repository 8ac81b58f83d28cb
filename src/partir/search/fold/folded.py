"""`Folded`: a smaller program that stands for a whole one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from partir.ir.core import Program
from partir.simulate.fold_multiplicity import Multiplicity


@dataclass(frozen=True)
class Folded:
    """A program with its repetitions folded.

    `members` are the values of `source` that a value of `program` stands for.
    """

    source: Program
    program: Program
    times: Multiplicity
    members: tuple[tuple[int, ...], ...]
    nodes: tuple[int, ...]  # of `source`'s graph: ops, then ties
    op_members: Mapping[int, tuple[int, ...]]  # of nodes that stand for several
    twins: tuple[tuple[int, int], ...]  # values at one place of two repetitions
    argument_positions: tuple[int, ...]  # in `source.arguments`

    def node_members(self, node: int) -> tuple[int, ...]:
        """Nodes of the source that a node stands for."""
        return self.op_members.get(node, (self.nodes[node],))
