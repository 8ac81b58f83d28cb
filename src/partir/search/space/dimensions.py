"""Named dimensions: which dimensions of which values are tiled together.

Two dimensions are one *name* if a factor of some op runs along both. A transformer has
a handful: batch, sequence, width, heads, hidden, vocabulary. Where a name stands twice
in one value (attention's sequence x sequence), only one of the two can be tiled over an
axis; propagation asks there, which is a conflict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from partir.partition.graph import Graph
from partir.search.fold.folded import Folded

Dim = tuple[int, int]  # value, dimension


@dataclass(frozen=True, slots=True)
class NamedDim:
    """One named dimension of a folded program.

    `arguments` are its places in arguments, `values` how many values have it,
    `meets` those that have it twice, `inner` a value that has it if no argument does.
    `windowed` if some op reads it in windows: it is one name by reach.
    """

    number: int
    size: int
    arguments: tuple[Dim, ...]
    values: int
    meets: tuple[int, ...]
    inner: Dim | None = None
    windowed: bool = False


@dataclass(frozen=True, slots=True)
class NamedDims:
    """All of them, those of the largest arguments first, and where each stands."""

    dimensions: tuple[NamedDim, ...]
    number_of: Mapping[Dim, int]


def named_dimensions(folded: Folded, graph: Graph) -> NamedDims:
    """The named dimensions of a folded program."""
    classes = _DimClasses(graph)
    windowed: list[Dim] = []
    for node, nest in enumerate(graph.nests):
        around = graph.operands[node] + graph.results[node]
        for factor in nest.factors:
            if factor.size > 1:
                places = factor.operands + factor.results
                dims = [
                    (v, d) for v, d in zip(around, places, strict=True) if d is not None
                ]
                classes.join(dims)
                windowed += dims[:1] if factor.reach else ()
    for one, other in folded.twins:
        for dim in range(len(graph.program.types[one].shape)):
            classes.join([(one, dim), (other, dim)])
    return _names(graph, classes.members(), classes.roots(windowed))


def _names(
    graph: Graph, classes: Mapping[int, list[Dim]], windowed: set[int]
) -> NamedDims:
    types, program = graph.program.types, graph.program
    is_argument = set(program.body.arguments)
    outer = {v for i in program.body.ops for v in program.ops[i].results}
    ranked = []
    for root, members in classes.items():
        size = max(types[v].shape[d] for v, d in members)
        arguments = tuple(m for m in members if m[0] in is_argument)
        inner = max(
            (m for m in members if m[0] in outer),
            key=lambda m: types[m[0]].bytes,
            default=None,
        )
        if size > 1 and (arguments or inner):
            bytes_ = sum(types[v].bytes for v, _ in arguments)
            reached = root in windowed
            ranked.append((-bytes_, -len(members), members, arguments, inner, reached))
    ranked.sort(key=lambda one: one[:2])
    dimensions, number_of = [], {}
    for number, (_, _, members, arguments, inner, reached) in enumerate(ranked):
        counts = Counter(v for v, _ in members)
        twice = tuple(sorted(v for v, count in counts.items() if count > 1))
        size = max(types[v].shape[d] for v, d in members)
        place = None if arguments else inner
        named = NamedDim(number, size, arguments, len(counts), twice, place, reached)
        dimensions.append(named)
        number_of.update(dict.fromkeys(members, number))
    return NamedDims(tuple(dimensions), number_of)


class _DimClasses:
    """Union-find over all dimensions of all values."""

    def __init__(self, graph: Graph) -> None:
        self.first: list[int] = []
        count = 0
        for type_ in graph.program.types:
            self.first.append(count)
            count += len(type_.shape)
        self.parent = list(range(count))
        self.types = graph.program.types

    def find(self, place: int) -> int:
        parent = self.parent
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    def join(self, dims: Iterable[Dim]) -> None:
        """These are one name."""
        roots = [self.find(self.first[v] + d) for v, d in dims]
        for root in roots[1:]:
            self.parent[self.find(root)] = self.find(roots[0])

    def roots(self, dims: Iterable[Dim]) -> set[int]:
        """The names of these."""
        return {self.find(self.first[v] + d) for v, d in dims}

    def members(self) -> dict[int, list[Dim]]:
        """All dimensions, by name."""
        classes: dict[int, list[Dim]] = {}
        for value, type_ in enumerate(self.types):
            for dim in range(len(type_.shape)):
                root = self.find(self.first[value] + dim)
                classes.setdefault(root, []).append((value, dim))
        return classes
