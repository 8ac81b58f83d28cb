"""The table of normal forms, and the pass that puts a program into them."""

from __future__ import annotations

from collections.abc import Callable

from partir.ir.core import Op, Program
from partir.normal.draft import Draft, Form
from partir.normal.shifts import join_edges

Rewrite = Callable[[Draft, Op], Form | None]

FORMS: dict[str, tuple[Rewrite, ...]] = {
    "stablehlo.pad": (join_edges,),
    "stablehlo.slice": (join_edges,),
}
"""By the op that is looked at, the result of what becomes one."""

_MOST = 8  # forms that one op takes, one after the other


def normalized(program: Program) -> Program:
    """The program in normal form: each op once, operands' makers before readers."""
    candidates = [op for op in program.ops if op.kind in FORMS]
    if not candidates:
        return program
    draft = Draft(program)
    for candidate in candidates:
        for _ in range(_MOST):
            op = draft.latest(candidate)
            if op is None or not _rewritten(draft, op):
                break
    return draft.finish()


def _rewritten(draft: Draft, op: Op) -> bool:
    """Whether a form fits, which the op then has."""
    for rewrite in FORMS.get(op.kind, ()):
        form = rewrite(draft, op)
        if form is not None:
            draft.replace(op, form)
            return True
    return False
