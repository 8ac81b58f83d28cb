"""`ClassTerm`: one class of equal values, written over index variables.

A term applies an op to classes. Each reference says, for every dimension of the class
that it reads, which *index variables* make up its index (major first). Variables are
free (the dimensions of the result), bound (summed over, or whatever the op does) or
special (an op runs along them in order: a sort, a window). Numbered in the order of
their first use, and joined where they only occur behind each other, so that equal
meanings have equal terms whatever the order and the shapes they were written in.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

Variable = Any  # names an index while a term is made; hashable
Dims = tuple[tuple[Variable, ...], ...]  # per dimension of a class, its variables
Where = Mapping[Variable, tuple[int, int]]  # dimension of a class, stride within it
FREE, BOUND = "free", "bound"

Item = int | tuple[str, int]  # a variable, or ("repeated", size)


class Ref(NamedTuple):
    """A class that is read, each of its dimensions as variables of the term."""

    node: int
    dims: tuple[tuple[int, ...], ...]


class ClassTerm(NamedTuple):
    """An op on classes; all that tells it from others."""

    kind: str
    attrs: Any  # hashable
    refs: tuple[Ref, ...]
    sizes: tuple[int, ...]  # of all variables
    free: tuple[int, ...]  # the class's dimensions
    specials: tuple[tuple[Item, ...], ...] = ()
    new: tuple[int, ...] = ()  # sizes of further dimensions, which the op makes
    dtype: str = ""
    result: int = 0

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes of the class's dimensions."""
        return (*(self.sizes[v] for v in self.free), *self.new)


class TermForm(NamedTuple):
    """A term but for the classes that it reads: a deep model has few of these."""

    kind: str
    attrs: Any
    dims: tuple[tuple[tuple[int, ...], ...], ...]  # of each reference
    sizes: tuple[int, ...]
    free: tuple[int, ...]
    specials: tuple[tuple[Item, ...], ...]
    new: tuple[int, ...]
    dtype: str
    result: int

    def of(self, nodes: Sequence[int]) -> ClassTerm:
        """The term that reads these classes."""
        refs = tuple(map(Ref, nodes, self.dims))
        return ClassTerm._make((*self[:2], refs, *self[3:]))


def form_of(term: ClassTerm) -> TermForm:
    """A term without the classes that it reads."""
    dims = tuple([ref.dims for ref in term.refs])
    return TermForm._make((*term[:2], dims, *term[3:]))


class Use(NamedTuple):
    """Variables of a term in the making: sizes, roles and order along special ones."""

    sizes: Mapping[Variable, int]
    roles: Mapping[Variable, Hashable]
    specials: Sequence[Sequence[Variable | tuple[str, int]]] = ()


class Numbered(NamedTuple):
    """The canonical form of references, and where each variable went."""

    dims: tuple[tuple[tuple[int, ...], ...], ...]
    sizes: tuple[int, ...]
    free: tuple[int, ...]
    specials: tuple[tuple[Item, ...], ...]
    places: dict[Variable, tuple[int, int]]  # number, stride within it

    def where(self) -> dict[Variable, tuple[int, int]]:
        """The class's dimensions that free variables are in, and strides there."""
        dimension = {number: dim for dim, number in enumerate(self.free)}
        return {
            variable: (dimension[number], stride)
            for variable, (number, stride) in self.places.items()
            if number in dimension
        }


def numbered(refs: Sequence[Dims], use: Use) -> Numbered:
    """Join variables that always follow each other; number by first use."""
    after = _followers(refs, use)
    heads = _heads(refs, after)
    runs: dict[Variable, list[Variable]] = {}
    for head in heads:
        run = [head]
        while run[-1] in after:
            run.append(after[run[-1]])
        runs[head] = run
    sizes, places = [], {}
    for number, run in enumerate(runs.values()):
        stride = 1
        for variable in reversed(run):
            places[variable] = (number, stride)
            stride *= use.sizes[variable]
        sizes.append(stride)
    made = tuple(
        tuple(tuple(places[v][0] for v in dim if v in runs) for dim in dims)
        for dims in refs
    )
    free = tuple(n for n, head in enumerate(runs) if use.roles[head] == FREE)
    specials = tuple(_special(items, runs, places) for items in use.specials)
    return Numbered(made, tuple(sizes), free, specials, places)


def _followers(refs: Sequence[Dims], use: Use) -> dict[Variable, Variable]:
    """Which variable comes behind another wherever either of them occurs."""
    after: dict[Variable, Variable | None] = {}
    before: dict[Variable, Variable | None] = {}
    orders = [*(dim for dims in refs for dim in dims), *use.specials]
    for dim in orders:
        for place, variable in enumerate(dim):
            follower = dim[place + 1] if place + 1 < len(dim) else None
            leader = dim[place - 1] if place else None
            _note(after, variable, follower)
            _note(before, variable, leader)
    roles = use.roles
    return {
        variable: follower
        for variable, follower in after.items()
        if follower is not None
        and before.get(follower) == variable
        and roles.get(variable) == roles.get(follower)
    }


def _note(
    known: dict[Variable, Variable | None], of: Variable, found: Variable | None
) -> None:
    """Remember a neighbour; two different ones are none."""
    if known.setdefault(of, found) != found:
        known[of] = None


def _heads(
    refs: Sequence[Dims], after: Mapping[Variable, Variable]
) -> dict[Variable, None]:
    followers = set(after.values())
    return {
        variable: None
        for dims in refs
        for dim in dims
        for variable in dim
        if variable not in followers
    }


def _special(
    items: Sequence[Variable | tuple[str, int]],
    runs: Mapping[Variable, Sequence[Variable]],
    places: Mapping[Variable, tuple[int, int]],
) -> tuple[Item, ...]:
    found: list[Item] = []
    for item in items:
        if item in runs:
            found.append(places[item][0])
        elif item not in places:
            assert isinstance(item, tuple)
            found.append(item)
    return tuple(found)


def where_of(
    dims: Dims, sizes: Mapping[Variable, int]
) -> dict[Variable, tuple[int, int]]:
    """Where the variables are that make up a class's dimensions."""
    found = {}
    for number, dim in enumerate(dims):
        stride = 1
        for variable in reversed(dim):
            found[variable] = (number, stride)
            stride *= sizes[variable]
    return found


def dims_of(where: Where, count: int) -> Dims:
    """The variables that make up each of a class's dimensions, major first."""
    found: list[list[tuple[int, Variable]]] = [[] for _ in range(count)]
    for variable, (dim, stride) in where.items():
        found[dim].append((-stride, variable))
    return tuple(
        tuple(variable for _, variable in sorted(dim, key=_first)) for dim in found
    )


def _first(item: tuple[int, Variable]) -> int:
    return item[0]
