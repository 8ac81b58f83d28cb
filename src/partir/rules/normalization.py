"""batch_norm_*: features; in inference, where nothing is averaged, all the rest too."""

from __future__ import annotations

from collections.abc import Iterator

from partir.ir.attributes import integer
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.registry import rule


@rule("batch_norm_training", "batch_norm_grad", "batch_norm_inference")
def batch_norm(op: Signature) -> Iterator[Factor]:
    """``(_, c), (c), (c) -> (_, c), (c), (c)``; inference tiles `_` as well."""
    feature = integer(op.attrs["feature_index"])
    rank = len(op.operands[0].shape)
    for dim, size in enumerate(op.operands[0].shape):
        if dim == feature:
            yield Factor(
                size,
                tuple(dim if len(t.shape) == rank else 0 for t in op.operands),
                tuple(dim if len(t.shape) == rank else 0 for t in op.results),
            )
        elif op.name == "batch_norm_inference":
            yield Factor(size, (dim, None, None, None, None), (dim,))
