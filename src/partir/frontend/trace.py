"""JAX function + example arguments -> `Traced`, a Program that knows its call.

Tracing is on shapes and dtypes only, inside an abstract mesh of our axes, all Auto.
Arrays captured by closure are hoisted to arguments named ``captured/0`` and on.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
from jax.extend import source_info_util
from jax.sharding import AbstractMesh, AxisType

from partir.errors import PartitionError
from partir.frontend.arguments import Call, Fixed, merge_fixed
from partir.frontend.carry import carry_ties
from partir.frontend.jax_private import (
    StackScope,
    full_stacks,
    host_callbacks,
    trace_context,
)
from partir.frontend.leaves import abstract, as_leaf, boxes, leaf_name, settings
from partir.frontend.locations import borrowed_functions
from partir.frontend.opaque_calls import OpaqueFunction, opaque_calls
from partir.frontend.signature import function_name, named_signature, wrong_call
from partir.frontend.stablehlo import import_module
from partir.frontend.stack_boundary import call_user
from partir.ir.core import Port, Program
from partir.mesh import Mesh

# Ops are at the user's line, not at ours.
for _folder in ("api", "frontend"):
    source_info_util.register_exclusion(
        str(Path(__file__).parents[1] / _folder) + os.sep
    )


@dataclass(frozen=True)
class Outputs:
    """A function's result: its tree, which leaves are arrays, their avals and names."""

    tree: Any
    fixed: Fixed
    avals: tuple[jax.ShapeDtypeStruct, ...]
    names: tuple[str, ...]

    def rebuild(self, leaves: Sequence[Any]) -> Any:
        """The result with these arrays in it."""
        return jax.tree_util.tree_unflatten(self.tree, merge_fixed(leaves, self.fixed))


@dataclass(frozen=True)
class Traced(Program):
    """A Program traced from a function, with the call's trees and captured arrays."""

    call: Call | None = None
    outputs: Outputs | None = None
    captured: tuple[Any, ...] = field(default=(), repr=False)
    opaque: Mapping[str, OpaqueFunction] = field(default_factory=dict, repr=False)
    callbacks: tuple[Any, ...] = field(default=(), repr=False)


def trace_call(
    fn: Callable[..., Any],
    call: Call,
    mesh: Mesh | None = None,
    carry: Mapping[str, str] | None = None,
    platform: str | None = None,
) -> Traced:
    """Trace a function for one signature."""
    lowered, borrowed, outputs, captured, opaque = _lower(fn, call, mesh, platform)
    builder = import_module(lowered.compiler_ir(), borrowed)
    builder.name = function_name(fn)
    assert builder.body is not None
    captured_avals = [_require(abstract(c)) for c in captured]
    names = [*_captured_names(len(captured), call), *call.names]
    arguments = _ports(names, builder.body.arguments, [*captured_avals, *call.avals])
    results = _ports(outputs.names, builder.body.results, outputs.avals)
    ties = carry_ties(call, arguments, results, outputs.avals, carry)
    program = builder.finish(arguments, results, ties)
    return Traced(
        **{name: getattr(program, name) for name in program.__dataclass_fields__},
        call=call,
        outputs=outputs,
        captured=captured,
        opaque=opaque,
        callbacks=host_callbacks(lowered),
    )


def _captured_names(count: int, call: Call) -> list[str]:
    names = [f"captured/{i}" for i in range(count)]
    for name in names:
        if name in call.names:
            raise PartitionError(
                f'an argument is named "{name}", as is an array that the function '
                'captures: rename the parameter "captured"'
            )
    return names


def _require(aval: jax.ShapeDtypeStruct | None) -> jax.ShapeDtypeStruct:
    assert aval is not None
    return aval


def _ports(
    names: Sequence[str],
    values: Sequence[int],
    avals: Sequence[jax.ShapeDtypeStruct],
) -> list[Port]:
    return [
        Port(name, value, len(aval.shape), str(aval.dtype))
        for name, value, aval in zip(names, values, avals, strict=True)
    ]


def _lower(
    fn: Callable[..., Any], call: Call, mesh: Mesh | None, platform: str | None
) -> tuple[Any, frozenset[str], Outputs, tuple[Any, ...], Mapping[str, OpaqueFunction]]:
    found: list[Outputs] = []

    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = call.rebuild(leaves)
        arrays, outputs = _flatten_result(call_user(fn, args, kwargs))
        found.append(outputs)
        return arrays

    # In jax's messages the function and its arguments have the names that users know.
    flat.__name__ = function_name(fn)
    flat.__signature__ = named_signature(call.names)  # type: ignore[attr-defined]
    flat.__wrapped__ = fn  # type: ignore[attr-defined]
    try:
        traced, context = _trace(flat, call, mesh)
    except TypeError as error:
        args, kwargs = call.rebuild(call.avals)
        wrong = wrong_call(fn, args, kwargs)
        if wrong is None:
            raise
        raise wrong from error
    with jax.sharding.use_abstract_mesh(context):
        closed = traced.jaxpr
        if len(closed.in_avals) != len(call.avals):  # jax has made arguments of them
            raise PartitionError(
                f"{flat.__name__} captures a value of a function that jax is tracing "
                "around it: pass it as an argument instead"
            )
        captured = tuple(c for c in closed.consts if jax.numpy.ndim(c) > 0)
        if captured:
            traced = _hoist(closed, call, flat.__name__)
        platforms: dict[str, Any] = {}
        if platform is not None:
            platforms = {"lowering_platforms": (platform,)}
        # The scope: who partitions the function is no part of its stacks.
        with opaque_calls() as table, full_stacks(), StackScope():
            lowered = traced.lower(**platforms)
        borrowed = borrowed_functions(traced.jaxpr.jaxpr)
        return lowered, borrowed, found[0], captured, table.functions


