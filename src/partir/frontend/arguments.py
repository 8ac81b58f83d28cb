"""Calls as flat lists of named array leaves.

Arrays, scalars and shapes are traced; static arguments and leaves that are no arrays
(an equinox module's activations and numbers) are part of what identifies the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from partir.errors import PartitionError
from partir.frontend.leaves import (
    abstract,
    as_leaf,
    boxes,
    leaf_name,
    refuse_equal_names,
    settings,
)
from partir.frontend.mutable import refuse_mutable
from partir.frontend.parameters import Parameters, Static

Fixed = tuple[tuple[int, Any], ...]
"""Leaves that are no arrays: position among all leaves, and value."""


@dataclass(frozen=True, slots=True)
class Call:
    """What one call is made of, without its arrays. `key` identifies its signature."""

    names: tuple[str, ...]  # of the array leaves
    avals: tuple[jax.ShapeDtypeStruct, ...]
    donated: tuple[bool, ...]
    arguments: tuple[int, ...]  # number of the argument that each leaf belongs to
    argument_names: tuple[str, ...]
    tree: Any  # of (args, kwargs) without the static arguments
    fixed: Fixed
    statics: tuple[Static, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for calls that one partitioned program serves."""
        avals = tuple((a.shape, a.dtype, bool(a.weak_type)) for a in self.avals)
        fixed = tuple((i, type(v), v) for i, v in self.fixed)
        return self.tree, avals, fixed, self.statics

    def rebuild(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and keyword arguments with these leaves in place of the arrays."""
        args, kwargs = jax.tree_util.tree_unflatten(
            self.tree, merge_fixed(leaves, self.fixed)
        )
        args = list(args)
        for where, _, value in self.statics:
            if isinstance(where, int):
                args.insert(where, value)
            else:
                kwargs[where] = value
        return tuple(args), kwargs


def merge_fixed(leaves: Sequence[Any], fixed: Fixed) -> list[Any]:
    """All leaves in order, from the arrays and the others."""
    merged = list(leaves)
    for position, value in fixed:
        merged.insert(position, value)
    return merged


def _require_hashable(name: str, value: Any) -> None:
    """A leaf that is no array is part of the signature, so it must not change."""
    try:
        hash(value)
    except TypeError:
        raise PartitionError(
            f'argument "{name}" is a {type(value).__name__}, neither an array nor '
            "hashable: it may change, and programs that were traced with it would not. "
            "Pass arrays in its place, register its class as a pytree, or make it "
            "hashable (a frozen dataclass, a tuple, a frozenset)"
        ) from None


def same_fixed(left: Any, right: Any) -> bool:
    """Whether two leaves that are no arrays count as one, as in `Call.key`."""
    if left is right:
        return True
    return type(left) is type(right) and bool(left == right)


def flatten_call(
    parameters: Parameters, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Call, list[Any]]:
    """Name and sort the leaves of a call; the second part are its arrays."""
    dynamic, named, statics = parameters.take_statics(args, kwargs)
    parameters.check_statics(statics)
    positions = [i for i in range(len(args)) if i not in parameters.static_numbers]
    labels = [parameters.positional(n) for n in positions]
    labels += [parameters.keyword(name) for name in named]
    refuse_mutable(zip(labels, [*dynamic, *named.values()], strict=True))
    given = [n in parameters.donated_numbers for n in positions]
    given += [name in parameters.donated_names for name in named]
    owners: dict[tuple[int, Any], int] = {(0, i): i for i in range(len(dynamic))}
    owners |= {(1, name): len(dynamic) + i for i, name in enumerate(named)}

    paths, tree = jax.tree_util.tree_flatten_with_path((dynamic, named))
    paths = [(path, as_leaf(leaf)) for path, leaf in paths]
    static = settings((dynamic, named), paths)
    avals = [None if path in static else abstract(leaf) for path, leaf in paths]
    boxed = boxes((dynamic, named))
    found = [
        (owners[_top(path)], path, aval, leaf)
        for (path, leaf), aval in zip(paths, avals, strict=True)
        if aval is not None
    ]
    names = [leaf_name(labels[owner], path, 2, boxed) for owner, path, _, _ in found]
    refuse_equal_names(names, [path for _, path, _, _ in found])
    fixed = [(i, paths[i][1]) for i, aval in enumerate(avals) if aval is None]
    for i, value in fixed:
        path = paths[i][0]
        _require_hashable(leaf_name(labels[owners[_top(path)]], path, 2, boxed), value)
    call = Call(
        names=tuple(names),
        avals=tuple(aval for _, _, aval, _ in found),
        donated=tuple(given[owner] for owner, _, _, _ in found),
        arguments=tuple(owner for owner, _, _, _ in found),
        argument_names=tuple(labels),
        tree=tree,
        fixed=tuple(fixed),
        statics=statics,
    )
    return call, [leaf for _, _, _, leaf in found]


def _top(path: Any) -> tuple[int, Any]:
    """Positional (0) or keyword (1) argument, and which."""
    side = path[0].idx
    return side, path[1].key if side else path[1].idx


def quick_flatten(
    parameters: Parameters, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Static, ...], list[Any]]:
    """Tree, static arguments and all leaves of a call, unchecked and unnamed."""
    args, kwargs, statics = parameters.take_statics(args, kwargs)
    leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
    return tree, statics, leaves
