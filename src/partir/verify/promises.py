"""Calls whose authors say how their dimensions belong together.

`partir.rule` says so of a custom call, `partir.opaque` of a function that is kept
whole. Nobody can look into the first, and nobody is asked to look into the second: the
rule is believed. What is checked is that the device-local module calls the same
function, traced at its local types, on tiles that the rule allows, and puts the results
together as it says.

A function that reduces over a dimension by a monoid does so tile by tile, whatever the
tiles: it is the reduction of what it makes of tiles of size one. A result that does not
depend on a dimension (`same`) is what any of these tiles give, and so their greatest.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from partir.errors import PartitionError
from partir.ir.core import Op, Program, Signature
from partir.ir.types import TensorType
from partir.ir.user_rule import (
    FUNCTION_ID,
    OPAQUE,
    RULE,
    SAME,
    WHOLE,
    DimNames,
    UserRule,
    parse,
)
from partir.ir.user_rule_shapes import fitted, sizes
from partir.verify.equations.calls import has_effects, nth_call
from partir.verify.equations.registry import rest
from partir.verify.layouts.align import Equation, Label
from partir.verify.layouts.layout import Unreadable, View, depends_on, reshaped, size_of
from partir.verify.machine.machine import Machine, handler
from partir.verify.reductions.reductions import reduced, reduced_over_axes

_MONOIDS = {name: name for name in ("sum", "max", "min", "and", "or", SAME)}
_MONOIDS["mul"] = "product"
_PLACEMENTS = frozenset({"annotate_device_placement", "MoveToDevice", "MoveToHost"})
Types = tuple[TensorType, ...]
MakeText = Callable[[str, str, Types, Types], str]


@dataclass(frozen=True)
class Promises:
    """Rules of custom calls by target; the text of functions that are kept whole.

    `text` traces a function, by its id, under a symbol and at local types.
    """

    rules: Mapping[str, UserRule] = field(default_factory=dict)
    text: MakeText | None = None


def kept_call(
    promises: Promises, module: str, symbol: str, operands: Types, results: Types
) -> dict[str, str] | None:
    """What a call of a function of the module stands for, if it is one that was kept.

    Its text, and that of all that it calls, is in the module just as tracing gives it.
    """
    name = symbol.rpartition("_")[0]
    if promises.text is None or not name:
        return None
    try:
        text = promises.text(name, symbol, operands, results)
    except PartitionError:  # no such function, or not at these types
        return None
    if module.count(text) != 1:
        return None
    return {"call_target_name": f'"{OPAQUE}"', FUNCTION_ID: f'"{name}"'}


@handler("custom_call")
def _call(machine: Machine, op: Op, views: tuple[View, ...]) -> Sequence[View]:
    """By what its author says; of other calls nothing is known."""
    signature = op.signature
    target = signature.attrs["call_target_name"].strip('"')
    if target in _PLACEMENTS and signature.operands == signature.results:
        return views  # another memory holds the same numbers
    rule = _rule(machine, signature, target)
    if rule is None and has_effects(signature):
        number = machine.program.once(_numbers)[op.results]
        return machine.apply(nth_call(signature, number), views, signature.results)
    if rule is None:
        return machine.by_equation(op, views)
    return _by_rule(machine, signature, views, rule)


def _numbers(program: Program) -> dict[tuple[int, ...], int]:
    """Calls with effects by what they give: the how many-th of its kind each one is."""
    found: dict[tuple[int, ...], int] = {}
    seen = Counter[object]()
    for number in program.walk():
        op = program.ops[number]
        if op.kind == "stablehlo.custom_call" and has_effects(op.signature):
            key = _key(op.signature)
            found[op.results] = seen[key]
            seen[key] += 1
    return found


def _rule(machine: Machine, signature: Signature, target: str) -> UserRule | None:
    """The source's calls bring the rules of functions along, by their ids."""
    classes = machine.classes
    if target != OPAQUE:
        rules: Mapping[str, UserRule] = classes.promised
        return rules.get(target)
    name = signature.attrs[FUNCTION_ID]
    if classes.source is None:
        rule = parse(signature.attrs[RULE].strip('"'))
        if classes.kept.setdefault(name, rule) != rule:
            raise Unreadable(f"two rules of one function, {name}")
    if name not in classes.kept:
        raise Unreadable(f"a call of {name}, which the source does not call")
    found: UserRule = classes.kept[name]
    return found


class _Labels(NamedTuple):
    operands: tuple[tuple[Label, ...], ...]
    results: tuple[tuple[Label, ...], ...]
    special: tuple[Label, ...]


