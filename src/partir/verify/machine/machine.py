"""`Machine`: runs a program on views, op by op. Both programs run on the same one.

An op either has a handler of its own, for what moves digits or counts, or an equation.
What neither reads is `Unknown`, and so is all that is made of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from partir.ir.core import Op, Program, Region, Signature
from partir.ir.types import TensorType
from partir.verify.classes.classes import Classes
from partir.verify.classes.monoids import monoid_of_kind
from partir.verify.classes.repetition import IDEMPOTENT, starts_reduction, times
from partir.verify.classes.terms import ClassTerm
from partir.verify.equations import equation_of
from partir.verify.equations.elementwise import reads_all
from partir.verify.identities.contents import recognised
from partir.verify.identities.named import by_name
from partir.verify.identities.sums import CONTRACTIONS
from partir.verify.identities.unmerging import unmerged
from partir.verify.layouts.align import Alignment, Equation
from partir.verify.layouts.concrete import computed, literal_class
from partir.verify.layouts.layout import (
    DigitLayout,
    Unreadable,
    View,
    repeated,
    repeating,
)
from partir.verify.layouts.merging import plain
from partir.verify.layouts.picks import picked
from partir.verify.layouts.pins import settled
from partir.verify.layouts.unjoined import handed_on, split
from partir.verify.layouts.unmixed import unmixed
from partir.verify.machine.again import Again, has_only_an_equation
from partir.verify.machine.plans import Outline, Plan, make_plan


@dataclass(frozen=True)
class Unknown:
    """A value that can't be said to show a class: since which op, and why."""

    op: int | None
    reason: str


class Passed(Unreadable):
    """An operand is not known."""

    def __init__(self, unknown: Unknown) -> None:
        """Remember what is known about it."""
        super().__init__(unknown.reason)
        self.unknown = unknown


SLIPS = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
Known = View | Unknown
Handler = Callable[["Machine", Op, tuple[View, ...]], Sequence[View]]
HANDLERS: dict[str, Handler] = {}


def handler(*names: str) -> Callable[[Handler], Handler]:
    """Register how ops are run that have more to them than an equation."""

    def keep(run: Handler) -> Handler:
        for name in names:
            kind = name if "." in name else f"stablehlo.{name}"
            assert kind not in HANDLERS, kind
            HANDLERS[kind] = run
        return run

    return keep


Mover = Callable[[Signature, DigitLayout], DigitLayout]
MOVERS: dict[str, Mover] = {}


def mover(name: str) -> Callable[[Mover], Mover]:
    """Register an op of one operand that only moves digits."""

    def keep(run: Mover) -> Mover:
        MOVERS[f"stablehlo.{name}"] = run
        return run

    return keep


