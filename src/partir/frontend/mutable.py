"""Objects that change in place, which a functional jit would leave unchanged."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax

from partir.errors import PartitionError
from partir.frontend.leaves import leaf_name


class _Mutable(NamedTuple):
    argument: str
    name: str
    kind: str


def refuse_mutable(arguments: Iterable[tuple[str, Any]]) -> None:
    """Refuse flax nnx modules, optimizers, metrics and generators among arguments."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None:
        return
    kinds = (nnx.Module, nnx.Optimizer, nnx.Rngs, nnx.Metric)
    held = [one for name, value in arguments for one in _mutable(name, value, kinds)]
    if held:
        raise PartitionError(_split_and_merge(held))


def _mutable(argument: str, tree: Any, kinds: tuple[type, ...]) -> Iterator[_Mutable]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=lambda x: isinstance(x, kinds)
    )
    for path, leaf in leaves:
        if isinstance(leaf, kinds):
            name = leaf_name(argument, path, 0, set())
            yield _Mutable(argument, name, type(leaf).__name__)


def _split_and_merge(held: list[_Mutable]) -> str:
    names = list(dict.fromkeys(one.argument for one in held))
    written = [_as_python(name) for name in names]
    target = ", ".join(written)
    given = f"({target})" if len(names) > 1 else target
    return (
        f"{_subject(held)} in place; partir.jit is functional and would lose the "
        f"changes. Split {'them' if len(held) > 1 else 'it'} before and merge inside:\n"
        f"    graphdef, state = nnx.split({given})\n"
        "    def step(state, batch):\n"
        f"        {target} = nnx.merge(graphdef, state)\n"
        "        ...\n"
        f"        return nnx.state({given}), loss\n"
        "    state, loss = partir.jit(step, mesh, schedule)(state, batch)\n"
        f"    nnx.update({given}, state)"
    )


def _subject(held: list[_Mutable]) -> str:
    first, *others = held
    if not others:
        at = f" at {first.name}" if first.name != first.argument else ""
        kind = f"a flax nnx {first.kind}{at}"
        return f'argument "{first.argument}" holds {kind}, which changes'
    listed = ", ".join(f"{one.name}: {one.kind}" for one in held[:4])
    more = ", …" if len(held) > 4 else ""
    return f"arguments hold flax nnx objects ({listed}{more}), which change"


def _as_python(name: str) -> str:
    """``args/0`` as a variable's name."""
    return name.replace("/", "_")
