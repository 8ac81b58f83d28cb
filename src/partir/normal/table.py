"""The table of normal forms, and the pass that puts a program into them."""

from __future__ import annotations

from collections.abc import Callable

from partir.ir.core import Op, Program
from partir.normal.disjoint_sums import concatenate_disjoint
from partir.normal.draft import Draft, Form
from partir.normal.padded_windows import (
    pad_convolution,
    pad_pool_gradient,
    pad_reduction,
)
from partir.normal.rotations import cut_rolled, roll_slices
from partir.normal.shifts import join_edges
from partir.normal.split_slices import slice_before_reshape
from partir.normal.unmerged import (
    unmerge_contracted,
    unmerge_product,
    unmerge_reduced,
)

Rewrite = Callable[[Draft, Op], Form | None]

FORMS: dict[str, tuple[Rewrite, ...]] = {
    "stablehlo.add": (concatenate_disjoint,),
    "stablehlo.concatenate": (roll_slices,),
    "stablehlo.convolution": (pad_convolution,),
    "stablehlo.dot_general": (unmerge_contracted,),
    "stablehlo.pad": (join_edges,),
    "stablehlo.reduce": (unmerge_reduced,),
    "stablehlo.reduce_window": (pad_reduction,),
    "stablehlo.reshape": (unmerge_product,),
    "stablehlo.slice": (
        join_edges,
        cut_rolled,
        pad_pool_gradient,
        slice_before_reshape,
    ),
}
"""By the op that is looked at, the last of those that become one."""

_AMONG = {
    "stablehlo.add": "stablehlo.pad",
    "stablehlo.dot_general": "stablehlo.reshape",
    "stablehlo.reduce": "stablehlo.reshape",
    "stablehlo.reshape": "stablehlo.dot_general",
}
"""Ops that are everywhere, and what must be in a program to look at them."""

_MOST = 8  # forms that one op takes, one after the other


def normalized(program: Program) -> Program:
    """The program in normal form: each op once, operands' makers before readers."""
    kinds = {op.kind for op in program.ops}
    looked_at = {k for k in FORMS.keys() & kinds if _AMONG.get(k, k) in kinds}
    candidates = [op for op in program.ops if op.kind in looked_at]
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
