"""Named dimensions: which dimensions of which values are tiled together.

Two dimensions are one *name* if a factor of some op runs along both. A transformer has
a handful: batch, sequence, width, heads, hidden, vocabulary. Where a name stands twice
in one value (attention's sequence x sequence), only one of the two can be tiled over an
axis; propagation asks there, which is a conflict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from partir.partition.graph import Graph
from partir.search.fold.folded import Folded

Dim = tuple[int, int]  # value, dimension


@dataclass(frozen=True, slots=True)
class Name:
    """One named dimension of a folded program.

    `arguments` are its places in arguments, `values` how many values have it,
    `meets` those that have it twice, `inner` a value that has it if no argument does.
    """

    number: int
    size: int
    arguments: tuple[Dim, ...]
    values: int
    meets: tuple[int, ...]
    inner: Dim | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """All names, those of the largest arguments first, and where each stands."""

    names: tuple[Name, ...]
    where: Mapping[Dim, int]


def named_dimensions(folded: Folded, graph: Graph) -> Names:
    """The names of a folded program."""
    dims = _Dims(graph)
    for node, nest in enumerate(graph.nests):
        around = graph.operands[node] + graph.results[node]
        for factor in nest.factors:
            if factor.size > 1:
                places = factor.operands + factor.results
                dims.join(
                    (v, d) for v, d in zip(around, places, strict=True) if d is not None
                )
    for one, other in folded.twins:
        for dim in range(len(graph.program.types[one].shape)):
            dims.join([(one, dim), (other, dim)])
    return _names(graph, dims.groups())


def _names(graph: Graph, groups: Iterable[list[Dim]]) -> Names:
    types, program = graph.program.types, graph.program
    is_argument = set(program.body.arguments)
    outer = {v for i in program.body.ops for v in program.ops[i].results}
    found = []
    for members in groups:
        size = max(types[v].shape[d] for v, d in members)
        arguments = tuple(m for m in members if m[0] in is_argument)
        inner = max(
            (m for m in members if m[0] in outer),
            key=lambda m: types[m[0]].bytes,
            default=None,
        )
        if size > 1 and (arguments or inner):
            bytes_ = sum(types[v].bytes for v, _ in arguments)
            found.append((-bytes_, -len(members), members, arguments, inner))
    found.sort(key=lambda one: one[:2])
    names, where = [], {}
    for number, (*_, members, arguments, inner) in enumerate(found):
        counts = Counter(v for v, _ in members)
        twice = tuple(sorted(v for v, count in counts.items() if count > 1))
        size = max(types[v].shape[d] for v, d in members)
        one = None if arguments else inner
        names.append(Name(number, size, arguments, len(counts), twice, one))
        where.update(dict.fromkeys(members, number))
    return Names(tuple(names), where)


class _Dims:
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

    def groups(self) -> Iterator[list[Dim]]:
        found: dict[int, list[Dim]] = {}
        for value, type_ in enumerate(self.types):
            for dim in range(len(type_.shape)):
                root = self.find(self.first[value] + dim)
                found.setdefault(root, []).append((value, dim))
        yield from found.values()
