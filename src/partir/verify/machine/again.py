"""`Again`: an op on operands that are laid out as they were before.

What most ops make of their operands depends on layouts alone, but for the class: they
move digits, or apply an equation. Done for one layer of a model, it is known for all.
Where something is not known of an operand, another one that looks alike may be another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from partir.ir.core import Op, Signature
from partir.verify.classes.classes import Classes
from partir.verify.classes.monoids import monoid_of_kind
from partir.verify.classes.repetition import STARTS, starts_reduction
from partir.verify.identities.sums import BINDING, LOOKED_INTO, REDUCE
from partir.verify.layouts.concrete import TYPES
from partir.verify.layouts.layout import DigitLayout, View
from partir.verify.layouts.merging import MERGED
from partir.verify.layouts.pins import AT
from partir.verify.layouts.spread import has_garbage
from partir.verify.layouts.unjoined import JOINED
from partir.verify.machine.plans import Plan

Test = Callable[[Signature], bool]
EQUATIONS: dict[str, Test] = {}  # when ops with a handler have nothing but an equation
_SAME = -1  # the form of a result that is of its operand's class
# What these make of a class depends on its form; others may look further.
_BY_FORM = {
    "stablehlo.slice": AT,
    "stablehlo.reduce": REDUCE,
    "stablehlo.all_reduce": REDUCE,
    "stablehlo.reduce_scatter": REDUCE,
}
_ON_DEVICE = frozenset({"stablehlo.slice", "stablehlo.reduce"})  # whatever the source
# What is said of indices need not be so elsewhere; calls may give other results.
_EACH = frozenset({"gather", "scatter", "custom_call"})
# These look at what has made an operand, which may show more than is known of that.
_LOOKING_BACK = frozenset({"select", "dynamic_update_slice", "all_reduce"})
_ODD = STARTS | {MERGED}
_view = partial(tuple.__new__, View)  # what `View` does, at half the price


class _Made(NamedTuple):
    """A result: its form and layout, and the classes that the form is applied to."""

    form: int
    layout: DigitLayout
    turned: bool = False  # the operands' classes, the other way round


class Again:
    """What is known of ops, by signature and layouts of operands."""

    def __init__(self, classes: Classes) -> None:
        """Start with nothing."""
        self._classes, self._terms = classes, classes.terms
        self._applied, self._keys = classes.applied, classes.terms.keys
        self._forms = classes.terms.forms
        self._fixed: dict[Signature, View] = {}
        self._same: dict[Any, Sequence[View]] = {}
        self._known: dict[Any, Sequence[_Made | None]] = {}  # by order of classes
        self._around: dict[Any, tuple[int, DigitLayout]] = {}  # by form of the class
        self._bound: dict[Any, tuple[int, DigitLayout]] = {}
        self._identities: dict[tuple[str, int], bool] = {}
        self._odd: list[bool] = []  # forms that are merged, or numbers

    def view(self, op: Op, env: dict[int, Any]) -> View | None:
        """The op's only result, if all but the class is known already."""
        signature, operands = op[0], op[1]
        count = len(operands)
        if count == 2:
            return self._of_two(signature, env[operands[0]], env[operands[1]])
        if count == 1:
            return self._of_one(signature, env[operands[0]])
        return None if count else self._fixed.get(signature)

    def _of_one(self, signature: Signature, held: Any) -> View | None:
        if held.__class__ is not View:
            return None
        node, layout = held
        if len(self._odd) < len(self._forms):
            self._learn()
        if self._odd[self._keys[node][0]] and self._terms.form(node).kind == MERGED:
            return None  # these may be plain now
        key = (signature, layout)
        found = self._known.get(key)
        if found is None:
            return self._by_form(key, node)
        made: Any = found[0]
        form = made[0]
        return _view((node if form == _SAME else self._applied((form, node)), made[1]))

    def _of_two(self, signature: Signature, one: Any, other: Any) -> View | None:
        if one.__class__ is not View or other.__class__ is not View:
            return None
        first, second = one[0], other[0]
        if len(self._odd) < len(self._forms):
            self._learn()
        keys, odd = self._keys, self._odd
        if odd[keys[first][0]] and self._matters(signature.kind, first):
            return None
        if odd[keys[second][0]] and self._matters(signature.kind, second):
            return None
        key = (signature, one[1], other[1])
        found = self._known.get(key)
        if found is None:
            return self._by_form(key, first, second)
        made = found[(first > second) - (first < second)]
        if made is None:
            return None
        form, layout, turned = made
        nodes = (form, second, first) if turned else (form, first, second)
        return _view((self._applied(nodes), layout))

    def _learn(self) -> None:
        """Which of the forms made since are merged, or numbers: those may matter."""
        self._odd += [one.kind in _ODD for one in self._forms[len(self._odd) :]]

    def _matters(self, kind: str, node: int) -> bool:
        """Whether a class is merged, or changes nothing, so that the op makes none."""
        found = self._identities.get((kind, node))
        if found is None:
            monoid, term = monoid_of_kind(kind), self._terms[node]
            changes = monoid is None or not starts_reduction(monoid, term)
            found = term.kind == MERGED or not changes
            self._identities[kind, node] = found
        return found

    def _by_form(self, key: Any, node: int, *start: int) -> View | None:
        """What is around a class of this form, or binds one more of its variables."""
        kind = key[0].kind
        if kind not in _BY_FORM:
            return None
        form, *nodes = self._keys[node]
        alike = (key, form, start)
        found = self._around.get(alike)
        if found is not None and found[0] == _SAME:
            return View(node, found[1])
        if found is not None:
            nodes = [node]
        else:
            order = sorted(nodes)
            found = self._bound.get((alike, nodes == order))
            if found is None:
                return None
            nodes, kind = order, ""
        of = self._applied if kind in _ON_DEVICE else self._classes.found
        made = of((found[0], *nodes))
        return None if made is None else View(made, found[1])

    def same(
        self, signature: Signature, views: Sequence[View]
    ) -> Sequence[View] | None:
        """What an op has made of the very same."""
        return self._same.get((signature, *views))

    def made(
        self, signature: Signature, views: Sequence[View], made: Sequence[View]
    ) -> None:
        """What an op has made of views: it makes the same of the same.

        If the source has it; else the op may have been read in another way.
        """
        if not views and len(made) == 1:
            self._fixed[signature] = made[0]
            return
        if signature.name in _EACH or (
            signature.name in _LOOKING_BACK
            and any(has_garbage(view.layout) for view in views)
        ):
            return
        if all(self._classes.in_source(view.node) for view in made):
            self._same[signature, *views] = made
        if signature.kind in _BY_FORM and len(views) < 3 and _says_all(signature):
            self._made_of_form(signature, views, made[0])

    def _made_of_form(
        self, signature: Signature, views: Sequence[View], made: View
    ) -> None:
        """One form around any class of a form, or in place of it."""
        if any(view.layout.tables for view in (*views, made)):
            return
        forms, keys = self._terms.forms, self._keys
        (before, *nodes), (after, *held) = keys[views[0].node], keys[made.node]
        kind, order = forms[before].kind, sorted(nodes)
        start = tuple(view.node for view in views[1:])
        alike = ((signature, *(view.layout for view in views)), before, start)
        around = forms[after].kind
        wraps = held == [views[0].node] and around == _BY_FORM[signature.kind]
        binds = held == order and around == kind and kind in BINDING and len(nodes) < 3
        if (kind not in LOOKED_INTO and kind != JOINED) or (wraps and around == AT):
            if made.node == views[0].node:
                self._around[alike] = (_SAME, made.layout)
            elif wraps:
                self._around[alike] = (after, made.layout)
        elif binds and self._classes.in_source(made.node):
            self._bound[alike, nodes == order] = (after, made.layout)

    def moved(self, key: tuple[Signature, DigitLayout], made: DigitLayout) -> None:
        """An op that moves digits."""
        if _says_all(key[0]) and not made.tables:
            self._known[key] = (_Made(_SAME, made),)

    def planned(
        self, signature: Signature, views: Sequence[View], commutes: bool, plan: Plan
    ) -> None:
        """An equation of one or two operands, with one result."""
        if plan.repeats != 1 or not _says_all(signature) or len(views) > 2:
            return
        form, layout = plan.results[0]
        if any(view.layout.tables for view in views) or layout.tables:
            return
        key = (signature, *(view.layout for view in views))
        if not commutes:
            self._known[key] = (_Made(form, layout),) * 3
            return
        first, second = (view.node for view in views)
        orders = [*self._known.get(key, (None,) * 3)]
        order = (first > second) - (first < second)
        orders[order] = _Made(form, layout, turned=first > second)
        self._known[key] = orders


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
