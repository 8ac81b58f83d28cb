"""JAX function + example arguments -> `Traced`, a Program that knows its call.

Tracing is on shapes and dtypes only, inside an abstract mesh of our axes, all Auto.
Arrays captured by closure are hoisted to arguments named ``captured/0`` and on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax._src import core as jax_core
from jax.sharding import AbstractMesh, AxisType

from partir.errors import PartitionError
from partir.frontend.arguments import Call, abstract, leaf_name
from partir.frontend.stablehlo import import_module
from partir.ir.core import Port, Program, Tie
from partir.mesh import Mesh


@dataclass(frozen=True)
class Outputs:
    """A function's result: its tree, which leaves are arrays, their avals and names."""

    tree: Any
    fixed: tuple[tuple[int, Any], ...]
    avals: tuple[jax.ShapeDtypeStruct, ...]
    names: tuple[str, ...]

    def rebuild(self, leaves: Sequence[Any]) -> Any:
        """The result with these arrays in it."""
        merged = list(leaves)
        for position, value in self.fixed:
            merged.insert(position, value)
        return jax.tree_util.tree_unflatten(self.tree, merged)


@dataclass(frozen=True)
class Traced(Program):
    """A Program traced from a function, with the call's trees and captured arrays."""

    call: Call | None = None
    outputs: Outputs | None = None
    captured: tuple[Any, ...] = field(default=(), repr=False)


def trace_call(
    fn: Callable[..., Any],
    call: Call,
    mesh: Mesh | None = None,
    carry: Mapping[str, str] | None = None,
    platform: str | None = None,
) -> Traced:
    """Trace a function for one signature."""
    lowered, outputs, captured = _lower(fn, call, mesh, platform)
    builder = import_module(lowered.compiler_ir())
    builder.name = getattr(fn, "__name__", "main").replace("<lambda>", "lambda")
    assert builder.body is not None
    values = builder.body.arguments
    captured_names = tuple(f"captured/{i}" for i in range(len(captured)))
    avals = (*(abstract(c) for c in captured), *call.avals)
    arguments = [
        Port(name, value, len(aval.shape), str(aval.dtype))
        for name, value, aval in zip(
            captured_names + call.names, values, avals, strict=True
        )
        if aval is not None
    ]
    results = [
        Port(name, value, len(aval.shape), str(aval.dtype))
        for name, value, aval in zip(
            outputs.names, builder.body.results, outputs.avals, strict=True
        )
    ]
    ties = carry_ties(call, outputs, arguments, results, carry)
    program = builder.finish(arguments, results, ties)
    return Traced(
        **{name: getattr(program, name) for name in program.__dataclass_fields__},
        call=call,
        outputs=outputs,
        captured=captured,
    )


def _lower(
    fn: Callable[..., Any], call: Call, mesh: Mesh | None, platform: str | None
) -> tuple[Any, Outputs, tuple[Any, ...]]:
    found: list[Outputs] = []

    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = call.rebuild(leaves)
        arrays, outputs = _flatten_result(fn(*args, **kwargs))
        found.append(outputs)
        return arrays

    flat.__name__ = getattr(fn, "__name__", "main")
    with _abstract_mesh(mesh):
        traced = jax.jit(flat, keep_unused=True).trace(*call.avals)
        _refuse_ordered_effects(traced)
        closed = traced.jaxpr
        captured = tuple(c for c in closed.consts if jax.numpy.ndim(c) > 0)
        if captured:
            traced = _hoist(closed, call, flat.__name__)
        platforms = {} if platform is None else {"lowering_platforms": (platform,)}
        return traced.lower(**platforms), found[0], captured


def _abstract_mesh(mesh: Mesh | None) -> Any:
    if mesh is None:
        return jax.sharding.use_abstract_mesh(AbstractMesh((), ()))
    types = (AxisType.Auto,) * len(mesh.axes)
    sizes = tuple(mesh.axes.values())
    return jax.sharding.use_abstract_mesh(AbstractMesh(sizes, mesh.names, types))


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
        return list(jax_core.eval_jaxpr(closed.jaxpr, consts, *leaves))

    hoisted.__name__ = name
    return jax.jit(hoisted, keep_unused=True).trace(
        [abstract(c) for c in arrays], *call.avals
    )


