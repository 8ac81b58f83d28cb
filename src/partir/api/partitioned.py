"""`Partitioned`: a program, its partition after each tactic, and ways to use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from partir.api.pipeline import Step, spec_axes
from partir.api.replicated import ReplicatedOp, find_replicated
from partir.errors import PartitionError
from partir.execute.compiled import Compiled
from partir.execute.module import Module
from partir.execute.placing import device_mesh, shard_leaf
from partir.execute.runner import Plan
from partir.execute.types import jax_struct
from partir.frontend.arguments import Options, flatten_call
from partir.frontend.bytecode import to_bytecode
from partir.frontend.trace import Traced
from partir.ir.core import Port, Program
from partir.mesh import Mesh
from partir.partition.actions import Partition
from partir.partition.core_text import core_text
from partir.report.table import steps_table
from partir.spmd.export import stablehlo_text
from partir.spmd.printer import spmd_text
from partir.spmd.program import SpmdProgram
from partir.tactics.recorded import recorded_schedule, save_schedule
from partir.tactics.schedule import Schedule


class Partitioned:
    """The record of a partition. Printing it shows the per-tactic table.

    Example:
        >>> import jax, partir
        >>> x = jax.ShapeDtypeStruct((8, 4), "float32")
        >>> rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
        >>> p = partir.partition(lambda x: x + 1, {"B": 4}, [rows], args=(x,))
        >>> p.in_specs
        (P('B',),)
    """

    def __init__(
        self,
        partition: Partition,
        steps: list[Step],
        *,
        fn: Callable[..., Any] | None = None,
        options: Options | None = None,
        devices: Any = None,
        compiler_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Made by `partir.partition` and `partir.jit`."""
        self.program: Program = partition.program
        self.mesh: Mesh = partition.mesh
        self.steps: tuple[Step, ...] = tuple(steps)
        self._partition = partition
        self._fn, self._options = fn, options or Options()
        self._devices, self._compiler_options = devices, compiler_options

    # What it is

    def __str__(self) -> str:
        """The per-tactic table."""
        return steps_table(self.program.name, self.mesh, self.steps)

    __repr__ = __str__

    @property
    def spmd(self) -> SpmdProgram:
        """The SPMD program after the last tactic."""
        return self.steps[-1].spmd

    @property
    def collectives(self) -> dict[str, int]:
        """Executed counts on one device, loops multiplied, every kind present."""
        return self.steps[-1].collectives

    @property
    def bytes_communicated(self) -> int:
        """Bytes that one device sends in one call."""
        return self.steps[-1].bytes_communicated

    @property
    def unknown_trip_counts(self) -> tuple[str, ...]:
        """Loops whose length is not known; their collectives count once."""
        ops = self.program.ops
        return tuple(str(ops[n].location) for n in self.spmd.unknown_trip_counts)

    @cached_property
    def replicated_ops(self) -> tuple[ReplicatedOp, ...]:
        """Ops computed whole on an axis that their operands are tiled over."""
        return tuple(find_replicated(self.steps[-1].state))

    @property
    def estimate(self) -> Any:
        """Time and memory: not there yet."""
        return self.steps[-1].estimate

    # As text

    def core_text(self) -> str:
        """PartIR:Core: each op in its loops, reading slices."""
        return core_text(self.steps[-1].state)

    def spmd_text(self) -> str:
        """The SPMD program: local types and collectives by mesh axes."""
        return spmd_text(self.spmd)

    def stablehlo(self) -> str:
        """Device-local StableHLO as text."""
        return self._module.text

    def stablehlo_bytecode(self) -> bytes:
        """Device-local StableHLO as MLIR bytecode, checked by MLIR's verifier."""
        return to_bytecode(self._module.text)

    @cached_property
    def _module(self) -> Module:
        return Module(stablehlo_text(self.spmd))

    # As a schedule

    def schedule(self) -> Schedule:
        """The whole partition as manual tactics that reproduce it."""
        return recorded_schedule([(step.name, step.actions) for step in self.steps])

    def save(self, path: Any) -> None:
        """Write the schedule as data; `partir.load_schedule` reads it."""
        save_schedule(self.schedule(), path)

    def input_schedule(self, pattern: Any = "**", name: str = "inputs") -> Schedule:
        """The layout of these inputs as tactics for another function."""
        return recorded_schedule(self._layout(pattern, name))

    def _layout(self, pattern: Any, name: str) -> Any:
        from partir.tactics.recorded import layout_actions

        return layout_actions(self._partition, pattern, name)

    # Layouts

    @cached_property
    def _in_flat(self) -> list[PartitionSpec]:
        return [
            _spec(tiling, port)
            for tiling, port in zip(
                self.spmd.in_tilings, self.program.arguments, strict=True
            )
        ]

    @cached_property
    def _out_flat(self) -> list[PartitionSpec]:
        return [
            _spec(tiling, port)
            for tiling, port in zip(
                self.spmd.out_tilings, self.program.results, strict=True
            )
        ]

    @property
    def in_specs(self) -> tuple[Any, ...]:
        """PartitionSpecs of the positional arguments, static ones left out."""
        return self._in_tree(self._in_flat)

    @property
    def out_specs(self) -> Any:
        """PartitionSpecs of the result."""
        return self._out_tree(self._out_flat)

    def in_shardings(self, devices: Any = None) -> tuple[Any, ...]:
        """The same as NamedShardings: create state sharded with `out_shardings`.

        Keyword arguments, if the call had any, follow as a dict.
        """
        mesh = self._device_mesh(devices)
        return self._in_tree([NamedSharding(mesh, spec) for spec in self._in_flat])

    def out_shardings(self, devices: Any = None) -> Any:
        """NamedShardings of the result."""
        mesh = self._device_mesh(devices)
        return self._out_tree([NamedSharding(mesh, spec) for spec in self._out_flat])

    def _in_tree(self, flat: list[Any]) -> tuple[Any, ...]:
        program = self.program
        if not isinstance(program, Traced) or program.call is None:
            return tuple(flat)
        merged = flat[len(program.captured) :]
        for position, _ in program.call.fixed:
            merged.insert(position, None)
        args, kwargs = jax.tree_util.tree_unflatten(program.call.tree, merged)
        return (*args, kwargs) if kwargs else tuple(args)

    def _out_tree(self, flat: list[Any]) -> Any:
        program = self.program
        if not isinstance(program, Traced) or program.outputs is None:
            return tuple(flat)
        merged = list(flat)
        for position, _ in program.outputs.fixed:
            merged.insert(position, None)
        return jax.tree_util.tree_unflatten(program.outputs.tree, merged)

    def _device_mesh(self, devices: Any) -> jax.sharding.Mesh:
        return device_mesh(self.mesh, self._devices if devices is None else devices)

    # Running

    def shard(self, *args: Any, **kwargs: Any) -> Any:
        """Place host or single-device arguments as the program wants them.

        With several processes each passes its own part, or the whole. Returns the
        arguments as a tuple (a single one as it is), keyword arguments last as a dict.
        """
        mesh = self._device_mesh(None)
        call = flatten_call(self._fn or (lambda *a: None), args, kwargs, self._options)
        wanted = dict(
            zip([p.name for p in self.program.arguments], self._in_flat, strict=True)
        )
        avals = self._avals_by_name()
        leaves = [
            shard_leaf(leaf, avals[name], NamedSharding(mesh, wanted[name]))
            for name, leaf in zip(self._known(call.names), call.leaves, strict=True)
        ]
        placed, keywords = call.rebuild(leaves)
        if keywords:
            return (*placed, keywords)
        return placed[0] if len(placed) == 1 else placed

    def _known(self, names: tuple[str, ...]) -> tuple[str, ...]:
        known = {port.name for port in self.program.arguments}
        if not isinstance(self.program, Traced):
            return tuple(port.name for port in self.program.arguments)[: len(names)]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise PartitionError(
                f'shard: "{unknown[0]}" is no argument of {self.program.name}: pass '
                "its arguments in their order, from the first"
            )
        return names

    def _avals_by_name(self) -> dict[str, jax.ShapeDtypeStruct]:
        ports = self.program.arguments
        return {p.name: a for p, a in zip(ports, self._plan.in_avals, strict=True)}

    def compile(self, devices: Any = None) -> Compiled:
        """A callable on real (or virtual) devices; takes and returns global arrays.

        Raises:
            PartitionError: too few devices, or host callbacks, which can't run yet.
        """
        self._refuse_callbacks()
        return Compiled(
            self.program,
            self._plan,
            self._device_mesh(devices),
            self._fn,
            self._options,
            self._compiler_options,
        )

    @cached_property
    def _plan(self) -> Plan:
        spmd, program = self.spmd, self.program
        types = [spmd.types[v] for v in spmd.body.results]
        in_avals = tuple(jax_struct(program.types[p.value]) for p in program.arguments)
        out_avals = tuple(jax_struct(program.types[p.value]) for p in program.results)
        if isinstance(program, Traced):
            assert program.call is not None
            assert program.outputs is not None
            count = len(program.captured)
            in_avals = (*in_avals[:count], *program.call.avals)
            out_avals = program.outputs.avals
        return Plan(
            self._module,
            program.name,
            in_avals,
            out_avals,
            tuple(self._in_flat),
            tuple(self._out_flat),
            tuple(jax_struct(t) for t in types),
        )

    def _refuse_callbacks(self) -> None:
        for op in self.program.ops:
            target = op.signature.attrs.get("call_target_name", "")
            if "callback" in target:
                raise PartitionError(
                    f"the program has a host callback ({op.location}), such as "
                    "jax.debug.print; it can be partitioned and looked at, but not run "
                    "yet: take it out of the step"
                )


def _spec(tiling: Any, port: Port) -> PartitionSpec:
    return PartitionSpec(*spec_axes(tiling, port.rank))
