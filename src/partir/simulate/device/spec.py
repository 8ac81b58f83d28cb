"""`DeviceSpec`: what the simulator knows of a device.

Hardware is data: built-in specs are in `catalogue.py`, users write their own in Python
or TOML, `partir calibrate` writes one for the machine at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from partir.errors import PartitionError
from partir.simulate.device.fusion_policy import XLA, FusionPolicy
from partir.spmd.export_policy import PLAIN, ExportPolicy

Topology = Literal["torus", "mesh", "ring", "line", "switch", "shared"]
Order = Literal["program", "breadth_first", "late_products"]

_KINDS = (
    "all_gather",
    "all_reduce",
    "reduce_scatter",
    "all_to_all",
    "collective_permute",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A device, its memory, and how devices are joined.

    Devices come in *nodes* (a torus of TPUs, a box of GPUs) whose links have
    `link_bytes_per_s` each way; nodes are joined by a network.

    Args:
        name: shown in tables.
        flops_per_s: peak of the matrix unit, dense bfloat16.
        memory_bytes: memory of one device.
        memory_bytes_per_s: bandwidth of that memory.
        link_bytes_per_s: one way; of one link in a torus, mesh, ring or line, of the
            device's whole port in a switch.
        topology: how the devices of a node are joined. "torus" and "ring" wrap around
            where an axis has at least `wrap_size` devices; "mesh" and "line" don't.
            "shared" is one memory for all: virtual devices of one machine.
        torus_dims: dimensions of a torus or mesh.
        wrap_size: smallest axis that has its wrap-around links.
        node_size: devices in a node; 0 for no limit.
        network_bytes_per_s: one way, per device, between nodes; 0 for no network.
        hop_seconds: latency of a step within a node.
        network_hop_seconds: latency of a step between nodes.
        node_lateness: share of a step's time by which a node may be late, in the mean;
            nodes that are joined by the network wait for the latest of them.
        matrix_efficiency: share of the peak that large matrix products reach.
        opaque_efficiency: share of the peak that products reach in functions that are
            kept whole, which are kernels written by hand, as for flash attention; 0 for
            `matrix_efficiency`.
        matrix_tile: rows, columns and depth that products are padded to.
        aligned_bytes: rows of matrices must be a multiple of this for products to run
            at full speed; 0 for any. (Compilers pad them, eager frameworks don't.)
        unaligned_rate: speed of other products relative to that.
        float32_rate: speed of float32 products relative to the peak.
        vector_flops_per_s: peak of elementwise arithmetic.
        memory_efficiency: share of the memory's bandwidth that kernels reach.
        transcendental_flops: flops that a transcendental function counts for.
        kernel_seconds: time to start a kernel.
        host_seconds: time that the host takes to start a kernel while others run. It
            works ahead; if it takes longer for a step than the device, that waits.
        collective_seconds: time to start a collective.
        step_seconds: time to start a step.
        collective_efficiency: share of the links' bandwidth that each kind reaches.
        packs: whether what is gathered or scattered along a dimension that is not the
            first is copied into one piece.
        overlap: whether collectives run beside computation.
        overlap_cost: share of the time of a collective beside computation by which that
            takes longer. It is that of stored values (weights, gradients, state); what
            lies between two products is moved part by part with them.
        products_in_parts: whether a product computes with the parts of an operand that
            have arrived while others are being gathered, and results are scattered
            likewise (as compilers for TPUs do).
        order: order in which the compiler schedules kernels: "breadth_first" (as soon
            as possible, as XLA does on CPUs, where it can be compared), "program", or
            that with "late_products", as XLA does on GPUs.
        combine_bytes: all-reduces are combined up to this many bytes.
        copies_operands: whether matrix products copy operands whose dimensions lie in
            another order than they want (as on CPUs; others choose layouts that fit).
        near_bytes: what the compiler has of memory beside the matrix units (VMEM) for
            values that live briefly, or while a loop runs: they need no other place.
        collectives_apart: whether what a collective makes never takes the place of a
            donated argument that is read.
        reduces_in_place: whether an all-reduce writes over what it reads, if nobody
            reads that later and no loop or scatter made it.
        over_fused: whether kernels of arithmetic write only over what another such
            kernel made alone, in the same shape: not over what products, collectives,
            or kernels with several results make (as XLA does on GPUs).
        product_bytes: what a product needs for itself while it runs (cuBLAS'
            workspace).
        orders_reads: whether the compiler by itself has donated arguments read for the
            last time before it overwrites them, instead of copying them first.
        copies_at_end: whether what is gathered beside donated arguments is copied over
            them when the last of it is there; else each at once.
        gathers_ahead: by how many products the compiler gathers stored values before
            they are needed, which is memory that they take meanwhile.
        updates_at_once: whether parameters and state are updated, outside of loops, as
            soon as their gradients are there, and these are in memory no longer.
        fusion: how the compiler fuses ops into kernels.
        export: how programs are written for the compiler.
        keeps_barriers: whether the compiler keeps optimization barriers, by which
            programs say what to recompute late (XLA on CPUs does not).
        source: where the figures are from.

    Example:
        >>> mine = DeviceSpec(
        ...     name="mine",
        ...     flops_per_s=1e14,
        ...     memory_bytes=16e9,
        ...     memory_bytes_per_s=1e12,
        ...     link_bytes_per_s=5e10,
        ... )
        >>> mine.ridge_flops_per_byte
        100.0
    """

    name: str
    flops_per_s: float
    memory_bytes: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    topology: Topology = "switch"
    torus_dims: int = 2
    wrap_size: int = 4
    node_size: int = 0
    network_bytes_per_s: float = 0.0
    hop_seconds: float = 1e-6
    network_hop_seconds: float = 5e-6
    node_lateness: float = 0.0
    matrix_efficiency: float = 0.7
    opaque_efficiency: float = 0.0
    matrix_tile: tuple[int, int, int] = (1, 1, 1)
    aligned_bytes: int = 0
    unaligned_rate: float = 1.0
    float32_rate: float = 1.0
    vector_flops_per_s: float = 0.0
    memory_efficiency: float = 1.0
    transcendental_flops: float = 10.0
    kernel_seconds: float = 2e-6
    host_seconds: float = 0.0
    collective_seconds: float = 0.0
    step_seconds: float = 0.0
    collective_efficiency: Mapping[str, float] = field(default_factory=dict)
    packs: bool = True
    overlap: bool = True
    overlap_cost: float = 0.0
    products_in_parts: bool = False
    order: Order = "breadth_first"
    combine_bytes: float = 0.0
    copies_operands: bool = False
    near_bytes: float = 0.0
    collectives_apart: bool = False
    reduces_in_place: bool = False
    over_fused: bool = False
    product_bytes: float = 0.0
    orders_reads: bool = False
    copies_at_end: bool = False
    gathers_ahead: int = 0
    updates_at_once: bool = False
    fusion: FusionPolicy = XLA
    export: ExportPolicy = PLAIN
    keeps_barriers: bool = True
    source: str = ""

    def __post_init__(self) -> None:
        """Check every figure."""
        for name in _POSITIVE:
            _require(self, name, getattr(self, name), least=0, strictly=True)
        for name in _NOT_NEGATIVE:
            _require(self, name, getattr(self, name), least=0)
        for name in _SHARES:
            _require(self, name, getattr(self, name), least=0, strictly=True, most=8)
        _one_of(self, "topology", get_args(Topology))
        _one_of(self, "order", get_args(Order))
        if not isinstance(self.fusion, FusionPolicy):
            raise _wrong(self, "fusion", self.fusion, "a FusionPolicy")
        if not isinstance(self.export, ExportPolicy):
            raise _wrong(self, "export", self.export, "an ExportPolicy")
        tile = tuple(self.matrix_tile)
        if len(tile) != 3 or any(not isinstance(n, int) or n < 1 for n in tile):
            raise _wrong(self, "matrix_tile", tile, "three whole numbers of at least 1")
        object.__setattr__(self, "matrix_tile", tile)
        for kind, share in self.collective_efficiency.items():
            if kind not in _KINDS:
                raise _wrong(self, "collective_efficiency", kind, f"one of {_KINDS}")
            _require(self, f"collective_efficiency of {kind}", share, 0, True)

    @property
    def ridge_flops_per_byte(self) -> float:
        """Flops per byte above which arithmetic, not memory, is the limit."""
        return self.flops_per_s / self.memory_bytes_per_s

    @property
    def vector_rate(self) -> float:
        """Elementwise flops per second; a thirtieth of the peak if not given."""
        return self.vector_flops_per_s or self.flops_per_s / 30

    def to_toml(self) -> str:
        """The spec as `load_spec` reads it."""
        lines = [f"{name} = {_toml(value)}" for name, value in self.as_data().items()]
        return "\n".join(lines) + "\n"

    def as_data(self) -> dict[str, Any]:
        """Every figure, for files and JSON."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        policies = {"fusion": self.fusion.as_data(), "export": self.export.as_data()}
        return data | policies


_POSITIVE = (
    "flops_per_s",
    "memory_bytes",
    "memory_bytes_per_s",
    "link_bytes_per_s",
    "torus_dims",
    "wrap_size",
)
_SHARES = ("matrix_efficiency", "memory_efficiency", "float32_rate", "unaligned_rate")
NEEDED = ("name", *_POSITIVE[:4])  # what has no default
_NOT_NEGATIVE = (
    "near_bytes",
    "product_bytes",
    "gathers_ahead",
    "node_size",
    "network_bytes_per_s",
    "hop_seconds",
    "network_hop_seconds",
    "node_lateness",
    "aligned_bytes",
    "vector_flops_per_s",
    "transcendental_flops",
    "kernel_seconds",
    "host_seconds",
    "opaque_efficiency",
    "overlap_cost",
    "collective_seconds",
    "step_seconds",
    "combine_bytes",
)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_toml_key(k)} = {_toml(v)}" for k, v in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return repr(value)


def _toml_key(name: str) -> str:
    return name if name.replace("_", "").isalnum() else _toml(name)


def _wrong(spec: DeviceSpec, what: str, got: Any, want: str) -> PartitionError:
    return PartitionError(f'device "{spec.name}": {what} must be {want}, got {got!r}')


def _one_of(spec: DeviceSpec, name: str, known: tuple[str, ...]) -> None:
    if getattr(spec, name) not in known:
        raise _wrong(spec, name, getattr(spec, name), f"one of {', '.join(known)}")


def _require(
    spec: DeviceSpec,
    name: str,
    value: Any,
    least: float,
    strictly: bool = False,
    most: float | None = None,
) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    good = number and value == value and (value > least if strictly else value >= least)
    if not good or (most is not None and value > most):
        want = "a number greater than 0" if strictly else "a number of at least 0"
        raise _wrong(spec, name, value, want + (f", at most {most}" if most else ""))
