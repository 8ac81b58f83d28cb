"""The partitioned function as one `jax.jit` call with explicit shardings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from partir.execute.module import Module, call_module
from partir.frontend.arguments import Call
from partir.frontend.trace import Outputs


@dataclass(frozen=True)
class Plan:
    """All that running needs: the module, and how each leaf goes in and comes out.

    Avals are what users see; specs are of the same rank or shorter.
    """

    module: Module
    name: str
    in_avals: tuple[jax.ShapeDtypeStruct, ...]
    out_avals: tuple[jax.ShapeDtypeStruct, ...]
    in_specs: tuple[PartitionSpec, ...]
    out_specs: tuple[PartitionSpec, ...]
    out_local: tuple[jax.ShapeDtypeStruct, ...]  # physical, on one device


def mapped(plan: Plan, mesh: jax.sharding.Mesh) -> Callable[..., list[Any]]:
    """The function over flat global arrays, to be called inside jit."""

    def body(*leaves: Any) -> list[Any]:
        return call_module(plan.module, plan.out_local, *leaves)

    inner = jax.shard_map(
        body,
        mesh=mesh,
        in_specs=plan.in_specs,
        out_specs=list(plan.out_specs),
        check_vma=False,
    )

    def run(*leaves: Any) -> list[Any]:
        physical = [
            jax.random.key_data(leaf) if is_key(aval) else leaf
            for leaf, aval in zip(leaves, plan.in_avals, strict=True)
        ]
        results = inner(*physical)
        return [
            jax.random.wrap_key_data(result, impl=jax.random.key_impl(aval))
            if is_key(aval)
            else result
            for result, aval in zip(results, plan.out_avals, strict=True)
        ]

    return run


def is_key(aval: Any) -> bool:
    """Whether this is a typed PRNG key."""
    return bool(jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key))


class SignatureMiss(Exception):
    """Another signature than the one this program was partitioned for."""


def jit_call(
    plan: Plan,
    mesh: jax.sharding.Mesh,
    call: Call,
    outputs: Outputs,
    compiler_options: Mapping[str, Any] | None,
) -> Any:
    """A jitted function of (captured arrays, *args) in the user's own trees.

    For calls of arrays in positional arguments: a warm call is jax's fast path.
    """
    run = mapped(plan, mesh)
    statics = {n: v for n, v in call.statics if isinstance(n, int)}

    def whole(captured: list[Any], *args: Any) -> Any:
        dynamic = tuple(a for i, a in enumerate(args) if i not in statics)
        leaves, tree = jax.tree_util.tree_flatten((dynamic, {}))
        if tree != call.tree or any(args[n] != v for n, v in statics.items()):
            raise SignatureMiss
        if not all(map(_same, leaves, call.avals)):
            raise SignatureMiss
        return outputs.rebuild(run(*captured, *leaves))

    whole.__name__ = plan.name
    count = len(plan.in_specs) - len(call.avals)
    ins = [NamedSharding(mesh, spec) for spec in plan.in_specs]
    trees, _ = jax.tree_util.tree_unflatten(call.tree, ins[count:])
    outs = [NamedSharding(mesh, spec) for spec in plan.out_specs]
    donated = {n for n, d in zip(call.arguments, call.donated, strict=True) if d}
    positions = [i for i in range(len(trees) + len(statics)) if i not in statics]
    return jax.jit(
        whole,
        in_shardings=(ins[:count], *trees),
        out_shardings=outputs.rebuild(outs),
        static_argnums=tuple(n + 1 for n in statics),
        donate_argnums=tuple(positions[n] + 1 for n in donated),
        compiler_options=dict(compiler_options or {}) or None,
    )


def _same(leaf: Any, aval: jax.ShapeDtypeStruct) -> bool:
    weak = bool(getattr(leaf, "weak_type", False))
    return bool(
        leaf.shape == aval.shape
        and leaf.dtype == aval.dtype
        and weak == bool(aval.weak_type)
    )


def jit_flat(
    plan: Plan,
    mesh: jax.sharding.Mesh,
    donated: Sequence[bool],
    compiler_options: Mapping[str, Any] | None,
) -> Any:
    """A jitted function of a list of donated and a list of kept leaves."""
    run = mapped(plan, mesh)
    order = _interleave(donated)

    def flat(given: list[Any], kept: list[Any]) -> list[Any]:
        both = [*given, *kept]
        leaves = [both[i] for i in order]
        if not all(map(_same, leaves, plan.in_avals)):
            raise SignatureMiss
        return run(*leaves)

    flat.__name__ = plan.name
    ins = [NamedSharding(mesh, spec) for spec in plan.in_specs]
    return jax.jit(
        flat,
        in_shardings=(
            [s for s, d in zip(ins, donated, strict=True) if d],
            [s for s, d in zip(ins, donated, strict=True) if not d],
        ),
        out_shardings=[NamedSharding(mesh, spec) for spec in plan.out_specs],
        donate_argnums=(0,),
        compiler_options=dict(compiler_options or {}) or None,
    )


def _interleave(donated: Sequence[bool]) -> list[int]:
    """Where each leaf stands in the donated ones followed by the others."""
    order = np.argsort(np.argsort([not d for d in donated], kind="stable"))
    return [int(i) for i in order]
