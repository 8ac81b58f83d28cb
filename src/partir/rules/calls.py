"""Custom calls, told apart by their targets.

Linear algebra works on batches of matrices. Where jax writes a call for a CPU or GPU
it says itself how many dimensions are batches; for TPUs the targets are known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from partir.ir.attributes import integer
from partir.ir.core import Signature
from partir.rules.elementwise import pointwise
from partir.rules.factor import Factor
from partir.rules.linalg import leading
from partir.rules.nest import Nest
from partir.rules.reduction import all_but
from partir.rules.registry import local_attrs, rule, variants

BATCHED = "stablehlo.custom_call batched"
_BATCH = re.compile(r'num_batch_dims = "(\d+)"')
_REDUCED = re.compile(r"reduction_dim(?:\\22:| =) (\d+)")
# Ops of another dialect in programs that were serialised by older versions.
_ELEMENTWISE = "acos acosh asin asinh atanh cosh erf sinh".split()

# Where a value is kept: on the host, say.
_PLACEMENT = "annotate_device_placement MoveToDevice MoveToHost".split()


def target(name: str) -> str:
    """What a call's rule is registered under."""
    return f"stablehlo.custom_call @{name}"


@variants("custom_call")
def names(op: Signature) -> Iterator[str]:
    """The target's own; else what jax says about batches."""
    yield target(op.attrs["call_target_name"].strip('"'))
    if _BATCH.search(op.attrs.get("mhlo.frontend_attributes", "")):
        yield BATCHED


@rule(BATCHED)
def batched(op: Signature) -> Iterator[Factor]:
    """``(i, _, _) -> (i, _, _), (i, _), (i)``: LAPACK, cuSOLVER and the like."""
    found = _BATCH.search(op.attrs["mhlo.frontend_attributes"])
    assert found is not None
    yield from leading(op, int(found.group(1)))


@rule(
    *map(
        target,
        (
            "Qr",
            "Eigh",
            "LuDecomposition",
            "ProductOfElementaryHouseholderReflectors",
        ),
    )
)
def matrices(op: Signature) -> Iterator[Factor]:
    """``(i, _, _) -> (i, _, _), (i, _)``: linear algebra on TPUs."""
    yield from leading(op, len(op.operands[0].shape) - 2)


@rule(target("ApproxTopK"), target("PartialReduce"))
def approximate_top_k(op: Signature) -> Iterator[Factor]:
    """``(i, _), (i, _), (), () -> (i, _), (i, _)``: all but the reduced dimension."""
    text = op.attrs.get("mhlo.backend_config", op.attrs.get("backend_config", ""))
    found = _REDUCED.search(text)
    if found is not None:
        yield from all_but(op, integer(found.group(1)))


@rule(target("mhlo.topk"))
def top_k(op: Signature) -> Iterator[Factor]:
    """``(i, _) -> (i, _), (i, _)``: all but the last dimension."""
    yield from all_but(op, len(op.operands[0].shape) - 1)


@rule(*(target(f"mhlo.{name}") for name in _ELEMENTWISE))
@rule(*map(target, _PLACEMENT))
def elementwise(op: Signature) -> Iterator[Factor]:
    """``(i, j) -> (i, j)``."""
    yield from pointwise(op)


@local_attrs("custom_call")
def call_attrs(nest: Nest) -> dict[str, str]:
    """All but a rule for another partitioner, which holds the sizes of the whole."""
    attrs = dict(nest.signature.attrs)
    attrs.pop("sdy.sharding_rule", None)
    return attrs
