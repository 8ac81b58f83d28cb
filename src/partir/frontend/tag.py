"""`tag`: a name for an inner value, kept through grad, vmap, scan and remat.

A tag lowers to a reshape to the same shape that carries the name as an attribute, so
that a tagged model runs unchanged under plain jax.jit. The importer reads the name and
drops the op.
"""

from __future__ import annotations

import reprlib
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo as hlo
from jax.interpreters import ad, batching, mlir

from partir.errors import PartitionError

_tag_p = Primitive("partir_tag")


def tag(x: Any, name: str) -> Any:
    """Name an inner value, or each array of a pytree, so that tactics can reach it.

    Args:
        x: an array (or a pytree of arrays) inside the function to partition.
        name: the name; the value's cotangent is ``name/grad``. One tag in a function
            that is called for each layer names a value in each of them.

    Returns:
        `x`, unchanged.

    Example:
        >>> import jax.numpy as jnp
        >>> tag(jnp.ones(2), "hidden").tolist()
        [1.0, 1.0]
    """
    if not isinstance(name, str) or not name:
        raise PartitionError(
            f"a tag's name is a non-empty string, got {reprlib.repr(name)}"
        )
    leaves, tree = jax.tree_util.tree_flatten_with_path(x)
    tagged = []
    for path, leaf in leaves:
        keys = [jax.tree_util.keystr((key,), simple=True) for key in path]
        positions = tuple(range(jax.numpy.ndim(leaf)))
        tagged.append(
            _tag_p.bind(leaf, name="/".join([name, *keys]), positions=positions)
        )
    return jax.tree_util.tree_unflatten(tree, tagged)


def _identity(x: Any, *, name: str, positions: tuple[int, ...]) -> Any:
    return x


def _transpose(ct: Any, x: Any, *, name: str, positions: tuple[int, ...]) -> list[Any]:
    if type(ct) is ad.Zero:
        return [ct]
    suffix = "" if name.endswith("/grad") else "/grad"
    return [_tag_p.bind(ct, name=name + suffix, positions=positions)]


def _jvp(
    primals: Any, tangents: Any, *, name: str, positions: tuple[int, ...]
) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    out = _tag_p.bind(x, name=name, positions=positions)
    if type(dx) is ad.Zero:
        return out, dx
    # A linear copy of the tag, so that its transpose names the cotangent.
    return out, _tangent_p.bind(dx, name=name, positions=positions)


def _batch(args: Any, axes: Any, *, name: str, positions: tuple[int, ...]) -> Any:
    (x,), (axis,) = args, axes
    moved = tuple(d + (d >= axis) for d in positions)
    return _tag_p.bind(x, name=name, positions=moved), axis


def _lower(ctx: Any, x: Any, *, name: str, positions: tuple[int, ...]) -> Any:
    if jax.dtypes.issubdtype(ctx.avals_in[0].dtype, jax.dtypes.extended):
        return [x]
    made = hlo.ReshapeOp(x.type, x)
    made.operation.attributes["partir.tag"] = ir.StringAttr.get(name)
    text = ",".join(map(str, positions))
    made.operation.attributes["partir.tag_dims"] = ir.StringAttr.get(text)
    return made.results


def _lower_tangent(ctx: Any, x: Any, *, name: str, positions: tuple[int, ...]) -> Any:
    return [x]


_tangent_p = Primitive("partir_tag_tangent")


def _batch_tangent(
    args: Any, axes: Any, *, name: str, positions: tuple[int, ...]
) -> Any:
    (x,), (axis,) = args, axes
    moved = tuple(d + (d >= axis) for d in positions)
    return _tangent_p.bind(x, name=name, positions=moved), axis


def _register() -> None:
    for primitive in (_tag_p, _tangent_p):
        primitive.def_impl(_identity)
        primitive.def_abstract_eval(_identity)
    ad.primitive_jvps[_tag_p] = _jvp
    ad.deflinear2(_tangent_p, _transpose)
    batching.primitive_batchers[_tag_p] = _batch
    batching.primitive_batchers[_tangent_p] = _batch_tangent
    mlir.register_lowering(_tag_p, _lower)
    mlir.register_lowering(_tangent_p, _lower_tangent)


_register()
