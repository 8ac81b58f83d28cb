"""`Classes`: every value of both programs, hash-consed by what it computes.

The source is read first; classes behind `source` were made by the device-local program
and are nowhere in the source.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from partir.verify.classes.rows import MadeRows, Rows
from partir.verify.classes.terms import (
    BOUND,
    ClassTerm,
    Dims,
    Ref,
    TermForm,
    Use,
    Variable,
    Where,
    form_of,
    numbered,
    where_of,
)

NO_ROWS: Mapping[Variable, Rows] = MappingProxyType({})


class Made(NamedTuple):
    """A class, and where the variables that it was made over are in it."""

    node: int
    where: Where
    rows: Mapping[Variable, Rows] = NO_ROWS  # where variables stand for made rows


Key = tuple[int, ...]  # the number of a form, and the classes that it is applied to


class Terms:
    """What classes are, written out when they are asked for: most never are."""

    def __init__(self) -> None:
        """Start empty."""
        self.forms: list[TermForm] = []
        self.keys: list[Key] = []
        self._made: dict[int, ClassTerm] = {}

    def __len__(self) -> int:
        """How many classes there are."""
        return len(self.keys)

    def __getitem__(self, node: int) -> ClassTerm:
        """The term of a class."""
        found = self._made.get(node)
        if found is None:
            form, *nodes = self.keys[node]
            found = self._made[node] = self.forms[form].of(nodes)
        return found

    def form(self, node: int) -> TermForm:
        """A class's term but for the classes that it reads."""
        return self.forms[self.keys[node][0]]

    def cut(self, count: int, forms: int) -> None:
        """The first classes and forms alone."""
        del self.keys[count:], self.forms[forms:]
        self._made = {n: term for n, term in self._made.items() if n < count}


class Classes:
    """The table of classes."""

    def __init__(self) -> None:
        """Start empty."""
        self.terms = Terms()
        self._known: dict[Key, int] = {}
        self._forms: dict[TermForm, int] = {}
        self.rows = MadeRows()
        self.numbers: dict[int, np.ndarray | None] = {}  # known ones, by class
        self.counts: dict[tuple[int, str], list[int]] = {}  # in the source, by step
        self.joined: dict[int, set[int | None]] = {}  # along what the source joins
        self.forms: dict[int, list[Any]] = {}  # in which the source reads a class
        self.contents: dict[tuple[str, int], dict[Any, Any]] = {}  # of the source
        self.names: dict[int, list[tuple[Any, Any]]] = {}  # of the source's values
        self.replaced: set[int] = set()  # whose numbers others have, too
        self.zeros = False  # what devices without a sender hold, if the source says so
        self.promised: Mapping[str, Any] = {}  # users' rules of calls, by target
        self.kept: dict[str, Any] = {}  # and of functions that the source keeps whole
        self.told: dict[Any, list[Any]] = {}  # what the source says of indices
        self.unmoved: dict[int, tuple[int, tuple[int, ...]]] = {}  # sums moved inwards
        self.source: int | None = None  # how many of them the source has
        self._source_forms = 0

    def of(self, term: ClassTerm) -> int:
        """The one class of a term."""
        form = self.form(form_of(term))
        return self.applied((form, *[ref.node for ref in term.refs]))

    def form(self, form: TermForm) -> int:
        """The one number of a form."""
        found = self._forms.get(form)
        if found is None:
            found = self._forms[form] = len(self.terms.forms)
            self.terms.forms.append(form)
        return found

    def applied(self, key: Key) -> int:
        """The one class of a form on classes."""
        found = self._known.get(key)
        if found is None:
            keys = self.terms.keys
            found = self._known[key] = len(keys)
            keys.append(key)
        return found

    def found(self, key: Key) -> int | None:
        """The same, if the source has it; the source itself has all that it makes."""
        if self.source is None:
            return self.applied(key)
        node = self._known.get(key)
        return None if node is None or node >= self.source else node

    def seal(self) -> None:
        """The source has been read; what comes now is the device-local program."""
        self.source = len(self.terms)
        for node in self.nodes_of("affine"):
            term = self.terms[node]
            if len(term.sizes) == 1:
                key = (term.attrs[1][0], term.dtype)
                self.counts.setdefault(key, []).append(node)
        self._source_forms = len(self._forms)
        self.rows.seal()

    def forget(self) -> None:
        """Back to the source alone, for another device-local program."""
        assert self.source is not None
        for key in self.terms.keys[self.source :]:
            del self._known[key]
        for form in self.terms.forms[self._source_forms :]:
            del self._forms[form]
        self.terms.cut(self.source, self._source_forms)
        self.numbers = {n: v for n, v in self.numbers.items() if n < self.source}
        self.unmoved = {}
        self.rows.forget()

    def in_source(self, node: int) -> bool:
        """Whether the source computes this, too."""
        return self.source is None or node < self.source

    def nodes_of(self, kind: str) -> Iterator[int]:
        """The source's classes of one kind of term."""
        forms = {n for n, form in enumerate(self.terms.forms) if form.kind == kind}
        for node, key in enumerate(self.terms.keys[: self.source]):
            if key[0] in forms:
                yield node

    def make(
        self,
        like: ClassTerm,
        refs: Sequence[tuple[int, Dims]],
        use: Use,
        new: Dims = (),
        commutes: bool = False,
    ) -> Made:
        """The class of a term with these references in place of its own.

        `new` has the reader's variables for the dimensions that the op makes.
        """
        if commutes:
            refs = sorted(refs, key=_node)
        made = numbered([dims for _, dims in refs], use)
        term = like._replace(
            refs=tuple(map(Ref, [node for node, _ in refs], made.dims)),
            sizes=made.sizes,
            free=made.free,
            specials=made.specials,
        )
        where = made.where()
        first = len(made.free)
        for variable, (dim, stride) in where_of(new, use.sizes).items():
            where[variable] = (first + dim, stride)
        return Made(self.of(term), where)


def _node(ref: tuple[int, Dims]) -> int:
    return ref[0]


def inside(
    term: ClassTerm, dims: Dims, tag: Hashable
) -> tuple[list[tuple[int, Dims]], Use]:
    """What a term reads, over the variables that its reader has for its dimensions.

    Its bound and special variables get new names under `tag`; the reader's are left out
    of the sizes and roles.
    """
    names: dict[int, tuple[Variable, ...]] = {
        number: ((tag, number),) for number in range(len(term.sizes))
    }
    names.update(zip(term.free, dims, strict=False))
    refs = [
        (ref.node, tuple(tuple(v for n in dim for v in names[n]) for dim in ref.dims))
        for ref in term.refs
    ]
    own = [number for number in range(len(term.sizes)) if number not in term.free]
    sizes = {(tag, number): term.sizes[number] for number in own}
    roles = {(tag, number): _role(term, number) for number in own}
    specials = [
        [(tag, item) if isinstance(item, int) else item for item in items]
        for items in term.specials
    ]
    return refs, Use(sizes, roles, specials)


def _role(term: ClassTerm, number: int) -> Hashable:
    """Bound, or the special dimension that a variable is part of."""
    for place, items in enumerate(term.specials):
        if number in items:
            return ("special", place)
    return BOUND
