"""Programs and partitions for tests: trace a function, decide by hand, run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from partir.execute.module import Module, call_module
from partir.execute.types import jax_struct
from partir.frontend.stablehlo import import_module
from partir.ir.core import Port, Program
from partir.mesh import Mesh
from partir.partition.graph import Graph
from partir.partition.propagate import propagate
from partir.partition.state import State
from partir.spmd.program import SpmdProgram
from partir.spmd.stablehlo.export import stablehlo_text

Tactic = tuple[str, Mapping[str, int]]
"""A mesh axis, and the dimension to tile of each argument or result named."""


def program_of(function: Callable[..., Any], *args: Any) -> Program:
    """The Program of a jax function; arguments are named by their tree paths."""
    traced = jax.jit(function, keep_unused=True).trace(*args)
    builder = import_module(traced.lower().compiler_ir())
    body = builder.body
    assert body is not None
    names = argument_names(function, args)
    builder.name = function.__name__
    return builder.finish(
        [
            Port(name, v, len(builder.types[v].shape))
            for name, v in zip(names, body.arguments, strict=True)
        ],
        [
            Port(f"result{i}", v, len(builder.types[v].shape))
            for i, v in enumerate(body.results)
        ],
    )


def argument_names(function: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """``x`` for an array, ``params/w1`` for a leaf of a tree."""
    parameters = list(inspect.signature(function).parameters)[: len(args)]
    named = dict(zip(parameters, args, strict=True))
    leaves = jax.tree_util.tree_leaves_with_path(named)
    by_name: dict[str, list[str]] = {name: [] for name in parameters}
    for path, _ in leaves:  # a dict's leaves come sorted: back to argument order
        text = jax.tree_util.keystr(path, simple=True, separator="/")
        by_name[path[0].key].append(text)
    return [name for names in by_name.values() for name in names]


def partition(
    program: Program,
    axes: Mapping[str, int],
    tactics: Sequence[Tactic] = (),
    gathered: Mapping[str, str] | None = None,
    whole: Mapping[str, str] | None = None,
) -> State:
    """A state in which each tactic tiles arguments or results, then propagates.

    Those in `gathered` are kept whole at their uses on the axis given, those in `whole`
    everywhere.
    """
    state = State(Graph(program), Mesh(axes))
    for name, axis in (whole or {}).items():
        state.pin(value_named(program, name), axis, uses_only=False)
    for name, axis in (gathered or {}).items():
        state.pin(value_named(program, name), axis, uses_only=True)
    for axis, dims in tactics:
        state.step += 1
        state.epoch += 1
        for name, dim in dims.items():
            done = state.set_home(value_named(program, name), dim, axis, None)
            assert done, f"{name} can't be tiled on {dim} over {axis}"
        propagate(state, axis)
    return state


def value_named(program: Program, name: str) -> int:
    """An argument's or a result's value."""
    ports = (*program.arguments, *program.results)
    (value,) = [port.value for port in ports if port.name == name]
    return value


def run_text(text: str, program: Program, args: Sequence[Any]) -> list[np.ndarray]:
    """Run a module with the program's arguments on one device; compiles quickly."""
    results = [jax_struct(program.types[port.value]) for port in program.results]
    function = functools.partial(call_module, Module(text), results)
    leaves = jax.tree.leaves(args)
    lowered = jax.jit(function, keep_unused=True).lower(*leaves)
    compiled = lowered.compile({"xla_backend_optimization_level": 0})
    return [np.asarray(made) for made in compiled(*leaves)]


def run_spmd(spmd: SpmdProgram, args: Sequence[Any]) -> list[jax.Array]:
    """Run an SPMD program on virtual devices, as many as its mesh has."""
    axes = spmd.mesh.axes
    devices = np.array(jax.devices()[: spmd.mesh.size]).reshape(tuple(axes.values()))
    results = [jax_struct(spmd.types[v]) for v in spmd.body.results]
    mapped = jax.shard_map(
        functools.partial(call_module, Module(stablehlo_text(spmd)), results),
        mesh=jax.sharding.Mesh(devices, spmd.mesh.names),
        in_specs=tuple(jax.P(*tiling) for tiling in spmd.in_tilings),
        out_specs=[jax.P(*tiling) for tiling in spmd.out_tilings],
        check_vma=False,
    )
    quick = {"xla_backend_optimization_level": 0}
    return jax.jit(mapped, compiler_options=quick)(*jax.tree.leaves(args))
