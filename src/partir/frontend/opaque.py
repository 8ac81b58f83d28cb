"""`opaque`: a JAX function that stays whole, with a rule for how it may be tiled.

The function is traced once for the shapes of what comes out, and its rule is checked
against these. What then happens is up to the primitive.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from partir.errors import PartitionError
from partir.frontend.leaves import abstract
from partir.frontend.opaque_primitive import bind_call
from partir.frontend.opaque_transforms import Flattened, Whole
from partir.frontend.signature import function_name
from partir.ir.types import TensorType, tensor
from partir.ir.user_rule import UserRule, parse
from partir.ir.user_rule_shapes import fitted, require_operands, require_sizes


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
    rule: UserRule,
    name: str,
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    leaves, tree = jax.tree_util.tree_flatten(args)
    arrays = [_array(leaf, name) for leaf in leaves]
    flat = Flattened(fn, tree, _static(options, name))
    avals = tuple(map(_aval, arrays))
    _fit(rule, avals, None, name)
    shapes, out_tree = _result_shapes(flat, avals, name)
    whole = Whole(flat, _fit(rule, avals, shapes, name), name)
    made = bind_call(arrays, whole, shapes)
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
    if any(isinstance(const, jax.core.Tracer) for const in closed.consts):
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
    rule: UserRule,
    operands: Sequence[jax.ShapeDtypeStruct],
    results: Sequence[jax.ShapeDtypeStruct] | None,
    name: str,
) -> UserRule:
    """The rule for these arrays, without dots; operands alone are checked first."""
    ins = tuple(map(_type, operands))
    try:
        require_operands(rule, ins)
        if results is None:
            return rule
        outs = tuple(map(_type, results))
        made = fitted(rule, ins, outs)
        require_sizes(made, ins, outs)
    except PartitionError as error:
        raise PartitionError(f"partir.opaque({name}): {error}") from None
    return made


def _type(aval: jax.ShapeDtypeStruct) -> TensorType:
    return tensor(tuple(aval.shape), str(aval.dtype))
