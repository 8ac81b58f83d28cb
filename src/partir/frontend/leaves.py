"""Leaves of pytrees: what jax sees of them, and their names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from partir.errors import PartitionError
from partir.frontend.jax_private import ARRAYS

Path = tuple[Any, ...]
_SCALARS = (bool, int, float, complex)


def abstract(leaf: Any) -> jax.ShapeDtypeStruct | None:
    """Shape and dtype of a leaf as jax.jit would see it; None if it is no array."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        weak = bool(getattr(leaf, "weak_type", False))
        dtype = _canonical(leaf.dtype)
        return jax.ShapeDtypeStruct(leaf.shape, dtype, weak_type=weak)
    if isinstance(leaf, (*ARRAYS, *_SCALARS)):
        if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "OSUMm":
            return None
        aval = jax.typeof(leaf)
        weak = bool(getattr(aval, "weak_type", False))
        return jax.ShapeDtypeStruct(aval.shape, _canonical(aval.dtype), weak_type=weak)
    return None


def as_leaf(leaf: Any) -> Any:
    """The array of an object that says that it is one."""
    if hasattr(leaf, "__jax_array__") and not isinstance(leaf, jax.Array):
        return leaf.__jax_array__()
    return leaf


def _canonical(dtype: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def show_aval(aval: jax.ShapeDtypeStruct) -> str:
    """``float32[8,4]``."""
    weak = " (weakly typed)" if aval.weak_type else ""
    return f"{aval.dtype}[{','.join(map(str, aval.shape))}]{weak}"


def settings(tree: Any, leaves: Iterable[tuple[Path, Any]]) -> set[Path]:
    """Python numbers inside equinox modules: static, as `eqx.filter_jit` has them."""
    modules = _places(tree, [("equinox", "Module")])
    if not modules:
        return set()
    return {
        path
        for path, leaf in leaves
        if type(leaf) in _SCALARS
        and any(path[:depth] in modules for depth in range(len(path)))
    }


# Names


def boxes(tree: Any) -> set[Path]:
    """Where nnx variables and linen boxes stand: the key below them is no name."""
    flax = ("flax.nnx", "Variable"), ("flax.core.meta", "AxisMetadata")
    return _places(tree, flax)


def _places(tree: Any, names: Sequence[tuple[str, str]]) -> set[Path]:
    """Where objects of these types, by module and name, stand in a tree."""
    kinds = tuple(
        getattr(sys.modules[module], name)
        for module, name in names
        if hasattr(sys.modules.get(module), name)
    )
    if not kinds:
        return set()
    found, _ = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=lambda node: isinstance(node, kinds)
    )
    return {path for path, node in found if isinstance(node, kinds)}


def leaf_name(argument: str, path: Path, start: int, boxed: set[Path]) -> str:
    """``params/layer_0/w``: the argument's name and the keys from `start` on.

    The key that a box adds above its array, ``value``, is left out.
    """
    keys = [
        jax.tree_util.keystr((key,), simple=True)
        for depth, key in enumerate(path)
        if depth >= start and path[:depth] not in boxed
    ]
    return "/".join([argument, *keys])


def refuse_equal_names(names: Sequence[str], paths: Iterable[Path]) -> None:
    """Two leaves with one name could not be told apart."""
    seen: dict[str, Path] = {}
    for name, path in zip(names, paths, strict=True):
        if name in seen:
            raise PartitionError(
                f'two arguments have the name "{name}": '
                f"{jax.tree_util.keystr(seen[name])} and {jax.tree_util.keystr(path)}. "
                "Rename one of the keys"
            )
        seen[name] = path
