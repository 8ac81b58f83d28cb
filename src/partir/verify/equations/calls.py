"""Custom calls whose meaning is known: linear algebra of batches, the largest of rows.

Of all others nothing is known but that equal operands give equal results.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

from partir.ir.attributes import CALLED
from partir.ir.core import Signature
from partir.verify.equations.registry import equation, rest
from partir.verify.layouts.align import Equation, Label
from partir.verify.layouts.layout import Unreadable

_BATCH = re.compile(r'num_batch_dims = "(\d+)"')  # as jax says it
_REDUCED = re.compile(r"reduction_dim(?:\\22:| =) (\d+)")
_MATRICES = frozenset(
    "Qr Eigh LuDecomposition ProductOfElementaryHouseholderReflectors".split()
)
_ALONG_ONE = frozenset({"ApproxTopK", "PartialReduce"})
_ELEMENTWISE = frozenset(
    f"mhlo.{name}" for name in "acos acosh asin asinh atanh cosh erf sinh".split()
)


@equation("custom_call")
def _call(signature: Signature) -> Equation:
    """Along dimensions that are not known to be independent, as a whole."""
    if has_effects(signature):
        raise Unreadable("a call that may give other results each time")
    return nth_call(signature, 0)


def has_effects(signature: Signature) -> bool:
    """Whether a call may do more than give results, which may be others each time."""
    return signature.attrs.get("has_side_effect") == "true"


def nth_call(signature: Signature, number: int) -> Equation:
    """A call that is one of several: only of the same one are the results the same."""
    attrs = rest(signature.attrs, CALLED, "sdy.sharding_rule")  # names, and for others
    key = (attrs, signature.lambdas, number)
    return along_all_but(signature, _independent(signature), key)


def _independent(signature: Signature) -> Iterable[int]:
    """Dimensions along which a call works row by row, in operands and results."""
    attrs = signature.attrs
    rank = max((len(type_.shape) for type_ in signature.operands), default=0)
    target = attrs["call_target_name"].strip('"')
    if target in _ELEMENTWISE:
        return range(rank)
    if target in _MATRICES:
        return range(rank - 2)
    if target == "mhlo.topk":
        return range(rank - 1)
    if target in _ALONG_ONE:
        text = attrs.get("mhlo.backend_config", attrs.get("backend_config", ""))
        found = _REDUCED.search(text)
        return [d for d in range(rank) if found and d != int(found[1])]
    batched = _BATCH.search(attrs.get("mhlo.frontend_attributes", ""))
    return range(int(batched[1])) if batched else ()


def along_all_but(
    signature: Signature, free: Iterable[int], attrs: Hashable
) -> Equation:
    """Special along all dimensions but these, which all values have that have any."""
    free = frozenset(free)
    operands: list[tuple[Label, ...]] = []
    for number, type_ in enumerate(signature.operands):
        rank = len(type_.shape)
        own = free if all(dim < rank for dim in free) else ()
        operands.append(
            tuple(dim if dim in own else (number, dim) for dim in range(rank))
        )
    results = tuple(
        tuple(
            dim if dim in free else ("out", n, dim) for dim in range(len(type_.shape))
        )
        for n, type_ in enumerate(signature.results)
    )
    special = tuple(x for labels in operands for x in labels if isinstance(x, tuple))
    whole = tuple(
        tuple(size for dim, size in enumerate(type_.shape) if dim not in free)
        for type_ in signature.results
    )
    key = (attrs, whole)
    return Equation(signature.kind, tuple(operands), results, key, special)
