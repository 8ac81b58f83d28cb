"""`Estimate`: time and memory of one step on one device, computed when read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from partir.columns import bytes_text, html_page, html_table, seconds_text
from partir.errors import PartitionError
from partir.ir.core import Program
from partir.ir.garbage import collection_paused
from partir.mesh import Mesh
from partir.simulate.bubble import bubble_seconds
from partir.simulate.carried import carried_by_calls
from partir.simulate.cost import Cost
from partir.simulate.device.catalogue import devices
from partir.simulate.device.lookup import DeviceLike, as_device
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.fold_multiplicity import Multiplicity
from partir.simulate.kernels.barriers import KeptProgram, compiled
from partir.simulate.kernels.fusion import Fuser
from partir.simulate.kernels.handed_values import handed_values, tied_to_handed
from partir.simulate.kernels.kernel import Kernels
from partir.simulate.kernels.program_flops import program_flops
from partir.simulate.kernels.schedule import Scheduler
from partir.simulate.kernels.xla_flops import counted_flops
from partir.simulate.memory.habits import MemoryHabits
from partir.simulate.memory.near_memory import NearMemory
from partir.simulate.memory.peak import Alive, Peak, peak_memory
from partir.simulate.network.collectives import Network
from partir.simulate.network.lateness import lateness
from partir.simulate.network.topology import place_axes
from partir.simulate.time import Clock, Run
from partir.simulate.timeline import Event, perfetto
from partir.spmd.program import Collective, SpmdOp, SpmdProgram


@dataclass(frozen=True)
class Setting:
    """What estimates of a program need: the device, and which arguments are donated."""

    device: DeviceSpec | None = None
    donated: Callable[[], Sequence[bool] | None] = lambda: None

    @classmethod
    def of(
        cls,
        device: DeviceLike | None,
        mesh: Mesh,
        donated: Callable[[], Sequence[bool] | None],
    ) -> Setting:
        """For a name, a spec, a path or None; checks that the mesh can sit there."""
        spec = None if device is None else as_device(device, devices)
        if spec is not None:
            place_axes(mesh, spec)
        return cls(spec, donated)

    def require_device(self) -> DeviceSpec:
        """The device; a PartitionError that lists the names if none was said."""
        if self.device is None:
            raise PartitionError(
                "an estimate needs a device: say device=… with one of "
                f"{', '.join(devices)}, a partir.DeviceSpec or a path to a .toml file"
            )
        return self.device

    def estimate(
        self,
        program: SpmdProgram,
        device: DeviceLike | None = None,
        *,
        overlap: bool = True,
        trip_count: int = 1,
    ) -> Estimate:
        """On this device, or on the one that was said first."""
        given = None if device is None else as_device(device, devices)
        spec = given or self.require_device()
        return Estimate(
            program, spec, self.donated(), overlap=overlap, trip_count=trip_count
        )


class Estimate:
    """What a step costs on one device of the mesh.

    Args:
        program: the SPMD program.
        device: its spec.
        donated: for each argument, whether its memory may be reused.
        overlap: whether collectives run beside computation, if the device can.
        trip_count: iterations of loops whose number is not known.
        multiplicity: if the program is folded, what it stands for; figures are then of
            the whole.
        network: the device's with the program's mesh, if it is there already.

    Example:
        >>> import jax, partir
        >>> x = jax.ShapeDtypeStruct((1024, 1024), "bfloat16")
        >>> rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
        >>> p = partir.partition(
        ...     lambda x, w: x @ w, {"B": 4}, [rows], args=(x, x), device="tpu_v5e"
        ... )
        >>> p.estimate.flops == 2 * 256 * 1024 * 1024
        True
        >>> p.estimate.fits
        True
    """

    def __init__(
        self,
        program: SpmdProgram,
        device: DeviceSpec,
        donated: Sequence[bool] | None = None,
        *,
        overlap: bool = True,
        trip_count: int = 1,
        multiplicity: Multiplicity | None = None,
        network: Network | None = None,
    ) -> None:
        """Nothing is computed yet, but that the mesh fits on the device."""
        if trip_count < 0:
            raise PartitionError(f"trip_count must be at least 0, got {trip_count}")
        count = len(program.body.arguments)
        self.program, self.device = program, device
        self.donated = tuple(donated) if donated is not None else (False,) * count
        self.overlap, self.trip_count = overlap, trip_count
        self._multiplicity = multiplicity
        self._network = network or Network(program.mesh, device)

    @cached_property
    def compiled(self) -> SpmdProgram:
        """The program as the device's compiler is given it, and keeps it.

        A collective makes the value that it makes in `program`.
        """
        return self._compiled.program

    @cached_property
    def _compiled(self) -> KeptProgram:
        return compiled(self.program, self.device)

    @cached_property
    def _schedule(self) -> Scheduler:
        depth_first = self._compiled.depth_first
        return Scheduler(self.device, self._multiplicity, depth_first)

    @cached_property
    @collection_paused
    def _kernels(self) -> Kernels:
        program, handed, times = self.compiled, {}, self._multiplicity
        if times is not None:
            handed = handed_values(program, times)
            program = tied_to_handed(program, handed)
        fuser = Fuser(program, self.device.fusion, handed, self._compiled.waits)
        block, tied = fuser.run(), times.handed if times else ()
        carried = carried_by_calls(program.program, block, tied)
        return self._schedule(replace(block, carried=carried))

    # Time

    @cached_property
    def collectives(self) -> dict[str, int]:
        """Executed counts on one device."""
        if self._multiplicity is None:
            return self.program.collectives
        return self.program.count(self._multiplicity.of)

    @cached_property
    def _clock(self) -> Clock:
        return Clock(
            self.compiled.types,
            self.device,
            self._network,
            self._schedule,
            multiplicity=self._multiplicity,
            overlap=self.overlap,
            trip_count=self.trip_count,
        )

    @cached_property
    @collection_paused
    def _run(self) -> Run:
        return self._clock.run(self._kernels)

    @cached_property
    @collection_paused
    def cost(self) -> Cost:
        """The sum over all kernels and collectives."""
        return self._clock.cost(self._run)

    @property
    def seconds(self) -> float:
        """Time of the step."""
        late = lateness(self._network.nodes) * self.device.node_lateness
        seconds = max(self._run.seconds, self._host_seconds)
        return seconds * (1 + late) + self.device.step_seconds

    @property
    def _host_seconds(self) -> float:
        """Time that the host takes to start everything, ahead of the device."""
        if not self.device.host_seconds:
            return 0.0
        return self.device.host_seconds * (self.cost.kernels + self.cost.collectives)

    @property
    def compute_seconds(self) -> float:
        """Time of all kernels."""
        return self.cost.compute_seconds

    @property
    def communication_seconds(self) -> float:
        """Time of all collectives, hidden behind computation or not."""
        return self.cost.communication_seconds

    @property
    def exposed_seconds(self) -> float:
        """Time in which nothing is computed."""
        return max(self.seconds - self.compute_seconds, 0.0)

    @cached_property
    def bubble_seconds(self) -> float:
        """Time in which a stage of a `pipelined` stack waits for microbatches."""
        return bubble_seconds(self.program.program, self.timeline, self.trip_count)

    @cached_property
    @collection_paused
    def flops(self) -> float:
        """Flops of one device, as XLA's cost analysis counts them."""
        return counted_flops(self.program, self.trip_count, self._multiplicity)

    @cached_property
    def mfu(self) -> float:
        """Model flops utilisation.

        The unpartitioned program's flops against what all devices could do meanwhile.
        """
        could = self.seconds * self.device.flops_per_s * self.program.mesh.size
        source, multiplicity = self.program.program, self._multiplicity
        whole = program_flops(source, self.trip_count, multiplicity)
        return whole / could if could else 0.0

    @cached_property
    @collection_paused
    def timeline(self) -> tuple[Event, ...]:
        """Events in order: op or collective, stream, start, duration."""
        return self._clock.events(self._run)

    def perfetto(self) -> str:
        """The timeline as a Chrome trace, which Perfetto opens."""
        title = f"{self.program.program.name} on {self.device.name}"
        return perfetto(self.program, self.timeline, title, self.trip_count)

    # Memory

    @cached_property
    @collection_paused
    def _peak(self) -> Peak:
        return peak_memory(
            self.compiled,
            self._kernels,
            self.donated,
            self._schedule,
            self._multiplicity,
            _habits(self.device),
        )

    @property
    def peak_bytes(self) -> int:
        """Most memory that one device needs at a time."""
        return self._peak.bytes

    @property
    def argument_bytes(self) -> int:
        """Memory of the arguments."""
        return self._peak.argument_bytes

    @property
    def result_bytes(self) -> int:
        """Memory of results that take no donated argument's place."""
        return self._peak.result_bytes

    @property
    def temporary_bytes(self) -> int:
        """Memory of neither arguments nor results, at the peak."""
        return self._peak.temporary_bytes

    @property
    def fits(self) -> bool:
        """Whether the device has that much."""
        return self.peak_bytes <= self.device.memory_bytes

    @cached_property
    def alive_at_peak(self) -> tuple[Alive, ...]:
        """What is in memory at the peak, by source name, the largest first.

        Buffers that are lent to others are listed with those that use them.
        """
        types, source = self.compiled.types, self.program.program
        body, kernels = self.compiled.body, self._kernels.kernels
        ports = zip(source.arguments, body.arguments, strict=True)
        names = {value: port.name for port, value in ports}
        makers = {v: k.op for k in kernels for v in k.writes}
        makers |= {v: m for k in kernels for m in k.members for v in m.results}
        named = [
            *names.items(),
            *((v, f"copy of {names[v]}") for v in self._peak.copied),
            *((body.results[n], source.results[n].name) for n in self._peak.results),
            *((v, value_name(source, makers[v], v)) for v in self._peak.alive),
        ]
        alive = [Alive(name, str(types[v]), types[v].bytes) for v, name in named]
        return tuple(sorted(alive, key=lambda one: -one.bytes))

    @cached_property
    def made_at_peak(self) -> tuple[tuple[SpmdOp | None, int], ...]:
        """Bytes alive at the peak by the op that made them; None: an argument."""
        types, body, peak = self.compiled.types, self.compiled.body, self._peak
        kernels = self._kernels.kernels
        makers = {v: k.op for k in kernels for v in k.writes}
        makers |= {v: m for k in kernels for m in k.members for v in m.results}
        results = [body.results[n] for n in peak.results]
        alive = [*body.arguments, *peak.copied, *results, *peak.alive]
        return tuple((makers.get(v), types[v].bytes) for v in alive)

    # As text and data

    def to_json(self) -> dict[str, Any]:
        """The figures as data."""
        return {
            "device": self.device.name,
            "seconds": self.seconds,
            "compute_seconds": self.compute_seconds,
            "communication_seconds": self.communication_seconds,
            "exposed_seconds": self.exposed_seconds,
            "bubble_seconds": self.bubble_seconds,
            "peak_bytes": self.peak_bytes,
            "flops": self.flops,
            "mfu": self.mfu,
            "fits": self.fits,
            "argument_bytes": self.argument_bytes,
            "result_bytes": self.result_bytes,
            "temporary_bytes": self.temporary_bytes,
        }

    def _repr_html_(self) -> str:
        """A table in a notebook."""
        rows = [
            ["", "figure"],
            ["step time", seconds_text(self.seconds)],
            ["computing", seconds_text(self.compute_seconds)],
            ["communicating", seconds_text(self.communication_seconds)],
            ["nothing computed meanwhile", seconds_text(self.exposed_seconds)],
            ["peak memory", bytes_text(self.peak_bytes)],
            ["of", bytes_text(int(self.device.memory_bytes))],
            ["flops of a device", f"{self.flops:.4g}"],
            ["MFU", f"{self.mfu:.1%}"],
        ]
        return html_page(f"on {self.device.name}", [html_table(rows)])

    def __repr__(self) -> str:
        """Time, memory and use of the device."""
        return (
            f"<{self.seconds * 1e3:.3f} ms ({self.compute_seconds * 1e3:.3f} "
            f"computing, {self.communication_seconds * 1e3:.3f} communicating), peak "
            f"{self.peak_bytes / 2**20:.1f} MiB, MFU {self.mfu:.1%} on "
            f"{self.device.name}>"
        )


def _habits(device: DeviceSpec) -> MemoryHabits:
    """What the device's compiler does about memory, by itself or as it is told."""
    return MemoryHabits(
        near=NearMemory(device.near_bytes),
        into_stacks=device.fusion.into_stacks,
        reduces_in_place=device.reduces_in_place,
        over_fused=device.over_fused,
        product_bytes=int(device.product_bytes),
        orders_reads=device.orders_reads or device.export.orders_reads,
        collectives_apart=device.collectives_apart,
        keeps_arguments=device.export.keeps_arguments,
        copies_at_end=device.copies_at_end,
        gathers_ahead=device.gathers_ahead,
        updates_at_once=device.updates_at_once,
    )


def value_name(source: Program, op: SpmdOp, value: int) -> str:
    """The user's name for a value of the SPMD program, or where it is made."""
    if isinstance(op, Collective):
        return f"{op.kind} of {source.describe(op.cause.value)}"
    results = source.ops[op.node].results
    return source.describe(results[op.results.index(value)])
