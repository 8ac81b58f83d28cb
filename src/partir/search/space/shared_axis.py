"""Two named dimensions that share an axis: one for ops of weights, one for the rest.

Experts share an axis with the batch: what reads experts' weights loops over experts,
the rest over the batch, and tokens change places in between. Propagation alone can't
decide where, since both could be carried on; so the move says it. Its *core* are the
ops that read the weights, what is elementwise between them, and the products of two
values from the core (the weights' gradients); its *rim* are the other ops next to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from partir.partition.graph import Graph
from partir.rules.factor import Factor
from partir.rules.nest import Nest
from partir.rules.traits import changes_form, is_light
from partir.search.space.dimensions import Dim
from partir.search.space.move import Loops


def shared_axis_loops(
    graph: Graph,
    numbers: Mapping[Dim, int],
    weights: Iterable[int],
    inner: int,
    outer: int,
) -> tuple[Loops, Loops]:
    """Loops of the core along dimension `inner`, and of the rim along `outer`."""
    return _SharedAxis(graph, numbers, inner, outer).loops(weights)


class _SharedAxis:
    def __init__(
        self, graph: Graph, numbers: Mapping[Dim, int], inner: int, outer: int
    ) -> None:
        self.graph, self.numbers = graph, numbers
        self.inner, self.outer = inner, outer

    def loops(self, weights: Iterable[int]) -> tuple[Loops, Loops]:
        """Core first: what it makes and reads is then its own."""
        derived = self._derived(weights)
        core = {
            node
            for value in derived
            for node in self.graph.neighbours[value]
            if value in self.graph.operands[node] and self._heavy(node)
        }
        core = {n for n in core if self._both(n)}
        values = self._values(core)
        rim: set[int] = set()
        todo = list(values)
        while todo:
            for node in self.graph.neighbours[todo.pop()]:
                if node in core or node in rim:
                    continue
                if self._belongs(node, values, derived):
                    core.add(node)
                    fresh = self._values([node]) - values
                    values |= fresh
                    todo += fresh
                elif self._factor(node, self.outer) is not None:
                    rim.add(node)
        rim = {n for n in rim if not self._belongs(n, values, derived)} - core
        inside, around = (core, self.inner), (rim, self.outer)
        return tuple(self._loops(*inside)), tuple(self._loops(*around))

    def _loops(self, nodes: set[int], dimension: int) -> Iterator[tuple[int, Factor]]:
        ops = len(self.graph.program.ops)  # ties follow what they tie
        for node in sorted(nodes):
            number = self._factor(node, dimension)
            if number is not None and node < ops:
                yield node, self._nest(node).factors[number].resized(0)

    def _derived(self, weights: Iterable[int]) -> set[int]:
        """Weights, and what only converts or turns them."""
        derived, todo = set(weights), list(weights)
        while todo:
            value = todo.pop()
            for node in self.graph.neighbours[value]:
                single = self.graph.operands[node] == (value,)
                if single and changes_form(self._nest(node)):
                    fresh = set(self.graph.results[node]) - derived
                    derived |= fresh
                    todo += fresh
        return derived

    def _heavy(self, node: int) -> bool:
        return not is_light(self._nest(node))

    def _nest(self, node: int) -> Nest:
        return self.graph.nests[node]

    def _factor(self, node: int, dimension: int) -> int | None:
        """The op's loop along a named dimension, if there is just one."""
        around = self.graph.operands[node] + self.graph.results[node]
        along = [
            number
            for number, factor in enumerate(self._nest(node).factors)
            if any(
                dim is not None and self.numbers.get((value, dim)) == dimension
                for value, dim in zip(
                    around, factor.operands + factor.results, strict=True
                )
            )
        ]
        return along[0] if len(along) == 1 else None

    def _both(self, node: int) -> bool:
        return all(self._factor(node, n) is not None for n in (self.inner, self.outer))

    def _values(self, nodes: Iterable[int]) -> set[int]:
        """Values next to these that have both dimensions."""
        types = self.graph.program.types
        return {
            value
            for node in nodes
            for value in self.graph.operands[node] + self.graph.results[node]
            if {self.inner, self.outer}
            <= {self.numbers.get((value, d)) for d in range(len(types[value].shape))}
        }

    def _belongs(self, node: int, values: set[int], derived: set[int]) -> bool:
        """Elementwise on such values, or a product of nothing else."""
        if self._factor(node, self.inner) is None:
            return False
        types, operands = self.graph.program.types, self.graph.operands[node]
        if self._heavy(node):
            return all(
                v in values or v in derived or not types[v].shape for v in operands
            )
        own = self._values([node])
        around = operands + self.graph.results[node]
        return all(v in values or v in own or not types[v].shape for v in around)