def _trace(
    flat: Callable[..., Any], call: Call, mesh: Mesh | None
) -> tuple[Any, AbstractMesh]:
    """The trace, and the mesh that jax saw: that of real devices if it must be."""
    context = _abstract_mesh(mesh)
    for last in (False, True):
        try:
            with jax.sharding.use_abstract_mesh(context):
                return jax.jit(flat, keep_unused=True).trace(*call.avals), context
        except ValueError as error:
            if not last and mesh is not None and _OTHER_MESH in str(error):
                context = _mesh_of_devices(mesh)
                continue
            reason = _explain(flat.__name__, str(error))
            if reason is None:
                raise
            raise PartitionError(reason) from error
    raise AssertionError


# What jax says if a shard_map has a mesh of its own.
_OTHER_MESH = "should match the mesh passed to shard_map"


def _explain(name: str, error: str) -> str | None:
    """What jax's errors about meshes mean here."""
    if _OTHER_MESH in error:
        return (
            f"{name} holds a shard_map over a mesh of its own. "
            f"{error.splitlines()[0]}. "
            "Leave its mesh= out, so that it takes the one that is partitioned over; "
            "or give it one with the same axes in the same order, all of type "
            "jax.sharding.AxisType.Auto"
        )
    if "not found in mesh" in error:
        return (
            f"{name} annotates values with axes that the mesh does not have. "
            f"{error.splitlines()[0]} Name the mesh's axes as the model does, or take "
            "the annotations out: tactics decide, not they"
        )
    if "should match the aval mesh" in error:
        return (
            f"{name} captures an array that lies on a mesh with Explicit axes: pass it "
            "as an argument instead"
        )
    return None


def auto_mesh(mesh: Mesh | None) -> Any:
    """A context in which jax sees our axes, all Auto, whatever mesh the user set."""
    return jax.sharding.use_abstract_mesh(_abstract_mesh(mesh))


@functools.lru_cache(maxsize=1 << 10)
def _abstract_mesh(mesh: Mesh | None) -> AbstractMesh:
    if mesh is None:
        return AbstractMesh((), ())
    types = (AxisType.Auto,) * len(mesh.axes)
    return AbstractMesh(tuple(mesh.axes.values()), mesh.names, types)


def _mesh_of_devices(mesh: Mesh) -> AbstractMesh:
    """The same as a mesh of this machine's devices shows itself."""
    ours = _abstract_mesh(mesh)
    devices, types = jax.devices()[:1], (AxisType.Auto,)
    single = jax.make_mesh((1,), ("one",), axis_types=types, devices=devices)
    return AbstractMesh(
        ours.axis_sizes,
        ours.axis_names,
        ours.axis_types,
        abstract_device=single.abstract_mesh.abstract_device,
    )


def trace_settings(mesh: Mesh) -> Any:
    """What else a trace depends on: x64, matmul precision, the PRNG, … Hashable."""
    with auto_mesh(mesh):
        return trace_context()


def _hoist(closed: Any, call: Call, name: str) -> Any:
    """Trace again with captured arrays as the first arguments."""
    is_array = [jax.numpy.ndim(c) > 0 for c in closed.consts]
    arrays = [c for c, hoisted in zip(closed.consts, is_array, strict=True) if hoisted]

    def hoisted(captured: list[Any], *leaves: Any) -> list[Any]:
        given = iter(captured)
        consts = [
            next(given) if is_array[i] else const
            for i, const in enumerate(closed.consts)
        ]
        return list(jax.core.eval_jaxpr(closed.jaxpr, consts, *leaves))

    hoisted.__name__ = name
    return jax.jit(hoisted, keep_unused=True).trace(
        [abstract(c) for c in arrays], *call.avals
    )


def _flatten_result(result: Any) -> tuple[list[Any], Outputs]:
    paths, tree = jax.tree_util.tree_flatten_with_path(result)
    boxed, static = boxes(result), settings(result, paths)
    arrays, avals, names, fixed = [], [], [], []
    for position, (path, leaf) in enumerate(paths):
        leaf = as_leaf(leaf)
        aval = None if path in static else abstract(leaf)
        if aval is None:
            fixed.append((position, leaf))
            continue
        arrays.append(leaf)
        avals.append(aval)
        names.append(leaf_name("out", path, 0, boxed))
    return arrays, Outputs(tree, tuple(fixed), tuple(avals), tuple(names))
