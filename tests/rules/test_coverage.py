"""Every op of StableHLO and chlo has a rule, or there is a reason why not."""

from __future__ import annotations

from types import ModuleType

import jaxlib.mlir.dialects._chlo_ops_gen as chlo
import jaxlib.mlir.dialects._stablehlo_ops_gen as stablehlo
import pytest

import partir.rules  # noqa: F401  (registers every family)
from partir.rules.registry import kinds

pytestmark = pytest.mark.quick


REASONS = {
    "control flow: its values are tied instead": (
        "stablehlo.case stablehlo.if stablehlo.optimization_barrier stablehlo.while"
    ),
    "inlined when it is read": "stablehlo.composite",
    "closes a region": "stablehlo.return",
    "communication, which is only in what a shard_map holds": (
        "stablehlo.all_gather stablehlo.all_reduce stablehlo.all_to_all "
        "stablehlo.async_done stablehlo.async_start stablehlo.collective_broadcast "
        "stablehlo.collective_permute stablehlo.cross-replica-sum "
        "stablehlo.partition_id stablehlo.reduce_scatter stablehlo.replica_id"
    ),
    "an effect, or a token that orders effects": (
        "stablehlo.after_all stablehlo.create_token stablehlo.infeed "
        "stablehlo.outfeed stablehlo.recv stablehlo.send"
    ),
    "makes or takes apart what is no tensor": (
        "stablehlo.get_tuple_element stablehlo.tuple "
        "stablehlo.uniform_dequantize stablehlo.uniform_quantize"
    ),
    "makes a size that is not known before running": "stablehlo.set_dimension_size",
    "read as the static op; XLA can't translate it if its sizes are no constants": (
        "stablehlo.dynamic_conv stablehlo.dynamic_gather stablehlo.dynamic_pad "
        "stablehlo.real_dynamic_slice"
    ),
    "XLA can't translate it": "stablehlo.unary_einsum",
    "has a rule by target": "stablehlo.custom_call",
    "jax does not write it": "chlo.constant chlo.scan",
}


def ops_of(dialect: ModuleType) -> set[str]:
    return {
        item.OPERATION_NAME
        for item in vars(dialect).values()
        if isinstance(item, type) and hasattr(item, "OPERATION_NAME")
    }


def test_every_op_has_a_rule_or_a_reason() -> None:
    without = {name for names in REASONS.values() for name in names.split()}
    ops = ops_of(stablehlo) | ops_of(chlo)
    assert ops - set(kinds()) == without & ops


@pytest.mark.needs_jax("0.10", "some of these ops came with it")
def test_reasons_are_for_ops_that_there_are() -> None:
    for names in REASONS.values():
        assert set(names.split()) <= ops_of(stablehlo) | ops_of(chlo)
