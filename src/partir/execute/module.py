"""A jax primitive that calls a StableHLO module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import func, stablehlo
from jax.interpreters import ad, batching, mlir

from partir.errors import PartitionError
from partir.execute.jax_private import HOST_EFFECT, key_implementation
from partir.frontend.jax_private import ir_types

_FFT = "stablehlo.fft"
_NUMBER = "mhlo.backend_config"  # where jax writes the number of a host function


class Module:
    """Text of a StableHLO module; compared by identity, so that jax hashes it fast."""

    def __init__(self, text: str, callbacks: Sequence[Any] = ()) -> None:
        """Keep the text, and the host functions that it calls by number."""
        self.text = text
        self.callbacks = tuple(callbacks)


call_p = Primitive("partir_call")
call_p.multiple_results = True


def _abstract(
    *_: Any, module: Module, results: tuple[Any, ...]
) -> tuple[list[Any], set[Any]]:
    effects = {HOST_EFFECT} if module.callbacks else set()
    return list(results), effects


call_p.def_effectful_abstract_eval(_abstract)


def call_module(
    module: Module, results: Sequence[jax.ShapeDtypeStruct], *args: Any
) -> list[jax.Array]:
    """Call a module's `main` on arrays (inside jit); `results` are its result types."""
    avals = tuple(ShapedArray(r.shape, r.dtype) for r in results)
    bind: Any = call_p.bind
    return list(bind(*args, module=module, results=avals))


def wrap_key(data: Any, dtype: Any) -> Any:
    """PRNG keys of this dtype from the numbers that they are made of."""
    return jax.random.wrap_key_data(data, impl=key_implementation(dtype))


def _lower(ctx: Any, *args: Any, module: Module, results: tuple[Any, ...]) -> Any:
    context = ctx.module_context
    parsed = ir.Module.parse(module.text, context.context)
    _renumber_channels(parsed, context)
    _carry_callbacks(parsed, context, module.callbacks)
    if "cpu" in context.platforms and _FFT in module.text:
        _fix_layouts(parsed)
    name = mlir.merge_mlir_modules(
        context.module, "partir_main", parsed, dst_symtab=context.symbol_table
    )
    types = ir_types(context, ctx.avals_out)
    call = func.CallOp(types, ir.FlatSymbolRefAttr.get(name), args)
    return call.results


mlir.register_lowering(call_p, _lower)


def _carry_callbacks(parsed: Any, context: Any, callbacks: tuple[Any, ...]) -> None:
    """Enter host functions into the surrounding module's table, and use its numbers."""
    if not callbacks:
        return
    first = len(context.host_callbacks)
    for callback in callbacks:
        context.add_host_callback(callback)

    def visit(op: Any) -> Any:
        if _NUMBER in op.attributes and "index" in op.attributes[_NUMBER]:
            number = ir.IntegerAttr(op.attributes[_NUMBER]["index"]).value + first
            kind = ir.IntegerType.get_unsigned(64, context.context)
            index: dict[str, Any] = {"index": ir.IntegerAttr.get(kind, number)}
            op.attributes[_NUMBER] = ir.DictAttr.get(index, context.context)
        return ir.WalkResult.ADVANCE

    parsed.operation.walk(visit)


def _fix_layouts(module: Any) -> None:
    """Ffts read and give tensors whose last dimension is the minor one.

    XLA:CPU has no others, but hands on to an fft the layout that a gather in front of
    it, or behind it, likes best: such a program compiles and then fails.
    """
    calls = []

    def visit(op: Any) -> Any:
        if op.name == _FFT:
            calls.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in calls:
        with ir.InsertionPoint(op), op.location:
            op.operands[0] = _in_order(op.operands[0]).results[0]
        (result,) = op.results
        with ir.InsertionPoint.after(op), op.location:
            call = _in_order(result)
        result.replace_all_uses_except(call.results[0], call.operation)


def _in_order(value: Any) -> Any:
    """A call that leaves a value as it is, but fixes its layout."""
    rank = ir.RankedTensorType(value.type).rank
    order = f"[dense<{[*reversed(range(rank))]}> : tensor<{rank}xindex>]"
    target = ir.StringAttr.get("LayoutConstraint")
    call = stablehlo.CustomCallOp([value.type], [value], target)
    for name in ("operand_layouts", "result_layouts"):
        call.operation.attributes[name] = ir.Attribute.parse(order)
    return call


def _renumber_channels(module: Any, context: Any) -> None:
    """Give every collective a channel of the surrounding module."""

    def visit(op: Any) -> Any:
        if "channel_handle" in op.attributes:
            number = context.new_channel()
            op.attributes["channel_handle"] = ir.Attribute.parse(
                f"#stablehlo.channel_handle<handle = {number}, type = 1>",
                context.context,
            )
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def _refuse(transform: str) -> Any:
    def rule(*_: Any, **__: Any) -> Any:
        raise PartitionError(
            f"jax.{transform} of a partitioned function is not possible: it is already "
            f"a program per device. Partition the transformed function instead, for "
            f"example partir.jit(jax.{transform}(fn), mesh, schedule)"
        )

    return rule


ad.primitive_jvps[call_p] = _refuse("grad")
batching.primitive_batchers[call_p] = _refuse("vmap")
