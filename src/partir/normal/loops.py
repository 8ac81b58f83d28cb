"""Whether a form can be looped over where what it replaces could be."""

from __future__ import annotations

from partir.ir.core import Signature
from partir.normal.draft import Draft, Form
from partir.rules.registry import factors_of

Loops = set[tuple[tuple[int | None, ...], str | None]]


def keeps_loops(draft: Draft, before: Signature, form: Form, value: int) -> bool:
    """Whether a form that makes a value has all loops that an op before it had."""
    operands = tuple(draft.types[v] for v in form.operands)
    results = (draft.types[value],)
    made = Signature.of(form.kind, form.attrs, operands, results, form.lambdas)
    return _loops(before) <= _loops(made)


def _loops(op: Signature) -> Loops:
    return {(factor.results, factor.reduce) for factor in factors_of(op)}
