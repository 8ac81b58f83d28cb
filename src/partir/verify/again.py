"""`Again`: an op on operands that are laid out as they were before.

What most ops make of their operands depends on layouts alone, but for the class: they
move digits, or apply an equation. Done for one layer of a model, it is known for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from partir.ir.core import Op, Signature
from partir.verify.classes import Classes
from partir.verify.concrete import TYPES
from partir.verify.layout import DigitLayout, View
from partir.verify.merging import MERGED
from partir.verify.monoids import monoid_of_kind
from partir.verify.pins import AT
from partir.verify.plans import Plan
from partir.verify.repetition import starts_reduction

Test = Callable[[Signature], bool]
EQUATIONS: dict[str, Test] = {}  # when ops with a handler have nothing but an equation
_SAME = -1  # the form of a result that is of its operand's class


class Again:
    """What is known of ops, by signature and layouts of operands."""

    def __init__(self, classes: Classes) -> None:
        """Start with nothing."""
        self._applied, self._terms = classes.applied, classes.terms
        self._fixed: dict[Signature, View] = {}
        self._known: dict[Any, tuple[int, DigitLayout]] = {}
        self._pinned: dict[Any, tuple[int, DigitLayout]] = {}  # and the class's form
        self._identities: dict[tuple[str, int], bool] = {}
        self._ordered: dict[Any, tuple[int, DigitLayout]] = {}  # and order

    def view(self, op: Op, env: dict[int, Any]) -> View | None:
        """The op's only result, if all but the class is known already."""
        signature, operands = op.signature, op.operands
        if len(operands) == 1:
            held = env[operands[0]]
            if held.__class__ is not View:
                return None
            node, layout = held
            found = self._known.get((signature, layout))
            if found is None:
                form = self._terms.keys[node][0]
                found = self._pinned.get((signature, layout, form))
            if found is None:
                return None
            if self._terms.form(node).kind == MERGED:  # these may be plain now
                return None
            form, made = found
            return View(node if form == _SAME else self._applied((form, node)), made)
        if len(operands) == 2:
            return self._of_two(signature, env[operands[0]], env[operands[1]])
        return None if operands else self._fixed.get(signature)

    def _of_two(self, signature: Signature, one: Any, other: Any) -> View | None:
        if one.__class__ is not View or other.__class__ is not View:
            return None
        first, second = one.node, other.node
        kind, form = signature.kind, self._terms.form
        if form(first).kind == MERGED or form(second).kind == MERGED:
            return None
        if self._is_identity(kind, first) or self._is_identity(kind, second):
            return None
        key = (signature, one.layout, other.layout)
        found = self._known.get(key)
        if found is not None:
            return View(self._applied((found[0], first, second)), found[1])
        found = self._ordered.get((key, (first > second) - (first < second)))
        if found is None:
            return None
        nodes = (first, second) if first < second else (second, first)
        return View(self._applied((found[0], *nodes)), found[1])

    def _is_identity(self, kind: str, node: int) -> bool:
        """Whether a number changes nothing, so that the op makes no class."""
        found = self._identities.get((kind, node))
        if found is None:
            monoid = monoid_of_kind(kind)
            found = monoid is not None and starts_reduction(monoid, self._terms[node])
            self._identities[kind, node] = found
        return found

    def same_everywhere(self, signature: Signature, made: Sequence[View]) -> None:
        """An op without operands."""
        if _says_all(signature) and not made[0].layout.tables:
            self._fixed[signature] = made[0]

    def moved(self, key: tuple[Signature, DigitLayout], made: DigitLayout) -> None:
        """An op that moves digits."""
        if _says_all(key[0]) and not made.tables:
            self._known[key] = (_SAME, made)

    def pinned(self, signature: Signature, of: View, made: View) -> None:
        """A slice of one row: of any class of this form, that class at the row."""
        if of.layout.tables or made.layout.tables or not _says_all(signature):
            return
        form, *nodes = self._terms.keys[made.node]
        if nodes == [of.node] and self._terms.forms[form].kind == AT:
            key = (signature, of.layout, self._terms.keys[of.node][0])
            self._pinned[key] = (form, made.layout)

    def planned(
        self, signature: Signature, views: Sequence[View], commutes: bool, plan: Plan
    ) -> None:
        """An equation of one or two operands, with one result."""
        if plan.repeats != 1 or not _says_all(signature) or len(views) > 2:
            return
        if any(view.layout.tables for view in views) or plan.results[0][1].tables:
            return
        key = (signature, *(view.layout for view in views))
        if not commutes:
            self._known[key] = plan.results[0]
        else:
            first, second = (view.node for view in views)
            order = (first > second) - (first < second)
            self._ordered[key, order] = plan.results[0]


def _says_all(signature: Signature) -> bool:
    """Whether a result's only layout is all that matters: integers may be known."""
    return len(signature.results) == 1 and signature.results[0].dtype not in TYPES


def equations(*names: str) -> Callable[[Test], Test]:
    """Register when handlers of these ops do nothing but apply the equation."""

    def keep(test: Test) -> Test:
        EQUATIONS.update({f"stablehlo.{name}": test for name in names})
        return test

    return keep


def has_only_an_equation(signature: Signature) -> bool:
    """Whether a handler would do nothing but apply the equation."""
    test = EQUATIONS.get(signature.kind)
    return test is not None and test(signature)
