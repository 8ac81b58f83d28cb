"""`Partitioned`: a program, its partition after each tactic, and ways to use it."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from partir.api.accepted import DevicesLike
from partir.api.as_data import partition_data
from partir.api.overview import overview, overview_html
from partir.api.proving import promises, require_proof
from partir.api.running import Running
from partir.api.source import Source, interface
from partir.api.specs import port_spec, specs_data
from partir.api.step import Step
from partir.errors import PartitionError, nearest
from partir.execute.callbacks import refuse_callbacks
from partir.execute.checked import Check
from partir.execute.compiled import Compiled
from partir.execute.interface import Interface
from partir.execute.options import default_options
from partir.execute.padded_arrays import Uneven, resized
from partir.execute.placing import device_mesh, shard_leaf
from partir.execute.runner import CallPlan
from partir.execute.types import jax_struct
from partir.execute.xla_program import XlaProgram, xla_program
from partir.explain.answer import Explanation
from partir.explain.ask import explain
from partir.explain.listing import CollectiveUse, collective_list
from partir.explain.tallies import Tallies, module_path, source_line, tallies
from partir.frontend.arguments import flatten_call, merge_fixed
from partir.frontend.bytecode import to_bytecode
from partir.frontend.leaves import abstract
from partir.ir.core import Port, Program
from partir.mesh import Mesh
from partir.partition.actions import Partition
from partir.partition.core_text import core_text
from partir.partition.patterns import Pattern
from partir.report.chakra import ChakraTraces
from partir.report.replicated import ReplicatedOp, find_replicated
from partir.rules.nest import Tiling
from partir.simulate.device.lookup import DeviceLike
from partir.simulate.estimate import Estimate
from partir.spmd.export_policy import ExportPolicy, policy_of
from partir.spmd.printer import spmd_text
from partir.spmd.program import SpmdProgram
from partir.tactics.recorded import (
    layout_actions,
    recorded_schedule,
    recorded_tactics,
    save_schedule,
)
from partir.tactics.schedule import Schedule
from partir.verify import Proof, prove


class Partitioned:
    """The record of a partition. Printing it shows the per-tactic table and remarks.

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
        source: Source,
        running: Running,
    ) -> None:
        """Made by `partir.partition` and `partir.jit`."""
        self.program: Program = partition.program
        self.mesh: Mesh = partition.mesh
        self.steps: tuple[Step, ...] = tuple(steps)
        self._partition = partition
        self._source, self._running = source, running
        self._checked: set[ExportPolicy] = set()

    @property
    def partition_record(self) -> Partition:
        """The partition after the last tactic, as tactics see it."""
        return self._partition

    # What it is

    def __str__(self) -> str:
        """The per-tactic table, and below it what deserves a look."""
        return overview(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return overview_html(self)

    def to_json(self) -> dict[str, Any]:
        """All of it as data: steps, layouts, collectives with causes, places, remarks.

        With a device, also time and memory; `Explanation.to_json` has the answer to a
        question, `Estimate.timeline` and `chakra` have what happens when.
        """
        return partition_data(self)

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
    def work(self) -> float:
        """Flops of a device x devices / flops of the whole program; 1.0 is perfect."""
        return self.steps[-1].work

    @property
    def work_by_axis(self) -> dict[str, float]:
        """The same for each axis alone; 1.0: it divides everything."""
        return self.steps[-1].work_by_axis

    @property
    def unknown_trip_counts(self) -> tuple[str, ...]:
        """Loops whose length is not known; their collectives count once."""
        ops = self.program.ops
        return tuple(str(ops[n].location) for n in self.spmd.unknown_trip_counts)

    @cached_property
    def collective_list(self) -> tuple[CollectiveUse, ...]:
        """Every collective: its name (``all_gather#12``), cause, bytes and source."""
        return collective_list(self.steps)

    @cached_property
    def replicated_ops(self) -> tuple[ReplicatedOp, ...]:
        """Ops computed whole on an axis that tiles what they need, and why."""
        return find_replicated(self.steps)

    @property
    def estimate(self) -> Estimate:
        """Time and memory on `device`; a PartitionError if none was said."""
        return self.steps[-1].estimate

    def estimate_on(
        self,
        device: DeviceLike | None = None,
        *,
        overlap: bool = True,
        trip_count: int = 1,
    ) -> Estimate:
        """The same on another device, or under other assumptions.

        Args:
            device: a name, a `DeviceSpec`, or a path to a .toml file.
            overlap: whether collectives run beside computation, if the device can.
            trip_count: iterations of loops whose number is not known.
        """
        setting = self.steps[-1].setting
        return setting.estimate(
            self.spmd, device, overlap=overlap, trip_count=trip_count
        )

    # Why

    def explain(self, name: str, axis: str | None = None) -> Explanation:
        """Why a value is tiled so, or not, or why a collective is there; what helps.

        Args:
            name: of an argument, tag or result, a ``%`` address, a collective
                (``all_gather#12``), a source line (``model.py:42``), or
                ``peak_bytes``: what fills memory.
            axis: of a value, the mesh axis; by default the one that matters most.
        """
        return explain(self.steps, name, axis)

    def by_source(self, order: str = "bytes") -> Tallies:
        """What each line of the model computes, sends and holds, the largest first.

        `order` is "bytes", "seconds", "flops" or "memory"; time and memory need a
        device.
        """
        return tallies(self.steps, source_line, order)

    def by_scope(self, order: str = "bytes") -> Tallies:
        """The same by module path, as jax's name scopes and modules give it."""
        return tallies(self.steps, module_path, order)

    def what_xla_runs(self, devices: DevicesLike | None = None) -> XlaProgram:
        """The program that XLA makes of this one, summarised beside it.

        Compiles for the devices, as `compile` does, and runs nothing. XLA combines
        small collectives; any that it adds are in ``.added``.
        """
        compiled = self.compile(devices)
        platform = compiled.mesh.devices.flat[0].platform
        step = self.steps[-1]
        known = step.setting.device is not None
        estimated = step.estimate.to_json() if known else {}
        executable = compiled.lower_abstract().compile()
        return xla_program(executable, platform, self.collectives, estimated)

    # As text

    def core_text(self) -> str:
        """PartIR:Core: each op in its loops, reading slices."""
        return core_text(self.steps[-1].completed)

    def spmd_text(self) -> str:
        """The SPMD program: local types and collectives by mesh axes."""
        return spmd_text(self.spmd)

    def stablehlo(self) -> str:
        """Device-local StableHLO as text.

        It is written for the compiler of `device`; what runs, for the one that runs it.
        """
        return self.steps[-1].module.text

    def stablehlo_bytecode(self) -> bytes:
        """Device-local StableHLO as MLIR bytecode, checked by MLIR's verifier."""
        return to_bytecode(self.steps[-1].module.text)

    def verify(self, module: str | bytes | None = None) -> Proof:
        """Prove that the device-local module computes what the program does.

        Args:
            module: another module in place of the exported one, to hold it against
                the same program.

        Raises:
            VerificationError: a result that is wrong, or that can't be proved.
        """
        return self.proof(module).require()

    def proof(self, module: str | bytes | None = None) -> Proof:
        """The same, whatever comes of it: what is proved, and what is not."""
        text = self.steps[-1].module.text if module is None else module
        spmd = self.spmd
        tilings = spmd.in_tilings, spmd.out_tilings
        return prove(self.program, text, self.mesh, *tilings, promises(self.program))

    def _check(self, policy: ExportPolicy) -> Check[Proof] | None:
        """Proof of what is going to run; none if it is proved, or not asked for."""
        if self._running.verify == "off" or policy in self._checked:
            return None
        text = self.steps[-1].module_for(policy).text

        def judge(found: Proof) -> None:
            require_proof(found, self.program.name, self._running.strict)
            self._checked.add(policy)

        return Check(lambda: self.proof(text), judge)

    def chakra(self) -> ChakraTraces:
        """Chakra execution traces of the simulated step: ``.rank(0)`` is a file."""
        return ChakraTraces(self.estimate)

    def specs_json(self) -> dict[str, Any]:
        """Mesh and layouts as data: axes of each dimension, for other tools."""
        return {
            "mesh": dict(self.mesh.axes),
            "arguments": specs_data(self.program.arguments, self._in_flat),
            "results": specs_data(self.program.results, self._out_flat),
        }

    # As a schedule

    def schedule(self) -> Schedule:
        """The whole partition as manual tactics that reproduce it, without a search.

        Printed, it is Python with names and, for what was found automatically, reasons.
        """
        tactics: list[Any] = []
        for step in self.steps:
            again = recorded_schedule([(step.name, step.actions)])
            tactics += step.found or again.flat()
        return Schedule(tactics)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule as data; `partir.load_schedule` reads it."""
        steps = [(step.name, step.actions) for step in self.steps]
        save_schedule(recorded_tactics(steps), path)

    def input_schedule(self, pattern: Pattern = "**", name: str = "inputs") -> Schedule:
        """The layout of these inputs as tactics for another function."""
        return recorded_schedule(layout_actions(self._partition, pattern, name))

    # Layouts

    @cached_property
    def _in_flat(self) -> list[PartitionSpec]:
        return list(map(port_spec, self.spmd.in_tilings, self.program.arguments))

    @cached_property
    def _out_flat(self) -> list[PartitionSpec]:
        return list(map(port_spec, self.spmd.out_tilings, self.program.results))

    @cached_property
    def _interface(self) -> Interface:
        return interface(self._source, self.program)

    @property
    def in_specs(self) -> tuple[Any, ...]:
        """PartitionSpecs of the positional arguments, static ones left out.

        Keyword arguments, if the call had any, follow as a dict.
        """
        return self._interface.in_tree(self._in_flat)

    @property
    def out_specs(self) -> Any:
        """PartitionSpecs of the result."""
        return self._interface.out_tree(self._out_flat)

    def in_shardings(self, devices: DevicesLike | None = None) -> tuple[Any, ...]:
        """The same as NamedShardings: create state sharded with `out_shardings`."""
        return self._interface.in_tree(self._shardings(self._in_flat, devices))

    def out_shardings(self, devices: DevicesLike | None = None) -> Any:
        """NamedShardings of the result."""
        return self._interface.out_tree(self._shardings(self._out_flat, devices))

    def _shardings(
        self, flat: list[PartitionSpec], devices: DevicesLike | None
    ) -> list[Any]:
        mesh = self._device_mesh(devices)
        return [NamedSharding(mesh, spec) for spec in flat]

    def _device_mesh(self, devices: DevicesLike | None) -> jax.sharding.Mesh:
        return device_mesh(
            self.mesh, self._running.devices if devices is None else devices
        )

    # Running

    def shard(self, *args: Any, **kwargs: Any) -> Any:
        """Place host or single-device arguments as the program wants them.

        With several processes each passes its own part, or the whole. Returns the
        arguments as a tuple (a single one as it is), keyword arguments last as a dict.
        """
        call, arrays = flatten_call(self._interface.parameters, args, kwargs)
        known = self._arguments_by_name
        for name in call.names:
            if name not in known:
                raise PartitionError(
                    f'shard: "{name}" is no argument of {self.program.name}; nearest: '
                    f"{nearest(name, known)}. Pass its arguments in their order, from "
                    "the first, or by name"
                )
        mesh = self._device_mesh(None)
        leaves = []
        for name, array in zip(call.names, arrays, strict=True):
            aval, spec, uneven = known[name]
            sharding = NamedSharding(mesh, spec)
            leaves.append(shard_leaf(name, array, aval, sharding, uneven))
        placed, keywords = call.rebuild(leaves)
        if keywords:
            return (*placed, keywords)
        return placed[0] if len(placed) == 1 else placed

    @cached_property
    def _arguments_by_name(self) -> dict[str, Any]:
        names = [port.name for port in self.program.arguments]
        known = zip(self._in_avals, self._in_flat, self._in_uneven, strict=True)
        return dict(zip(names, known, strict=True))

    def unpadded(self, results: Any) -> Any:
        """What a call returned, cut to the size that it has in the program.

        Only results that succeed arguments which a tactic pads come back padded.
        """
        outputs = self._interface.outputs
        leaves, tree = jax.tree_util.tree_flatten(results)
        if tree != outputs.tree:
            raise PartitionError(
                f"unpadded takes all that a call of {self.program.name} returned, a "
                f"tree like {outputs.tree}; got {tree}"
            )
        fixed = tuple((position, None) for position, _ in outputs.fixed)
        cuts = merge_fixed(self._out_uneven, fixed)
        pairs = zip(leaves, cuts, strict=True)
        cut_leaves = [leaf if cut is None else cut.cut(leaf) for leaf, cut in pairs]
        return jax.tree_util.tree_unflatten(tree, cut_leaves)

    @cached_property
    def _in_uneven(self) -> tuple[Uneven | None, ...]:
        tilings, ports = self.spmd.in_tilings, self.program.arguments
        return tuple(map(self._uneven, tilings, ports))

    @cached_property
    def _out_uneven(self) -> tuple[Uneven | None, ...]:
        tilings, ports = self.spmd.out_tilings, self.program.results
        return tuple(map(self._uneven, tilings, ports))

    def _uneven(self, tiling: Tiling, port: Port) -> Uneven | None:
        shape = self.program.types[port.value].shape
        return Uneven.of(shape, tiling, self.mesh)

    def compile(self, devices: DevicesLike | None = None) -> Compiled:
        """A callable on real (or virtual) devices; takes and returns global arrays.

        Raises:
            PartitionError: too few devices, or host callbacks, which can't run yet.
            VerificationError: the device-local program is wrong.
        """
        compiled = self.compile_proving(devices)
        compiled.require_checked()
        return compiled

    def compile_proving(self, devices: DevicesLike | None = None) -> Compiled:
        """The same, but what is to run is proved while XLA compiles it."""
        refuse_callbacks(self.program)
        mesh = self._device_mesh(devices)
        options = default_options(mesh, self.spmd) | dict(
            self._running.compiler_options or {}
        )
        policy = policy_of(mesh.devices.flat[0].platform)
        plan, check = self._plan(policy), self._check(policy)
        return Compiled(plan, self._interface, mesh, options, check)

    @cached_property
    def _in_avals(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        captured = (abstract(array) for array in self._interface.captured)
        given = (*captured, *self._interface.call.avals)
        avals = (aval for aval in given if aval is not None)
        return tuple(map(resized, avals, self._in_uneven))

    def _plan(self, policy: ExportPolicy) -> CallPlan:
        spmd, interface = self.spmd, self._interface
        types = [spmd.types[v] for v in spmd.body.results]
        return CallPlan(
            self.steps[-1].module_for(policy),
            self.program.name,
            tuple(port.name for port in self.program.arguments),
            self._in_avals,
            tuple(map(resized, interface.outputs.avals, self._out_uneven)),
            tuple(self._in_flat),
            tuple(self._out_flat),
            tuple(jax_struct(t) for t in types),
            self._in_uneven,
        )
