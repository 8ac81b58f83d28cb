"""Registration and look-up of rules and local forms.

A *rule* is a function from a signature to its factors. A *local form* says how the op
changes inside a loop nest; without one, the op keeps its attributes and only its
types shrink. Rules see signatures with local types, so a rule for which nesting
matters (reshape) is asked again inside the loops already decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from partir.ir.core import Signature
from partir.rules.factor import Factor, notation
from partir.rules.host import runs_once

if TYPE_CHECKING:
    from partir.rules.local import LocalForm
    from partir.rules.nest import Nest

Rule = Callable[[Signature], Iterable[Factor]]
LocalAttrs = Callable[["Nest"], dict[str, str]]
Names = Callable[[Signature], Iterable[str]]

_rules: dict[str, Rule] = {}
_forms: dict[str, LocalForm] = {}
_attrs: dict[str, LocalAttrs] = {}
_names: dict[str, Names] = {}
_pieces: set[str] = set()
# Users' rules for custom calls, by `call_target_name`; they go before ours.
target_rules: dict[str, Rule] = {}


def rule(*kinds: str, pieces: bool = False) -> Callable[[Rule], Rule]:
    """Register the rule for these op kinds (without a dialect: StableHLO's).

    `pieces` says what its sums are of: one tile holds an element, the others nothing.
    """

    def register(function: Rule) -> Rule:
        if pieces:
            _pieces.update(map(_full, kinds))
        for kind in map(_full, kinds):
            if kind in _rules:
                raise ValueError(f"{kind} has a rule already: {_rules[kind].__name__}")
            _rules[kind] = function
        return function

    return register


def local_attrs(*kinds: str) -> Callable[[LocalAttrs], LocalAttrs]:
    """Register how attributes change inside a nest."""

    def register(function: LocalAttrs) -> LocalAttrs:
        _attrs.update({_full(kind): function for kind in kinds})
        return function

    return register


def local_form(*kinds: str) -> Callable[[LocalForm], LocalForm]:
    """Register how an op is emitted inside a nest, where attributes don't suffice."""

    def register(function: LocalForm) -> LocalForm:
        _forms.update({_full(kind): function for kind in kinds})
        return function

    return register


def variants(kind: str) -> Callable[[Names], Names]:
    """Register what tells ops of one kind apart: names to look for a rule under.

    The first that has one counts.
    """

    def register(function: Names) -> Names:
        _names[_full(kind)] = function
        return function

    return register


def _full(kind: str) -> str:
    return kind if "." in kind else f"stablehlo.{kind}"


def _find(signature: Signature) -> Rule | None:
    own = target_rules.get(signature.attrs.get("call_target_name", ""))
    if own is not None:
        return own
    names = _names.get(signature.kind)
    if names is None:
        return _rules.get(signature.kind)
    return next((_rules[name] for name in names(signature) if name in _rules), None)


def kinds() -> tuple[str, ...]:
    """All op kinds that have a rule."""
    return tuple(sorted(_rules))


def sums_pieces(signature: Signature) -> bool:
    """Whether what it leaves to be summed are pieces, each element in one of them."""
    return signature.kind in _pieces or runs_once(signature)


def has_rule(signature: Signature) -> bool:
    """Whether the registry knows such ops."""
    return _find(signature) is not None


def factors_of(signature: Signature) -> tuple[Factor, ...]:
    """Factors of an op; none for an op without a rule. Size-1 factors are left out."""
    found = _find(signature)
    if found is None:
        return ()
    return tuple(factor for factor in found(signature) if factor.size > 1)


def rule_text(signature: Signature) -> str:
    """An op's rule in notation: ``(a, c), (c, b) -> (a, b) sum=c``."""
    ranks = [
        [len(type_.shape) for type_ in types]
        for types in (signature.operands, signature.results)
    ]
    return notation(factors_of(signature), *ranks)


def attrs_hook(kind: str) -> LocalAttrs | None:
    """How the attributes of this kind change, if they do."""
    return _attrs.get(kind)


def form_hook(kind: str) -> LocalForm | None:
    """How this kind is emitted, if specially."""
    return _forms.get(kind)
