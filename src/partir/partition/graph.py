"""`Graph`: what never changes of a program during partitioning.

*Nodes* are what propagation works on: the program's ops, by their numbers, then one
node per `Tie` (a loop's carry, a branch's result, state carried from call to call).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from partir.ir.core import Op, Program, Signature, Tie
from partir.partition.residual_pairs import Group, find_groups
from partir.partition.scanned_dims import (
    Redirect,
    ValueDims,
    find_redirects,
    find_scanned,
    find_stacked,
)
from partir.rules.elementwise import TIE
from partir.rules.nest import nest_of
from partir.rules.user import require_rules_fit


class Order(NamedTuple):
    """Nodes as the program runs through them: the place of each, the node of each."""

    of: list[int]
    nodes: list[int]


class Graph:
    """What never changes of a program during partitioning."""

    def __init__(self, program: Program) -> None:
        """Number the nodes and index values to the nodes next to them."""
        require_rules_fit(program)  # before one is asked: it would not say where it is
        self.program = program
        types = program.types
        self.signatures: list[Signature] = [op.signature for op in program.ops]
        self.operands: list[tuple[int, ...]] = [op.operands for op in program.ops]
        self.results: list[tuple[int, ...]] = [op.results for op in program.ops]
        self.owned: dict[int, list[int]] = {}
        for tie in program.ties:
            if tie.owner is not None:
                self.owned.setdefault(tie.owner, []).append(len(self.signatures))
            sources = tuple(types[v] for v in tie.sources)
            targets = tuple(types[v] for v in tie.targets)
            self.signatures.append(Signature.of(TIE, {}, sources, targets))
            self.operands.append(tie.sources)
            self.results.append(tie.targets)
        for owner in self.owned:  # its ties speak for it
            self.operands[owner] = self.results[owner] = ()
            self.signatures[owner] = Signature.of("partir.bundle", {}, (), ())
        self.neighbours = self._neighbours(len(types))
        self.nests = [nest_of(signature) for signature in self.signatures]
        # Arguments, and the results that take their places in the next call.
        self.handed_over = frozenset(program.body.arguments)
        # A PRNG key's trailing dimensions are hidden from users and never tiled.
        self.hidden = {
            port.value: port.rank
            for port in (*program.arguments, *program.results)
            if port.rank < len(types[port.value].shape)
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the program; all else follows from it."""
        return Graph, (self.program,)

    def _neighbours(self, values: int) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(values)]
        for node, (ins, outs) in enumerate(
            zip(self.operands, self.results, strict=True)
        ):
            for value in ins:
                found[value].append(node)
            for value in outs:
                found[value].append(node)
        return found

    def op(self, node: int) -> Op | None:
        """The program's op of a node, None for a tie."""
        return self.program.ops[node] if node < len(self.program.ops) else None

    def tie(self, node: int) -> Tie:
        """The tie of a node that is none of the program's ops."""
        return self.program.ties[node - len(self.program.ops)]

    @cached_property
    def order(self) -> Order:
        """What a loop carries stands before its body, what calls carry at the end."""
        count, ties = len(self.program.ops), self.program.ties
        places = [*range(count), *(count if t.owner is None else t.owner for t in ties)]
        nodes = sorted(range(len(places)), key=places.__getitem__)
        for place, node in enumerate(nodes):
            places[node] = place
        return Order(places, nodes)

    @cached_property
    def scanned(self) -> ValueDims:
        """(value, dimension) pairs that a loop indexes one slice at a time."""
        return find_scanned(self)

    @cached_property
    def stacked(self) -> dict[tuple[int, int], int]:
        """Of (value, dimension) pairs with a scanned part, what is outside of it."""
        return find_stacked(self)

    @cached_property
    def pairs(self) -> tuple[Group, ...]:
        """Calls that hand on residuals to each other."""
        return find_groups(self.program)

    @cached_property
    def redirects(self) -> dict[int, Redirect]:
        """Nodes that split a dimension, a loop stepping through the major part."""
        return find_redirects(self)