@dataclass
class Machine:
    """What is known of a program's values; `names` and `sizes` are the mesh's axes."""

    classes: Classes
    program: Program
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    origins: dict[int, int] = field(default_factory=dict)  # first op of a class
    loops: list[Any] = field(default_factory=list)
    within: tuple[Any, ...] = ()  # loops and branches that run at the moment
    env: dict[int, Known] = field(default_factory=dict)
    reductions: dict[Any, tuple[int, DigitLayout]] = field(default_factory=dict)
    bound: dict[Any, tuple[int, DigitLayout]] = field(default_factory=dict)
    largest: dict[int, Any] = field(default_factory=dict)  # of tiles, by class
    inducted: dict[tuple[int, ...], Any] = field(default_factory=dict)  # by loop
    written: dict[Hashable, Any] = field(default_factory=dict)  # loops, by their ops
    _plans: dict[Any, Plan] = field(default_factory=dict)
    _outlines: dict[Any, Outline] = field(default_factory=dict)
    _moved: dict[tuple[Signature, DigitLayout], DigitLayout] = field(
        default_factory=dict
    )
    _alignments: dict[Any, Alignment] = field(default_factory=dict)
    _equations: dict[Signature, Equation | None] = field(default_factory=dict)
    _plain: set[Signature] = field(default_factory=set)

    @cached_property
    def again(self) -> Again:
        """What is known of ops on operands that are laid out alike."""
        return Again(self.classes)

    @cached_property
    def alone(self) -> tuple[Any, ...]:
        """Axes of a value that is the same on all devices."""
        return tuple(repeated(size) for size in self.sizes)

    def run(self, region: Region) -> None:
        """Run a block."""
        ops, env, origins, again = self.program.ops, self.env, self.origins, self.again
        for index in region.ops:
            op = ops[index]
            view = again.view(op, env)
            if view is None:
                self.step(index, op)
                continue
            env[op.results[0]] = view
            origins.setdefault(view.node, index)

    @contextlib.contextmanager
    def inside(self, key: Hashable) -> Iterator[None]:
        """Run what stands in a loop or branch, known by its key in both programs."""
        before, self.within = self.within, (*self.within, key)
        try:
            yield
        finally:
            self.within = before

    def read(self, values: Sequence[int]) -> list[View]:
        """What values are; raises what is known about the first that is not known."""
        found = [self.env[value] for value in values]
        for one in found:
            if isinstance(one, Unknown):
                raise Passed(one)
        return found  # type: ignore[return-value]  # all of them are views

    def step(self, index: int, op: Op) -> None:
        """Run one op: its results are known, or known not to be."""
        made: Sequence[Known]
        try:
            if op.signature in self._plain or self._is_plain(op.signature):
                made = self._made(op, self.read(op.operands))
            elif (run := _CONTROL.get(op.kind)) is not None:
                run(self, index, op)
                return
            else:
                made = [self.empty(type_) for type_ in op.signature.results]
        except Unreadable as error:
            first = error.unknown if isinstance(error, Passed) else None
            made = [first or Unknown(index, str(error))] * len(op.results)
        except SLIPS as error:  # not to have read an op is no reason to stop
            reason = f"{op.signature.name} can't be read: {error!r}"
            made = [Unknown(index, reason)] * len(op.results)
        for value, view in zip(op.results, made, strict=True):
            self.env[value] = view
            if isinstance(view, View):
                self.origins.setdefault(view.node, index)

    def _made(self, op: Op, views: list[View]) -> Sequence[View]:
        """What an op makes of views, in the form in which the source has it."""
        signature, again = op.signature, self.again
        known = again.same(signature, views)
        if known is None:
            known = self._kept(op, views, self._results(op, views))
            again.made(signature, views, known)
        return known

    def settled(self, view: View) -> View:
        """A view in the plainest form that says the same."""
        if not view.layout.tables:
            return plain(self.classes, unmerged(self.classes, view))
        view = settled(self.classes, split(self.classes, view))
        return plain(self.classes, picked(self.classes, view))

    def _kept(self, op: Op, given: Sequence[View], views: Sequence[View]) -> list[View]:
        """Results in the form in which the source has them, as what is given has."""
        classes, name = self.classes, op.signature.name
        return [
            view
            if any(view is one for one in given)
            else recognised(classes, self.sizes, name, type_, self.settled(view))
            for view, type_ in zip(views, op.signature.results, strict=True)
        ]

    def _is_plain(self, signature: Signature) -> bool:
        """Whether an op has no regions to run, and results with elements."""
        plain = signature.kind not in _CONTROL and not any(
            0 in type_.shape for type_ in signature.results
        )
        if plain:
            self._plain.add(signature)
        return plain

    def empty(self, type_: TensorType) -> View:
        """A value without elements: there is one of each type."""
        if 0 not in type_.shape:
            raise Unreadable("an op that makes values with and without elements")
        node = self.classes.of(ClassTerm("nothing", (), (), (), (), dtype=type_.dtype))
        return View(node, repeating(type_.shape, self.sizes))

    def number(self, literal: str, type_: TensorType) -> View:
        """One number everywhere, as MLIR spells it."""
        node = literal_class(self.classes, literal, type_.dtype)
        return View(node, repeating(type_.shape, self.sizes))

    def _results(self, op: Op, views: list[View]) -> Sequence[View]:
        """What an op makes of views, or of tensors that the source names for it."""
        if self.classes.source is None:
            try:
                return self.results(op, views)
            except Unreadable:
                named = by_name(self.classes, self.sizes, views)
                if named is None:
                    raise
                return self.results(op, named)
        named = by_name(self.classes, self.sizes, views) if self.classes.names else None
        if named is not None:
            with contextlib.suppress(Unreadable):
                made = self.results(op, named)
                if all(self.classes.in_source(view.node) for view in made):
                    return made
        return self.results(op, views)

    def results(self, op: Op, views: Sequence[View]) -> Sequence[View]:
        """What an op makes of views; what depends on no class is computed once."""
        signature = op.signature
        kind = signature.kind
        if kind in MOVERS:
            return self._digits_moved(op, *views)
        for view in views:
            if view.layout.tables:
                known = computed(self.classes, self.sizes, op, views)
                if known is not None:
                    return known
                if self.classes.source is not None and reads_all(signature):
                    views = handed_on(self.classes, views)
                break
        run = HANDLERS.get(kind)
        if run is None or has_only_an_equation(signature):
            same = self._unchanged(op, views)
            if same is not None:
                return [same]
            equation = self.equation(signature)
            views = unmixed(self.classes, equation, views)
            nodes, plan = self._planned(equation, views, signature.results)
            self.again.planned(signature, views, equation.commutes, plan)
            return self._applied(equation, nodes, plan)
        return run(self, op, tuple(views))

    def _digits_moved(self, op: Op, view: View) -> Sequence[View]:
        kind, key = op.signature.kind, (op.signature, view.layout)
        layout = self._moved.get(key)
        if layout is None:
            try:
                layout = self._moved[key] = MOVERS[kind](*key)
            except Unreadable:
                if kind not in HANDLERS:
                    raise
                return HANDLERS[kind](self, op, (view,))
            self.again.moved(key, layout)
        return (View(view.node, layout),)

    def by_equation(self, op: Op, views: Sequence[View]) -> list[View]:
        """Run an op by its equation; what is added to zero, say, is itself."""
        same = self._unchanged(op, views)
        if same is not None:
            return [same]
        equation = self.equation(op.signature)
        return self.apply(equation, views, op.signature.results)

    def _unchanged(self, op: Op, views: Sequence[View]) -> View | None:
        """The operand that the other one, a number, does not change."""
        monoid = monoid_of_kind(op.kind)
        if monoid is not None and len(views) == 2:
            for one, other in (views, views[::-1]):
                if starts_reduction(monoid, self.term(other)):
                    return one
        return None

    def equation(self, signature: Signature) -> Equation:
        """What an op computes."""
        if signature not in self._equations:
            self._equations[signature] = equation_of(signature)
        equation = self._equations[signature]
        if equation is None:
            raise Unreadable(f"{signature.name} is not known to the verifier")
        return equation

    def apply(
        self, equation: Equation, views: Sequence[View], types: Sequence[TensorType]
    ) -> list[View]:
        """The classes of an equation's results, and their layouts."""
        views = unmixed(self.classes, equation, views)
        return self._applied(equation, *self._planned(equation, views, types))

    def _planned(
        self, equation: Equation, views: Sequence[View], types: Sequence[TensorType]
    ) -> tuple[list[int], Plan]:
        """Classes in the order in which the term has them, and what is made of them."""
        nodes = [view.node for view in views]
        layouts = tuple([view.layout for view in views])
        swapped = equation.commutes and _swaps(self, equation, nodes, layouts, types)
        if swapped:
            nodes, layouts = nodes[::-1], layouts[::-1]
        return nodes, self.plan(equation, layouts, types, swapped)

    def _applied(self, equation: Equation, nodes: list[int], plan: Plan) -> list[View]:
        of = self.classes.applied
        made = [View(of((form, *nodes)), layout) for form, layout in plan.results]
        if plan.repeats == 1:
            return made
        monoid = _added_up_by(equation)
        if monoid in IDEMPOTENT:
            return made
        scatters = equation.kind not in CONTRACTIONS
        into = self.classes.terms[nodes[0]]
        if monoid != "sum" or (scatters and not starts_reduction(monoid, into)):
            raise Unreadable(f"{equation.kind} of equal operands")
        often = plan.repeats
        return [View(times(self.classes, v.node, often), v.layout) for v in made]

    def plan(
        self,
        equation: Equation,
        layouts: tuple[DigitLayout, ...],
        types: Sequence[TensorType],
        swapped: bool,
    ) -> Plan:
        """An equation on these layouts, made once for each type of its results."""
        key = (equation, layouts, swapped, *[type_.dtype for type_ in types])
        found = self._plans.get(key)
        if found is None:
            asked = equation.swapped() if swapped else equation
            found = make_plan(self.classes, asked, layouts, types, self._outlines)
            self._plans[key] = found
        return found

    def aligned(
        self,
        operands: Sequence[DigitLayout],
        rank: int,
        kept: tuple[int, ...],
        axes: frozenset[int] = frozenset(),
    ) -> Alignment:
        """Operands of one rank side by side, some dimensions and axes bound."""
        key = (tuple(operands), kept, axes)
        found = self._alignments.get(key)
        if found is None:
            labels = tuple(range(rank))
            each = tuple(labels if held.local else () for held in operands)
            equation = Equation("", each, (kept,), bound_axes=axes)
            found = self._alignments[key] = Alignment(equation, operands)
        return found

    def term(self, view: View) -> ClassTerm:
        """What a view's class is made of."""
        return self.classes.terms[view.node]


_CONTROL: dict[str, Callable[[Machine, int, Op], None]] = {}


def control(*names: str) -> Callable[[Any], Any]:
    """Register how ops with regions are run; they look at operands themselves."""

    def keep(run: Any) -> Any:
        for name in names:
            _CONTROL[f"stablehlo.{name}"] = run
        return run

    return keep


def _added_up_by(equation: Equation) -> str | None:
    """The monoid by which an op puts together what is along its bound variables."""
    if equation.kind in CONTRACTIONS:
        return "sum"
    attrs = equation.attrs
    if equation.kind == "stablehlo.scatter" and isinstance(attrs, tuple):
        return attrs[0] if isinstance(attrs[0], str) else None
    return None


def _swaps(
    machine: Machine,
    equation: Equation,
    nodes: Sequence[int],
    layouts: tuple[DigitLayout, ...],
    types: Sequence[TensorType],
) -> bool:
    """Whether operands that commute come the other way round in the class."""
    first, second = nodes
    if first != second:
        return first > second
    there = machine.plan(equation, layouts, types, False)
    back = machine.plan(equation, layouts[::-1], types, True)
    return back.dims < there.dims
