"""The primitive of opaque functions, with every transformation that jax has.

Its tangent map is a primitive of its own, linear in the tangents, whose transpose is
the backward pass: again an opaque function, with a rule that follows from the
forward one. Outside `opaque_calls` both are lowered as the functions they stand for.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
from jax.core import ShapedArray
from jax.extend import source_info_util
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo as hlo
from jax.interpreters import ad, batching, mlir

from partir.frontend.arithmetic import arithmetic
from partir.frontend.jax_private import hidden_dims, ir_types
from partir.frontend.opaque_calls import OpaqueFunction, current_table
from partir.frontend.opaque_residuals import find_residuals
from partir.frontend.opaque_transforms import Whole
from partir.frontend.residual_pairing import find_pairs
from partir.ir.user_rule import (
    FLOPS,
    FUNCTION_ID,
    OPAQUE,
    PAIRS,
    PRODUCTS,
    RULE,
    WHOLE,
    UserRule,
)

# Ops come from the user's line, not from ours.
for _file in ("opaque", "primitive", "derived", "residuals"):
    source_info_util.register_exclusion(str(Path(__file__).with_stem(_file)))

_call_p = Primitive("partir_opaque")
_tangent_p = Primitive("partir_opaque_tangent")


def bind_call(
    arrays: Sequence[Any], whole: Whole, results: Sequence[jax.ShapeDtypeStruct]
) -> list[Any]:
    """Call a function on arrays; `results` are the types of what comes out."""
    return list(_bind(_call_p, arrays, whole, map(_shaped, results)))


def _shaped(aval: jax.ShapeDtypeStruct) -> Any:
    return ShapedArray(aval.shape, aval.dtype, weak_type=bool(aval.weak_type))


def _bind(primitive: Any, arrays: Sequence[Any], whole: Whole, results: Any) -> Any:
    return primitive.bind(*arrays, whole=whole, results=tuple(results))


# The call


def _abstract(*_: Any, results: tuple[Any, ...], **__: Any) -> list[Any]:
    return list(results)


def _run(*arrays: Any, whole: Whole, results: Any) -> list[Any]:
    return list(whole.fn(*arrays))


def _lower(ctx: Any, *values: Any, whole: Whole, results: Any) -> Any:
    table = current_table()
    if table is None:
        return mlir.lower_fun(_run, multiple_results=True)(
            ctx, *values, whole=whole, results=results
        )
    operands = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type)
        for a in ctx.avals_in
    ]
    module = ctx.module_context
    opaque = OpaqueFunction.of(whole.fn, whole.rule, operands, module.platforms)
    types = ir_types(module, ctx.avals_out)
    call = hlo.CustomCallOp(types, values, ir.StringAttr.get(OPAQUE))
    attributes = call.operation.attributes
    attributes[FUNCTION_ID] = ir.StringAttr.get(table.add(whole.name, opaque))
    rule = _physical(whole.rule, ctx.avals_in, ctx.avals_out)
    attributes[RULE] = ir.StringAttr.get(str(rule))
    pairs = list(find_pairs(whole.fn, whole.rule, table.pair))
    if pairs:
        attributes[PAIRS] = ir.StringAttr.get("; ".join(map(str, pairs)))
    counted = arithmetic(whole.fn, operands)
    attributes[FLOPS] = ir.StringAttr.get(f"{counted.flops:.0f}")
    attributes[PRODUCTS] = ir.StringAttr.get(f"{counted.products:.0f}")
    return call.results


def _physical(rule: UserRule, operands: Any, results: Any) -> UserRule:
    """PRNG keys have more dimensions when lowered, which stay whole."""

    def extended(dims: Any, aval: Any) -> Any:
        return (*dims, *(WHOLE,) * hidden_dims(aval))

    return replace(
        rule,
        operands=tuple(map(extended, rule.operands, operands)),
        results=tuple(map(extended, rule.results, results)),
    )


def _batch(args: Any, axes: Any, *, whole: Whole, results: Any) -> Any:
    size = _batch_size(args, axes)
    made = _bind(_call_p, args, whole.batched(tuple(axes)), _stacked(results, size))
    return made, [0] * len(made)


def _batch_size(args: Any, axes: Any) -> int:
    pairs = zip(args, axes, strict=True)
    size: int = next(arg.shape[axis] for arg, axis in pairs if axis is not None)
    return size


def _stacked(avals: Sequence[Any], size: int) -> list[Any]:
    return [ShapedArray((size, *aval.shape), aval.dtype) for aval in avals]


# Derivatives


def _is_zero(tangent: Any) -> bool:
    return type(tangent) is ad.Zero or tangent.dtype == jax.dtypes.float0


def _jvp(primals: Any, tangents: Any, *, whole: Whole, results: Any) -> Any:
    given = tuple(not _is_zero(t) for t in tangents)
    zeros = [ad.Zero(aval.to_tangent_aval()) for aval in results]
    moving = _float_mask(results)
    if not any(given) or not any(moving):
        return _bind(_call_p, primals, whole, results), zeros
    made, saved, residuals = _forward(primals, given, whole, results)
    nonzero = [t for t, g in zip(tangents, given, strict=True) if g]
    left = iter(
        _tangent_p.bind(
            *(*primals, *residuals, *nonzero),
            **{"whole": whole, "given": given, "saved": saved, "results": results},
        )
    )
    return made, [next(left) if m else z for m, z in zip(moving, zeros, strict=True)]


def _forward(primals: Any, given: Any, whole: Whole, results: Any) -> Any:
    """Results, and what the backward pass will need if that can be kept."""
    avals = list(map(jax.typeof, primals))
    saved = find_residuals(whole.fn, whole.rule, avals, given)
    if saved is None:
        return _bind(_call_p, primals, whole, results), None, []
    extra = [ShapedArray(*type_) for type_ in saved.types]
    forward = whole.saving(given, saved) if extra else whole
    made = _bind(_call_p, primals, forward, [*results, *extra])
    count = len(results)
    needed = [made[number] for number in saved.results]
    return made[:count], saved, [*needed, *made[count:]]


def _float_mask(results: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(r.to_tangent_aval().dtype != jax.dtypes.float0 for r in results)


def _float_avals(results: Sequence[Any]) -> list[Any]:
    pairs = zip(results, _float_mask(results), strict=True)
    return [result.to_tangent_aval() for result, moving in pairs if moving]


def _tangent_abstract(*_: Any, results: Any, **__: Any) -> list[Any]:
    return _float_avals(results)


def _parts(args: Any, given: Any) -> tuple[Any, Any, Any]:
    """Operands, residuals and tangents among a tangent map's arguments."""
    first, last = len(given), len(args) - sum(given)
    return args[:first], args[first:last], args[last:]