def _refuse_ordered_effects(traced: Any) -> None:
    ordered = [e for e in traced.jaxpr.effects if "Ordered" in type(e).__name__]
    named = [
        e for e in traced.jaxpr.effects if "rdered" in str(e) and "un" not in str(e)
    ]
    if ordered or named:
        raise PartitionError(
            "the function has ordered host callbacks (jax.debug.print(ordered=True), "
            "io_callback(ordered=True)), which partir can't run yet: make them "
            "unordered or take them out of the step"
        )


def _flatten_result(result: Any) -> tuple[list[Any], Outputs]:
    paths, tree = jax.tree_util.tree_flatten_with_path(result)
    arrays, avals, names, fixed = [], [], [], []
    for position, (path, leaf) in enumerate(paths):
        aval = abstract(leaf)
        if aval is None:
            fixed.append((position, leaf))
            continue
        arrays.append(leaf)
        avals.append(aval)
        names.append(leaf_name("out", path))
    return arrays, Outputs(tree, tuple(fixed), tuple(avals), tuple(names))


# Carried state


def carry_ties(
    call: Call,
    outputs: Outputs,
    arguments: Sequence[Port],
    results: Sequence[Port],
    carry: Mapping[str, str] | None,
) -> list[Tie]:
    """Ties from results to the arguments that they succeed.

    As `carry` says, by names of subtrees; by default, a donated argument whose tree,
    shapes and dtypes equal one result's.
    """
    pairs = _default_carry(call, outputs) if carry is None else dict(carry)
    ties = []
    for result, argument in pairs.items():
        ties += _tie_subtrees(result, argument, arguments, results)
    return ties


def _tie_subtrees(
    result: str, argument: str, arguments: Sequence[Port], results: Sequence[Port]
) -> list[Tie]:
    sources = _below(result, results)
    targets = _below(argument, arguments)
    for name, found, kind in (
        (result, sources, "result"),
        (argument, targets, "argument"),
    ):
        if not found:
            raise PartitionError(
                f'carry={{"{result}": "{argument}"}}: there is no {kind} "{name}"'
            )
    if sources.keys() != targets.keys():
        odd = sorted(sources.keys() ^ targets.keys())[0]
        raise PartitionError(
            f'carry={{"{result}": "{argument}"}}: their trees differ, for example at '
            f'"{odd or "(the leaf itself)"}"'
        )
    return [
        Tie((source.value,), (targets[key].value,))
        for key, source in sources.items()
        if source.value != targets[key].value
    ]


def _below(name: str, ports: Sequence[Port]) -> dict[str, Port]:
    found = {}
    for port in ports:
        if port.name == name or port.name.startswith(name + "/"):
            found[port.name[len(name) :]] = port
    return found


def _default_carry(call: Call, outputs: Outputs) -> dict[str, str]:
    pairs: dict[str, str] = {}
    results = _subtrees(outputs)
    for number, argument in enumerate(call.argument_names):
        leaves = [i for i, owner in enumerate(call.arguments) if owner == number]
        if not leaves or not call.donated[leaves[0]]:
            continue
        shape = _shape_of(
            {call.names[i][len(argument) :]: call.avals[i] for i in leaves}
        )
        match = next(
            (r for r, s in results.items() if s == shape and r not in pairs), None
        )
        if match is not None:
            pairs[match] = argument
    return pairs


def _subtrees(outputs: Outputs) -> dict[str, Any]:
    """The whole result, and what stands directly below it."""
    groups: dict[str, dict[str, Any]] = {"out": {}}
    for name, aval in zip(outputs.names, outputs.avals, strict=True):
        groups["out"][name[len("out") :]] = aval
        parts = name.split("/")
        if len(parts) > 1:
            top = "/".join(parts[:2])
            groups.setdefault(top, {})[name[len(top) :]] = aval
    return {name: _shape_of(leaves) for name, leaves in groups.items()}


def _shape_of(leaves: Mapping[str, Any]) -> Any:
    return {key: (aval.shape, aval.dtype) for key, aval in leaves.items()}
