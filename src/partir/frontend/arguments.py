"""Calls as flat lists of named array leaves.

Arrays, scalars and shapes are traced; static arguments and leaves that are no arrays
(an equinox module's activations) are part of what identifies the call.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from partir.errors import PartitionError

_SCALARS = (bool, int, float, complex)


@dataclass(frozen=True, slots=True)
class Options:
    """Which arguments are static and which may be donated, as jax.jit takes them."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        static_argnums: int | Sequence[int] = (),
        static_argnames: str | Sequence[str] = (),
        donate_argnums: int | Sequence[int] = (),
        donate_argnames: str | Sequence[str] = (),
    ) -> Options:
        """Accept single ones and sequences."""
        return cls(
            _as_tuple(static_argnums, int),
            _as_tuple(static_argnames, str),
            _as_tuple(donate_argnums, int),
            _as_tuple(donate_argnames, str),
        )


def _as_tuple(given: Any, single: type) -> tuple[Any, ...]:
    return (given,) if isinstance(given, single) else tuple(given)


@dataclass(frozen=True, slots=True)
class Call:
    """One call, flattened. `key` identifies its signature."""

    names: tuple[str, ...]  # of the array leaves
    leaves: tuple[Any, ...]
    avals: tuple[jax.ShapeDtypeStruct, ...]
    donated: tuple[bool, ...]
    arguments: tuple[int, ...]  # number of the argument that each leaf belongs to
    argument_names: tuple[str, ...]
    tree: Any  # of (args, kwargs) without the static arguments
    fixed: tuple[tuple[int, Any], ...]  # leaves of the tree that are no arrays
    statics: tuple[tuple[int | str, Any], ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for calls that one partitioned program serves."""
        avals = tuple((a.shape, a.dtype, bool(a.weak_type)) for a in self.avals)
        fixed = tuple((i, _hashable(v)) for i, v in self.fixed)
        return self.tree, avals, fixed, self.statics

    def rebuild(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and keyword arguments with these leaves in place of the arrays."""
        merged = list(leaves)
        for position, value in self.fixed:
            merged.insert(position, value)
        args, kwargs = jax.tree_util.tree_unflatten(self.tree, merged)
        args = list(args)
        for where, value in self.statics:
            if isinstance(where, int):
                args.insert(where, value)
            else:
                kwargs[where] = value
        return tuple(args), kwargs


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def flatten_call(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Options,
) -> Call:
    """Name and sort the leaves of a call."""
    params = _Parameters(fn, options)
    statics: list[tuple[int | str, Any]] = []
    dynamic_args, positions = [], []
    for number, value in enumerate(args):
        if number in params.static_numbers:
            statics.append((number, _static(params.positional(number), value)))
        else:
            dynamic_args.append(value)
            positions.append(number)
    dynamic_kwargs = {}
    for name, value in kwargs.items():
        if name in params.static_names:
            statics.append((name, _static(name, value)))
        else:
            dynamic_kwargs[name] = value
    labels = [params.positional(n) for n in positions]
    return _flatten(params, labels, dynamic_args, dynamic_kwargs, positions, statics)


def _flatten(
    params: _Parameters,
    labels: list[str],
    args: list[Any],
    kwargs: dict[str, Any],
    positions: list[int],
    statics: list[tuple[int | str, Any]],
) -> Call:
    _refuse_mutable(labels, args, kwargs)
    paths, tree = jax.tree_util.tree_flatten_with_path((tuple(args), kwargs))
    names, leaves, avals, donated, owners, fixed = [], [], [], [], [], []
    argument_names = [*labels, *(params.keyword(name) for name in kwargs)]
    order = {name: len(labels) + i for i, name in enumerate(kwargs)}
    for position, (path, leaf) in enumerate(paths):
        is_keyword = path[0].idx == 1
        top = path[1].key if is_keyword else path[1].idx
        owner = order[top] if is_keyword else top
        aval = abstract(leaf)
        if aval is None:
            fixed.append((position, leaf))
            continue
        names.append(leaf_name(argument_names[owner], path[2:]))
        leaves.append(leaf)
        avals.append(aval)
        owners.append(owner)
        donated.append(
            top in params.donated_names
            if is_keyword
            else positions[top] in params.donated_numbers
        )
    _refuse_equal_names(names, [p for p, leaf in paths if abstract(leaf) is not None])
    return Call(
        tuple(names),
        tuple(leaves),
        tuple(avals),
        tuple(donated),
        tuple(owners),
        tuple(argument_names),
        tree,
        tuple(fixed),
        tuple(statics),
    )


def _static(name: str, value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        raise PartitionError(
            f'static argument "{name}" is a {type(value).__name__}, which has no hash: '
            "pass a hashable value (a tuple for a list, a frozen dataclass)"
        ) from None
    return value


def abstract(leaf: Any) -> jax.ShapeDtypeStruct | None:
    """Shape and dtype of a leaf as jax.jit would see it; None if it is no array."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        weak = bool(getattr(leaf, "weak_type", False))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=weak)
    if isinstance(leaf, (jax.Array, np.ndarray, np.generic, *_SCALARS)):
        if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "OSUMm":
            return None
        aval = jax.typeof(leaf)
        dtype = jax.dtypes.canonicalize_dtype(aval.dtype, allow_extended_dtype=True)
        weak = bool(getattr(aval, "weak_type", False))
        return jax.ShapeDtypeStruct(aval.shape, dtype, weak_type=weak)
    if hasattr(leaf, "__jax_array__"):
        return abstract(leaf.__jax_array__())
    return None


def leaf_name(argument: str, path: Sequence[Any]) -> str:
    """``params/layer_0/w``: the argument's name and the keys below it.

    A final ``value``, which nnx variables and linen boxes add, is dropped.
    """
    keys = [jax.tree_util.keystr((key,), simple=True) for key in path]
    if keys and keys[-1] == "value" and _is_box_key(path[-1]):
        keys.pop()
    return "/".join([argument, *keys])


def _is_box_key(key: Any) -> bool:
    return isinstance(key, jax.tree_util.GetAttrKey)


def _refuse_equal_names(names: list[str], paths: list[Any]) -> None:
    seen: dict[str, Any] = {}
    for name, path in zip(names, paths, strict=True):
        if name in seen:
            raise PartitionError(
                f'two arguments have the name "{name}": '
                f"{jax.tree_util.keystr(seen[name])} and {jax.tree_util.keystr(path)}. "
                "Rename one of the keys"
            )
        seen[name] = path


def _refuse_mutable(
    labels: list[str], args: list[Any], kwargs: Mapping[str, Any]
) -> None:
    """A flax nnx module changes in place; a functional jit would lose its updates."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None:
        return
    for name, value in [*zip(labels, args, strict=True), *kwargs.items()]:
        found = [
            leaf
            for leaf in jax.tree_util.tree_leaves(
                value, is_leaf=lambda x: isinstance(x, nnx.Module | nnx.Optimizer)
            )
            if isinstance(leaf, nnx.Module | nnx.Optimizer)
        ]
        if found or isinstance(value, nnx.Rngs):
            kind = type(found[0] if found else value).__name__
            raise PartitionError(
                f'argument "{name}" holds a flax nnx {kind}, which changes in place; '
                "partir.jit is functional and would lose the changes. Split it before "
                "and merge it inside:\n"
                f"    graphdef, state = nnx.split({name})\n"
                "    def step(state, batch):\n"
                f"        {name} = nnx.merge(graphdef, state)\n"
                "        ...\n"
                f"        return nnx.state({name}), loss\n"
                f"    state, loss = partir.jit(step, mesh, schedule)(state, batch)\n"
                f"    nnx.update({name}, state)"
            )


class _Parameters:
    """Names of a function's parameters, and which are static or donated."""

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        try:
            found = list(inspect.signature(fn).parameters.values())
        except (TypeError, ValueError):
            found = []
        kinds = inspect.Parameter
        self._named = [
            p.name
            for p in found
            if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        ]
        self._known = {p.name for p in found if p.kind != kinds.VAR_KEYWORD}
        self._rest = next(
            (p.name for p in found if p.kind == kinds.VAR_POSITIONAL), "args"
        )
        self._extra = next((p.name for p in found if p.kind == kinds.VAR_KEYWORD), "kw")
        self.static_numbers, self.static_names = self._both(
            options.static_argnums, options.static_argnames
        )
        self.donated_numbers, self.donated_names = self._both(
            options.donate_argnums, options.donate_argnames
        )

    def _both(
        self, numbers: Sequence[int], names: Sequence[str]
    ) -> tuple[set[int], set[str]]:
        """A parameter given by number is meant by name too, and the other way."""
        count = len(self._named)
        wrapped = {n + count if n < 0 else n for n in numbers}
        by_name = {self._named.index(n) for n in names if n in self._named}
        by_number = {self._named[n] for n in wrapped if n < count}
        return wrapped | by_name, set(names) | by_number

    def positional(self, number: int) -> str:
        """Name of a positional argument."""
        if number < len(self._named):
            return self._named[number]
        return f"{self._rest}/{number - len(self._named)}"

    def keyword(self, name: str) -> str:
        """Name of a keyword argument."""
        return (
            name if name in self._known or not self._known else f"{self._extra}/{name}"
        )
