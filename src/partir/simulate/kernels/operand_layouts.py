"""How matrix products want their operands laid out."""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.attributes import fields
from partir.rules.nest import Nest
from partir.rules.traits import changes_order

Form = tuple[int, ...]


def operand_forms(nest: Nest) -> tuple[Form | None, ...] | None:
    """How a matrix product reads its operands; None for other ops.

    None for an operand that is read as it is. Otherwise it is reshaped to a matrix (or
    a batch of them) after its dimensions are put into this order.
    """
    if nest.signature.kind != "stablehlo.dot_general":
        return None
    numbers = fields(nest.attrs["dot_dimension_numbers"])
    return tuple(
        _form(
            nest.operand_types[position].shape,
            tuple(numbers.get(f"{side}_batching_dimensions", ())),
            tuple(numbers.get(f"{side}_contracting_dimensions", ())),
            last=side == "lhs",
        )
        for position, side in enumerate(("lhs", "rhs"))
    )


def has_own_form(nest: Nest) -> bool:
    """Whether what an op writes lies otherwise than what it reads, or others read.

    A product writes a matrix; what has more dimensions is that matrix in another form.
    """
    forms = operand_forms(nest) or ()
    formed = any(form is not None for form in forms)
    return changes_order(nest) or (formed and len(nest.result_types[0].shape) > 2)


def _form(
    shape: Sequence[int], batch: Form, contracted: Form, last: bool
) -> Form | None:
    free = tuple(d for d in range(len(shape)) if d not in batch and d not in contracted)
    leading = batch == tuple(range(len(batch)))
    if leading and len(contracted) < 2 and len(free) < 2:
        return None
    order = (*batch, *free, *contracted) if last else (*batch, *contracted, *free)
    moved = tuple(d for d in order if shape[d] > 1)
    return () if list(moved) == sorted(moved) else order
