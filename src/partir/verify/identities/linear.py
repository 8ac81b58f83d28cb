"""Which ops a reduction over devices moves past, and into which operands.

The verifier's own statement of the identities in docs/identities.md: *moved*, *added*,
*negated*, *scaled*, *divided*, *multiplied*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from partir.verify.classes.classes import Classes
from partir.verify.classes.finite import is_finite
from partir.verify.classes.monoids import monoid_of_kind
from partir.verify.classes.terms import ClassTerm
from partir.verify.classes.types import SMALL, widens


class PushedSum(NamedTuple):
    """Operands that are reduced in place of the result."""

    into: tuple[bool, ...]
    commutes: bool = False
    finite: bool = False  # if all others are, in each of their rows
    some: bool = False  # if there is something to reduce: identities differ


Rule = Callable[[Classes, ClassTerm, Sequence[bool]], PushedSum | None]
_RULES: dict[str, Rule] = {}
_WIDER = {
    **dict.fromkeys(SMALL, ("f16", "bf16", "f32", "f64")),
    **dict.fromkeys(("f16", "bf16"), ("f32", "f64")),
    "f32": ("f64",),
}
_NORMAL = {"f16": 14, "bf16": 126, "f32": 126, "f64": 1022}  # exponents
COMMUTING = frozenset(
    "stablehlo." + name for name in "add multiply maximum minimum and or xor".split()
)


def step_past(
    classes: Classes, term: ClassTerm, monoid: str, depends: Sequence[bool]
) -> PushedSum | None:
    """How to move a reduction past the op that made a class; None if it can't be."""
    rule = _RULES.get(term.kind)
    if term.kind == "reduce":
        return PushedSum((True,)) if term.attrs == monoid else None
    if monoid == "sum" and rule is not None:
        return rule(classes, term, depends)
    if monoid in ("max", "min") and term.kind == "ordered" and term.attrs == monoid:
        return PushedSum((True,), some=True)
    if monoid in ("max", "min") and term.kind == "stablehlo.convert":
        narrow = classes.terms[term.refs[0].node].dtype
        return PushedSum((True,), some=True) if widens(narrow, term.dtype) else None
    if monoid_of_kind(term.kind) == monoid != "sum":
        return _both(depends)
    return None


def _both(depends: Sequence[bool]) -> PushedSum:
    """added: max (max x y) = max (max x) (max y), of what is repeated as well."""
    return PushedSum((True,) * len(depends), True)


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def keep(rule: Rule) -> Rule:
        for name in names:
            _RULES["stablehlo." + name] = rule
        return rule

    return keep


def _one_type(classes: Classes, term: ClassTerm) -> bool:
    return term.dtype != "i1" and all(
        classes.terms[ref.node].dtype == term.dtype for ref in term.refs
    )


@_rule("add", "subtract")
def _added(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """added: Σ (x + y) = Σ x + Σ y."""
    if not _one_type(classes, term):
        return None
    return PushedSum((True,) * len(depends), term.kind in COMMUTING)


@_rule("negate", "real", "imag", "complex")
def _negated(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """negated, moved: Σ -x = -Σ x."""
    return PushedSum((True,) * len(depends))


@_rule("convert")
def _converted(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """moved: to a wider float type; what is narrowed first would be added up narrow.

    What a shard_map of the source adds up wide, devices may not add up narrow.
    """
    if classes.source is None:
        return None
    narrow = classes.terms[term.refs[0].node].dtype
    return PushedSum((True,)) if term.dtype in _WIDER.get(narrow, ()) else None


@_rule("multiply")
def _scaled(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """scaled: Σ c x = c Σ x, if c is finite for certain, or an integer."""
    if sum(depends) != 1 or not _one_type(classes, term):
        return None
    other = term.refs[depends.index(False)].node
    if not is_finite(classes, other):
        return None
    return PushedSum(tuple(depends), True, finite=True)


@_rule("divide")
def _divided(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """divided: Σ (x / c) = (Σ x) / c for one finite number c, of floats."""
    if tuple(depends) != (True, False) or term.dtype[0] not in "fb":
        return None
    other = classes.terms[term.refs[1].node]
    one = other.kind == "constant" and not other.new
    return PushedSum((True, False)) if one and _inverts(other) else None


def _inverts(number: ClassTerm) -> bool:
    """Whether a constant and its inverse are normal numbers of its type."""
    try:
        size = abs(float(str(number.attrs)))
    except ValueError:  # bits, or several numbers
        return False
    limit = _NORMAL.get(number.dtype, 0)
    return 2.0**-limit <= size <= 2.0**limit


@_rule("select")
def _selected(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """moved: what decides is equal on all devices."""
    return None if depends[0] else PushedSum((False, True, True))


@_rule("dot_general", "convolution")
def _multiplied(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """multiplied: Σ (x @ w) = (Σ x) @ w; finite operands are assumed."""
    if sum(depends) != 1:
        return None
    dtypes = [classes.terms[ref.node].dtype for ref in term.refs]
    if term.dtype[0] not in "fbc" and len({term.dtype, *dtypes}) > 1:
        return None
    return PushedSum(tuple(depends), term.kind == "stablehlo.dot_general")


@_rule("slice", "reverse", "dynamic_slice", "gather")
def _moved(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """moved: places are equal on all devices."""
    return None if any(depends[1:]) else PushedSum((True, *depends[1:]))


@_rule("concatenate", "pad")
def _joined(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """moved: all that is put side by side."""
    return PushedSum((True,) * len(depends))


@_rule("dynamic_update_slice")
def _updated(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """moved: into a value and what replaces a part of it."""
    if any(depends[2:]):
        return None
    return PushedSum((True, True, *depends[2:]))


@_rule("scatter")
def _scattered(
    classes: Classes, term: ClassTerm, depends: Sequence[bool]
) -> PushedSum | None:
    """added: what is scattered into, and what is added to it."""
    assert isinstance(term.attrs, tuple)
    if term.attrs[0] != "sum" or depends[1]:
        return None
    return PushedSum((True, False, True))
