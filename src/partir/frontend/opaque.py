"""`opaque`: a JAX function that stays whole, with a rule for how it may be tiled.

A primitive of jax with every transformation. Its tangent map is a primitive of its own,
linear in the tangents, whose transpose is the backward pass: again a function kept
whole, with a rule that follows from the forward one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src import core as jax_core, source_info_util
from jax._src.interpreters import ad, batching, mlir
from jax._src.lib.mlir import ir

from partir.errors import PartitionError
from partir.frontend.derived import Flattened, Whole
from partir.frontend.keeping import Kept, current_table
from partir.frontend.leaves import abstract
from partir.frontend.trace import function_name
from partir.ir.types import TensorType, tensor
from partir.ir.written import (
    KEPT,
    OPAQUE,
    RULE,
    WHOLE,
    Written,
    fitted,
    parse,
    require_sizes,
)

source_info_util.register_exclusion(__file__)

_call_p = jax_core.Primitive("partir_opaque")
_tangent_p = jax_core.Primitive("partir_opaque_tangent")


def opaque(
    fn: Callable[..., Any], rule: str, *, name: str | None = None
) -> Callable[..., Any]:
    """Keep a JAX function (a Pallas kernel, an FFI call) whole, with a rule to tile it.

    Inside a partitioned program it is one op. On export it is traced again at the
    shapes of its tiles. Anywhere else it runs as `fn` does.

    Args:
        fn: a function of arrays, or of pytrees of them, that works for any sizes the
            rule allows. Options go in by `functools.partial`, or by keyword. Its
            gradient, that of its `custom_vjp` if it has one, is kept whole too.
        rule: ``"b s h d, b t h d -> b s h d"``: the dimensions of each array that goes
            in, ``->``, of each that comes out; see `partir.rule`.
        name: shown in messages and in the exported program; by default the function's.

    Returns:
        A function with the arguments and results of `fn`.

    Raises:
        PartitionError: the rule is malformed, or, when called, does not fit the arrays.

    Example:
        >>> import jax, jax.numpy as jnp, partir
        >>> inverse = partir.opaque(jnp.linalg.inv, "b _ _ -> b _ _", name="inverse")
        >>> x = jax.ShapeDtypeStruct((8, 4, 4), "float32")
        >>> rows = partir.ManualPartition({"x": 0}, axis="B")
        >>> p = partir.partition(lambda x: inverse(x), {"B": 4}, [rows], args=(x,))
        >>> '"func.call"(%arg0) {callee = @inverse_0}' in p.stablehlo()
        True
    """
    if not callable(fn):
        raise PartitionError(f"opaque takes a function, got {fn!r}")
    written = parse(rule)
    shown = _identifier(name or function_name(fn))

    @functools.wraps(fn)
    def kept(*args: Any, **options: Any) -> Any:
        return _call(fn, written, shown, args, options)

    return kept


def _identifier(name: str) -> str:
    made = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return made if made[:1].isalpha() else f"fn_{made}"


def _call(
    fn: Callable[..., Any],
    rule: Written,
    name: str,
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    leaves, tree = jax.tree_util.tree_flatten(args)
    arrays = [_array(leaf, name) for leaf in leaves]
    flat = Flattened(fn, tree, _static(options, name))
    avals = tuple(map(_aval, arrays))
    shapes, out_tree = _result_shapes(flat, avals, name)
    whole = Whole(flat, _fit(rule, avals, shapes, name), name)
    made = _bind(_call_p, arrays, whole, map(_shaped, shapes))
    return jax.tree_util.tree_unflatten(out_tree, made)


def _array(leaf: Any, name: str) -> Any:
    if abstract(leaf) is None:
        raise PartitionError(
            f"partir.opaque({name}) takes arrays, got {leaf!r}: pass anything else by "
            "functools.partial, or by keyword"
        )
    return leaf if hasattr(leaf, "dtype") else jax.numpy.asarray(leaf)


def _static(options: dict[str, Any], name: str) -> tuple[tuple[str, Any], ...]:
    made = tuple(sorted(options.items()))
    arrays = [key for key, value in made if hasattr(value, "dtype")]
    try:
        hash(made)
    except TypeError:
        arrays = arrays or [key for key, _ in made]
    if arrays:
        raise PartitionError(
            f'partir.opaque({name}): keyword argument "{arrays[0]}" is an option of '
            "the function, which has to be hashable; pass arrays by position"
        )
    return made


def _aval(array: Any) -> jax.ShapeDtypeStruct:
    found = abstract(array)
    assert found is not None
    return found


def _result_shapes(
    flat: Flattened, avals: Sequence[jax.ShapeDtypeStruct], name: str
) -> tuple[list[jax.ShapeDtypeStruct], Any]:
    """Shapes that come out, and their tree."""
    closed, shapes = jax.make_jaxpr(flat.nested, return_shape=True)(*avals)
    if any(isinstance(const, jax_core.Tracer) for const in closed.consts):
        raise PartitionError(
            f"partir.opaque({name}) captures a value that is being traced; give the "
            "function an argument for it, and its rule an operand"
        )
    if closed.effects:
        raise PartitionError(
            f"partir.opaque({name}) has effects ({', '.join(map(str, closed.effects))})"
            ": prints and host callbacks can't be kept whole; take them out of it"
        )
    leaves, tree = jax.tree_util.tree_flatten(shapes)
    weak = [aval.weak_type for aval in closed.out_avals]
    return [
        jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=w)
        for leaf, w in zip(leaves, weak, strict=True)
    ], tree


def _fit(
    rule: Written,
    operands: Sequence[jax.ShapeDtypeStruct],
    results: Sequence[jax.ShapeDtypeStruct],
    name: str,
) -> Written:
    """The rule for these arrays, without dots."""
    types = tuple(map(_type, operands)), tuple(map(_type, results))
    try:
        made = fitted(rule, *types)
        require_sizes(made, *types)
    except PartitionError as error:
        raise PartitionError(f"partir.opaque({name}): {error}") from None
    return made


def _type(aval: jax.ShapeDtypeStruct) -> TensorType:
    return tensor(tuple(aval.shape), str(aval.dtype))


def _shaped(aval: jax.ShapeDtypeStruct) -> Any:
    return jax_core.ShapedArray(aval.shape, aval.dtype, weak_type=bool(aval.weak_type))


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
    kept = Kept.of(whole.fn, whole.rule, operands, module.platforms)
    types = [mlir.aval_to_ir_type(module, aval) for aval in ctx.avals_out]
    call = mlir.custom_call(OPAQUE, result_types=types, operands=list(values))
    attributes = call.operation.attributes
    attributes[KEPT] = ir.StringAttr.get(table.add(whole.name, kept))
    rule = _physical(whole.rule, ctx.avals_in, ctx.avals_out)
    attributes[RULE] = ir.StringAttr.get(str(rule))
    return call.results


def _physical(rule: Written, operands: Any, results: Any) -> Written:
    """PRNG keys have more dimensions when lowered, which stay whole."""

    def extended(dims: Any, aval: Any) -> Any:
        hidden = len(jax_core.physical_aval(aval).shape) - len(aval.shape)
        return (*dims, *(WHOLE,) * hidden)

    return Written(
        tuple(map(extended, rule.operands, operands)),
        tuple(map(extended, rule.results, results)),
        rule.reduced,
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
    return [jax_core.ShapedArray((size, *aval.shape), aval.dtype) for aval in avals]


# Derivatives


def _is_zero(tangent: Any) -> bool:
    return type(tangent) is ad.Zero or tangent.dtype == jax.dtypes.float0


def _jvp(primals: Any, tangents: Any, *, whole: Whole, results: Any) -> Any:
    made = _bind(_call_p, primals, whole, results)
    given = tuple(not _is_zero(t) for t in tangents)
    zeros = [ad.Zero(aval.to_tangent_aval()) for aval in results]
    if not any(given):
        return made, zeros
    moving = _float_mask(results)
    nonzero = [t for t, g in zip(tangents, given, strict=True) if g]
    left = iter(
        _tangent_p.bind(
            *primals, *nonzero, whole=whole, given=given, results=tuple(results)
        )
    )
    return made, [next(left) if m else z for m, z in zip(moving, zeros, strict=True)]


def _float_mask(results: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(r.to_tangent_aval().dtype != jax.dtypes.float0 for r in results)


def _float_avals(results: Sequence[Any]) -> list[Any]:
    pairs = zip(results, _float_mask(results), strict=True)
    return [result.to_tangent_aval() for result, moving in pairs if moving]


def _tangent_abstract(*_: Any, whole: Whole, given: Any, results: Any) -> list[Any]:
    return _float_avals(results)


def _tangent(*args: Any, whole: Whole, given: Any, results: Any) -> Any:
    """Forward mode, where nothing transposes it: the derivative, kept whole."""
    forward = whole.forward(given, _float_mask(results))
    return _bind(_call_p, args, forward, _float_avals(results))


def _tangent_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    filled = [ad.instantiate_zeros(t) for t in tangents]
    return jax.jvp(functools.partial(_tangent, **params), primals, filled)


def _transpose(cts: Any, *args: Any, whole: Whole, given: Any, results: Any) -> Any:
    operands, tangents = args[: len(given)], args[len(given) :]
    moving = iter(cts)
    pairs = [next(moving) if m else None for m in _float_mask(results)]
    known = tuple(ct is not None and type(ct) is not ad.Zero for ct in pairs)
    wanted = [t.aval for t in tangents]
    if not any(known):
        return [None] * len(given) + [ad.Zero(aval) for aval in wanted]
    cotangents = [ct for ct, k in zip(pairs, known, strict=True) if k]
    backward = whole.backward(given, known)
    made = _bind(_call_p, [*operands, *cotangents], backward, wanted)
    return [None] * len(given) + list(made)


def _tangent_batch(
    args: Any, axes: Any, *, whole: Whole, given: Any, results: Any
) -> Any:
    """A tangent is batched along the same dimension as its operand."""
    size = _batch_size(args, axes)
    args, axes = list(args), list(axes)
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
