"""Reductions: one over another is one, and sums move past what is linear.

A sum that a device has done of its own part is a class with a free variable left, that
of the axis. The sum over devices binds it. Bound within the same reduction or product,
it is what the source computes; else the sum is moved inwards, past ops that are linear
(`linear.py`), until it meets the reduction that it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from partir.verify.classes import Classes, Made, inside
from partir.verify.linear import Step, step_past
from partir.verify.monoids import is_identity
from partir.verify.terms import (
    BOUND,
    FREE,
    Dims,
    Term,
    Use,
    Variable,
    dims_of,
    where_of,
)

REDUCE, TIMES, PART = "reduce", "times", "part"
# Ops that add up products: a sum over one of their free variables binds it.
CONTRACTIONS = frozenset({"stablehlo.dot_general", "stablehlo.convolution"})
IDEMPOTENT = frozenset({"max", "min", "and", "or"})


class Reduction(NamedTuple):
    """Reduce a class, whose dimensions are these variables, over some of them."""

    monoid: str
    node: int
    dims: Dims
    sizes: Mapping[Variable, int]
    bound: frozenset[Variable]
    moves: bool = True  # inwards, past what is linear

    @property
    def used(self) -> frozenset[Variable]:
        """The bound variables that the class depends on."""
        return frozenset(v for dim in self.dims for v in dim if v in self.bound)


def reduce(classes: Classes, what: Reduction) -> Made:
    """The class of a reduction, in the form in which the source has it if it does."""
    used = what.used
    if not used:
        return Made(what.node, where_of(what.dims, what.sizes))
    term = classes.terms[what.node]
    if term.kind == TIMES:
        (ref,) = term.refs
        inner = reduce(classes, what._replace(node=ref.node))
        return Made(times(classes, inner.node, int(str(term.attrs))), inner.where)
    if term.kind == PART and (whole := _whole(term, what)) is not None:
        return whole
    direct = _bind(classes, term, what)
    if direct is not None and classes.in_source(direct.node):
        return direct
    if what.moves and (direct is None or what.monoid == "sum"):
        pushed = _push(classes, term, what)
        if pushed is not None and (direct is None or classes.in_source(pushed.node)):
            return pushed
    return direct or _plain(classes, term, what)


def times(classes: Classes, node: int, count: int) -> int:
    """The sum of `count` times the same."""
    term = classes.terms[node]
    if count == 1 or starts_reduction("sum", term):
        return node
    if term.kind == TIMES:
        return times(classes, term.refs[0].node, count * int(str(term.attrs)))
    dims = tuple((n,) for n in range(len(term.dims)))
    sizes = dict(enumerate(term.dims))
    use = Use(sizes, dict.fromkeys(sizes, FREE))
    like = Term(TIMES, str(count), (), (), (), dtype=term.dtype)
    return classes.make(like, [(node, dims)], use).node


def repeated_often(
    classes: Classes, made: Made, monoid: str, count: int
) -> Made | None:
    """A reduction over `count` copies; None if that is nothing simple."""
    if count == 1 or monoid in IDEMPOTENT:
        return made
    if monoid != "sum":
        return None
    return Made(times(classes, made.node, count), made.where)


def _whole(term: Term, what: Reduction) -> Made | None:
    """What a loop's parts add up to, by the loop's invariant."""
    monoid, node, extra = term.attrs  # as loops.py makes it
    bound = {v for dim in what.dims[:extra] for v in dim}
    if monoid != what.monoid or what.used != bound:
        return None
    return Made(node, where_of(what.dims[extra:], what.sizes))


def _use_within(what: Reduction, own: Use) -> Use:
    sizes = {**what.sizes, **own.sizes}
    roles = {v: BOUND if v in what.bound else FREE for v in what.sizes}
    return Use(sizes, {**roles, **own.roles}, own.specials)


def _bind(classes: Classes, term: Term, what: Reduction) -> Made | None:
    """Bound in the reduction or product that made the class, if one did."""
    free = len(term.free)
    in_new = any(v in what.bound for dim in what.dims[free:] for v in dim)
    if in_new or not _binds(classes, term, what.monoid):
        return None
    refs, own = inside(term, what.dims, (what.node, "inside"))
    use = _use_within(what, own)
    commutes = term.kind == "stablehlo.dot_general"
    return classes.make(term, refs, use, what.dims[free:], commutes)


def _binds(classes: Classes, term: Term, monoid: str) -> bool:
    """Whether a class is a reduction itself, which binds one more variable."""
    if term.kind == REDUCE:
        return bool(term.attrs == monoid)
    if term.kind == "stablehlo.scatter":  # into nothing, which then counts once
        into = classes.terms[term.refs[0].node]
        return scatters(term) == monoid and starts_reduction(monoid, into)
    return term.kind in CONTRACTIONS and monoid == "sum"


def scatters(term: Term) -> object:
    """How a scatter combines what meets at one place."""
    assert isinstance(term.attrs, tuple)
    return term.attrs[0]


def starts_reduction(monoid: str, term: Term) -> bool:
    """Whether a class is the number that a reduction starts from."""
    if term.kind == "affine":
        first, steps = term.attrs  # as counting.py makes it
        return not steps and is_identity(monoid, str(first), term.dtype)
    one = term.kind == "constant" and not term.new
    return one and is_identity(monoid, str(term.attrs), term.dtype)


def _plain(classes: Classes, term: Term, what: Reduction) -> Made:
    like = Term(REDUCE, what.monoid, (), (), (), dtype=term.dtype)
    use = _use_within(what, Use({}, {}))
    return classes.make(like, [(what.node, what.dims)], use)


def _push(classes: Classes, term: Term, what: Reduction) -> Made | None:
    """The same op on reductions of its operands, if it is linear in them."""
    free = len(term.free)
    if any(v in what.bound for dim in what.dims[free:] for v in dim):
        return None
    refs, own = inside(term, what.dims, (what.node, "inside"))
    used = what.used
    depends = [any(v in used for dim in dims for v in dim) for _, dims in refs]
    step = step_past(classes, term, what.monoid, depends)
    if step is None:
        return None
    use = _use_within(what, own)
    made = []
    for (node, dims), goes in zip(refs, step.into, strict=True):
        made.append(_inner(classes, what, use, node, dims) if goes else (node, dims))
    return _rebuilt(classes, step, term, made, use, what)


def _inner(
    classes: Classes, what: Reduction, use: Use, node: int, dims: Dims
) -> tuple[int, Dims]:
    """An operand, reduced."""
    sizes = {v: use.sizes[v] for dim in dims for v in dim}
    used = what.used
    missing = used - frozenset(sizes)
    inner = reduce(classes, Reduction(what.monoid, node, dims, sizes, used))
    for variable in missing:
        found = repeated_often(classes, inner, what.monoid, what.sizes[variable])
        assert found is not None, what.monoid
        inner = found
    where = {v: at for v, at in inner.where.items() if v not in used}
    return inner.node, dims_of(where, len(classes.terms[inner.node].dims))


def _rebuilt(
    classes: Classes,
    step: Step,
    term: Term,
    refs: list[tuple[int, Dims]],
    use: Use,
    what: Reduction,
) -> Made:
    used = what.used
    kept = {v: role for v, role in use.roles.items() if v not in used}
    use = Use(use.sizes, kept, use.specials)
    return classes.make(
        term, refs, use, what.dims[len(term.free) :], commutes=step.commutes
    )