def _by_rule(
    machine: Machine, signature: Signature, views: tuple[View, ...], rule: UserRule
) -> list[View]:
    call = _ungrouped(
        fitted(rule, signature.operands, signature.results),
        signature.operands,
        signature.results,
    )
    free = _free(call)
    monoids = {n: _MONOIDS[m] for n, m in call.rule.reduced if n in free}
    labels = _labelled(call.rule, free)
    missing = [[n for n in monoids if n not in dims] for dims in call.rule.results]
    equation = Equation(
        "promised",
        labels.operands,
        tuple((*n, *dims) for n, dims in zip(missing, labels.results, strict=True)),
        (_key(signature), tuple(type_.dtype for type_ in signature.operands)),
        labels.special,
    )
    given = [
        View(view.node, reshaped(view.layout, type_.shape))
        for view, type_ in zip(views, call.operands, strict=True)
    ]
    made = machine.apply(equation, given, _with_parts(call, missing))
    found = [
        _put_together(machine, view, [monoids[n] for n in names], type_)
        for view, names, type_ in zip(made, missing, call.results, strict=True)
    ]
    return [
        View(view.node, reshaped(view.layout, type_.shape))
        for view, type_ in zip(found, signature.results, strict=True)
    ]


class _Called(NamedTuple):
    """A rule that fits these types, every name of one size."""

    rule: UserRule
    operands: Types
    results: Types

    def sizes(self, name: str) -> list[int]:
        return [*sizes(self.rule, name, self.operands, self.results).values()]


def _ungrouped(rule: UserRule, operands: Types, results: Types) -> _Called:
    """Dimensions of grouped names split: so many groups, and what is in each, whole."""
    for name in rule.grouped:
        groups = math.gcd(*sizes(rule, name, operands, results).values())
        left, operands = _split(rule.operands, operands, name, groups)
        right, results = _split(rule.results, results, name, groups)
        rule = replace(rule, operands=left, results=right)
    return _Called(rule, operands, results)


def _split(
    side: Sequence[DimNames], types: Types, name: str, groups: int
) -> tuple[tuple[DimNames, ...], Types]:
    names, made = [], []
    for dims, type_ in zip(side, types, strict=True):
        if name in dims:
            at = dims.index(name)
            before, size, after = (
                type_.shape[:at],
                type_.shape[at],
                type_.shape[at + 1 :],
            )
            type_ = type_.with_shape((*before, groups, size // groups, *after))
            dims = (*dims[: at + 1], WHOLE, *dims[at + 1 :])
        names.append(dims)
        made.append(type_)
    return tuple(names), tuple(made)


def _with_parts(call: _Called, missing: Sequence[Sequence[str]]) -> list[TensorType]:
    """Types of results with a first dimension for each name that is reduced over."""
    return [
        type_.with_shape((*(call.sizes(n)[0] for n in names), *type_.shape))
        for names, type_ in zip(missing, call.results, strict=True)
    ]


def _key(signature: Signature) -> object:
    """What tells a call from others but its types, which are local or not."""
    if FUNCTION_ID in signature.attrs:
        return signature.attrs[FUNCTION_ID]
    return rest(signature.attrs), signature.lambdas


def _free(call: _Called) -> frozenset[str]:
    """Names along which a call may be cut: of one size, and put together somehow."""
    marks = dict(call.rule.reduced)
    return frozenset(
        name
        for name in call.rule.names
        if len({*call.sizes(name)}) == 1 and marks.get(name, "sum") in _MONOIDS
    )


def _labelled(rule: UserRule, free: frozenset[str]) -> _Labels:
    """Names are labels; what must stay whole is special, and new in results."""

    def of(what: str, number: int, dims: Sequence[str]) -> tuple[Label, ...]:
        return tuple(
            name if name in free and name != WHOLE else (what, number, dim)
            for dim, name in enumerate(dims)
        )

    operands = tuple(of("in", n, dims) for n, dims in enumerate(rule.operands))
    results = tuple(of("out", n, dims) for n, dims in enumerate(rule.results))
    special = tuple(x for dims in operands for x in dims if isinstance(x, tuple))
    return _Labels(operands, results, special)


def _put_together(
    machine: Machine, view: View, monoids: Sequence[str], type_: TensorType
) -> View:
    """A result reduced over its first dimensions, the last of them first."""
    rank = len(view.layout.local)
    for monoid in reversed(monoids):
        shown = "or" if (monoid, type_.dtype) == ("sum", "i1") else monoid
        count = rank - len(type_.shape)
        kept = tuple(dim for dim in range(rank) if dim != count - 1)
        shape = [size_of(view.layout.local[dim]) for dim in kept]
        view = reduced(machine, "max" if shown == SAME else shown, view, kept, shape)
        rank -= 1
    return _on_any_device(machine, view) if SAME in monoids else view


def _on_any_device(machine: Machine, view: View) -> View:
    """What is the same for all tiles: of equal numbers, the greatest is each.

    If over some axes the greatest is what the source has, which is the greatest over
    all of the dimension, then these axes cut this dimension and nothing else.
    """
    if machine.classes.in_source(view.node):
        return view
    axes = [a for a in range(len(machine.sizes)) if depends_on(view.layout, a)]
    shape = [size_of(items) for items in view.layout.local]
    for count in range(1, len(axes) + 1):
        for some in itertools.combinations(axes, count):
            with contextlib.suppress(Unreadable):
                whole = reduced_over_axes(machine, "max", view, some, shape)
                if machine.classes.in_source(whole.node):
                    return whole
    return view
