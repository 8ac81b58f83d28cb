"""The partitioned function as one `jax.jit` call with explicit shardings."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from partir.execute.jax_private import weaken
from partir.execute.module import Module, call_module, wrap_key
from partir.execute.options import CompilerOptions
from partir.execute.padded_arrays import Uneven
from partir.execute.placing import is_explicit


@dataclass(frozen=True)
class CallPlan:
    """All that running needs: the module, and how each leaf goes in and comes out.

    Avals are of the arrays on the devices; specs are of the same rank or shorter. Where
    a tactic asked for padding, `in_uneven` says how users see an argument.
    """

    module: Module
    name: str
    in_names: tuple[str, ...]
    in_avals: tuple[jax.ShapeDtypeStruct, ...]
    out_avals: tuple[jax.ShapeDtypeStruct, ...]
    in_specs: tuple[PartitionSpec, ...]
    out_specs: tuple[PartitionSpec, ...]
    out_local: tuple[jax.ShapeDtypeStruct, ...]  # physical, on one device
    in_uneven: tuple[Uneven | None, ...] = ()


class SignatureMiss(Exception):
    """Other arrays than those that this program was partitioned for."""


def jit_flat(
    plan: CallPlan,
    mesh: jax.sharding.Mesh,
    donated: Sequence[bool],
    compiler_options: CompilerOptions | None,
    nested: bool = False,
) -> Any:
    """A jitted function of flat arrays.

    It is traced anew when shapes, dtypes or weak types change, which is a
    `SignatureMiss`. So are arrays that don't lie on the mesh: for them everything would
    be compiled once more. `nested`, inside another jit, has to take what comes.
    """
    run, abstract = _mapped(plan, mesh), mesh.abstract_mesh
    ins = tuple(NamedSharding(mesh, spec) for spec in plan.in_specs)

    def flat(*leaves: Any) -> list[Any]:
        if not all(map(_same, leaves, plan.in_avals)):
            raise SignatureMiss
        if not nested and any(_mesh_of(leaf) != abstract for leaf in leaves):
            raise SignatureMiss
        if nested and is_explicit(mesh):
            leaves = tuple(map(jax.reshard, leaves, ins))
        return run(*leaves)

    flat.__name__ = plan.name
    flat.__signature__ = _signature(plan.in_names)  # type: ignore[attr-defined]
    return jax.jit(
        flat,
        in_shardings=ins,
        out_shardings=[NamedSharding(mesh, spec) for spec in plan.out_specs],
        donate_argnums=tuple(i for i, given in enumerate(donated) if given),
        compiler_options=None if nested else dict(compiler_options or {}) or None,
    )


def _signature(names: Sequence[str]) -> inspect.Signature:
    """Parameters called like the arguments, for those who read dumps of XLA."""
    kind = inspect.Parameter.POSITIONAL_ONLY
    plain = {f"_{i}": re.sub(r"\W", "_", name) for i, name in enumerate(names)}
    counts = Counter(plain.values())
    return inspect.Signature(
        [
            inspect.Parameter(name if counts[name] == 1 else name + number, kind)
            for number, name in plain.items()
        ]
    )


def _mapped(plan: CallPlan, mesh: jax.sharding.Mesh) -> Callable[..., list[Any]]:
    """The function over flat global arrays, to be called inside jit.

    Arrays without elements are made on the devices: XLA folds away what it is handed
    of them, and stumbles if nothing else is handed over.
    """
    empty = dict(_empty_tiles(plan, mesh))
    given = [place for place in range(len(plan.in_avals)) if place not in empty]

    def body(*leaves: Any) -> list[Any]:
        tiles = dict(zip(given, leaves, strict=True))
        tiles.update({place: jnp.zeros(*made) for place, made in empty.items()})
        operands = [tiles[place] for place in range(len(tiles))]
        return call_module(plan.module, plan.out_local, *operands)

    inner = jax.shard_map(
        body,
        mesh=mesh,
        in_specs=tuple(plan.in_specs[place] for place in given),
        out_specs=list(plan.out_specs),
        check_vma=False,
    )

    def run(*leaves: Any) -> list[Any]:
        results = inner(*(_physical(leaves[place]) for place in given))
        return [_visible(r, a) for r, a in zip(results, plan.out_avals, strict=True)]

    return run


def _empty_tiles(
    plan: CallPlan, mesh: jax.sharding.Mesh
) -> Iterator[tuple[int, tuple[tuple[int, ...], Any]]]:
    """Arguments without elements: what a device has of them, shape and dtype."""
    for place, (aval, spec) in enumerate(
        zip(plan.in_avals, plan.in_specs, strict=True)
    ):
        if 0 in aval.shape and not _is_key(aval):
            shape = NamedSharding(mesh, spec).shard_shape(aval.shape)
            yield place, (shape, aval.dtype)


def _physical(leaf: Any) -> Any:
    """A PRNG key as the numbers that it is made of."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _visible(result: Any, aval: jax.ShapeDtypeStruct) -> Any:
    """A result as users see it."""
    if _is_key(aval):
        return wrap_key(result, aval.dtype)
    return weaken(result) if aval.weak_type else result


def _is_key(aval: Any) -> bool:
    return bool(jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key))


def _same(leaf: Any, aval: jax.ShapeDtypeStruct) -> bool:
    weak = bool(getattr(leaf, "weak_type", False))
    return bool(
        leaf.shape == aval.shape
        and leaf.dtype == aval.dtype
        and weak == bool(aval.weak_type)
    )


def _mesh_of(leaf: Any) -> Any:
    return jax.typeof(leaf).sharding.mesh