def _tangent(*args: Any, whole: Whole, given: Any, saved: Any, results: Any) -> Any:
    """Forward mode, where nothing transposes it: the derivative, kept whole."""
    operands, _, tangents = _parts(args, given)
    args = (*operands, *tangents)
    forward = whole.forward(given, _float_mask(results))
    return _bind(_call_p, args, forward, _float_avals(results))


def _tangent_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    filled = [ad.instantiate_zeros(t) for t in tangents]
    return jax.jvp(functools.partial(_tangent, **params), primals, filled)


def _transpose(
    cts: Any, *args: Any, whole: Whole, given: Any, saved: Any, results: Any
) -> Any:
    operands, residuals, tangents = _parts(args, given)
    nothing = [None] * (len(args) - len(tangents))
    moving = iter(cts)
    pairs = [next(moving) if m else None for m in _float_mask(results)]
    known = tuple(ct is not None and type(ct) is not ad.Zero for ct in pairs)
    wanted = [t.aval for t in tangents]
    if not any(known):
        return nothing + [ad.Zero(aval) for aval in wanted]
    cotangents = [ct for ct, k in zip(pairs, known, strict=True) if k]
    if saved is None:
        backward = whole.backward(given, known)
    else:
        backward = whole.resuming(given, known, saved)
    made = _bind(_call_p, [*operands, *residuals, *cotangents], backward, wanted)
    return nothing + list(made)


def _tangent_batch(
    args: Any, axes: Any, *, whole: Whole, given: Any, saved: Any, results: Any
) -> Any:
    """A tangent is batched along the same dimension as its operand.

    What was saved is that of the function for one example, and left out.
    """
    size = _batch_size(args, axes)
    args, axes = (
        [*operands, *tangents]
        for operands, _, tangents in (_parts(args, given), _parts(axes, given))
    )
    count = len(given)
    moving = [number for number, g in enumerate(given) if g]
    for tangent, operand in enumerate(moving, start=count):
        if axes[tangent] != axes[operand]:
            for place in (tangent, operand):
                args[place] = batching.bdim_at_front(args[place], axes[place], size)
                axes[place] = 0
    made = _tangent_p.bind(
        *args,
        whole=whole.batched(tuple(axes[:count])),
        given=given,
        saved=None,
        results=tuple(_stacked(results, size)),
    )
    return made, [0] * len(made)


def _register() -> None:
    for primitive in (_call_p, _tangent_p):
        primitive.multiple_results = True
    _call_p.def_impl(_run)
    _call_p.def_abstract_eval(_abstract)
    ad.primitive_jvps[_call_p] = _jvp
    batching.primitive_batchers[_call_p] = _batch
    mlir.register_lowering(_call_p, _lower)
    _tangent_p.def_impl(_tangent)
    _tangent_p.def_abstract_eval(_tangent_abstract)
    ad.primitive_jvps[_tangent_p] = _tangent_jvp
    ad.primitive_transposes[_tangent_p] = _transpose
    batching.primitive_batchers[_tangent_p] = _tangent_batch
    mlir.register_lowering(_tangent_p, mlir.lower_fun(_tangent, multiple_results=True))


_register()
