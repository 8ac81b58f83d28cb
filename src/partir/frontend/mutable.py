"""Objects that change in place, which a functional jit would leave unchanged."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import jax

from partir.errors import PartitionError


def refuse_mutable(arguments: Iterable[tuple[str, Any]]) -> None:
    """Refuse flax nnx modules, optimizers, metrics and generators among arguments."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None:
        return
    for name, value in arguments:
        found = _first(value, (nnx.Module, nnx.Optimizer, nnx.Rngs, nnx.Metric))
        if found is not None:
            kind = type(found).__name__
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


def _first(tree: Any, kinds: tuple[type, ...]) -> Any:
    leaves = jax.tree_util.tree_leaves(tree, is_leaf=lambda x: isinstance(x, kinds))
    return next((leaf for leaf in leaves if isinstance(leaf, kinds)), None)
