"""From measurements to a `DeviceSpec`, and how well it explains them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from partir.errors import PartirError
from partir.mesh import Mesh
from partir.simulate.device.fusion_policy import XLA, XLA_CPU
from partir.simulate.device.spec import DeviceSpec, Topology
from partir.simulate.network.collectives import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measured program: what each device does in it, and how long it takes.

    `kind` is "call" (next to nothing), "launch" (many small kernels), "matmul",
    "memory", "vector", "transcendental", or a collective over `size` devices.
    """

    kind: str
    label: str
    seconds: float
    kernels: int = 1
    flops: float = 0.0
    transcendentals: float = 0.0
    memory_bytes: float = 0.0
    link_bytes: float = 0.0
    size: int = 1


@dataclass(frozen=True)
class Fit:
    """A spec, and what it predicts for each measurement."""

    spec: DeviceSpec
    predictions: tuple[tuple[Measurement, float], ...]

    @property
    def errors(self) -> list[float]:
        """Relative errors without sign."""
        return [abs(p / m.seconds - 1) for m, p in self.predictions]

    @property
    def median_error(self) -> float:
        """The middle one."""
        return statistics.median(self.errors)

    @property
    def worst_error(self) -> float:
        """The largest one."""
        return max(self.errors)


def fit_spec(
    name: str,
    devices: int,
    measured: Sequence[Measurement],
    *,
    memory_bytes: float,
    topology: Topology = "switch",
    source: str = "",
) -> Fit:
    """The spec that explains the measurements best, one figure after another."""
    call = min(_of(measured, "call"), key=lambda m: m.seconds).seconds
    launch = _median(measured, "launch", lambda m: (m.seconds - call) / m.kernels)

    def rate(kind: str, amount: Callable[[Measurement], float]) -> float:
        return _median(
            measured, kind, lambda m: amount(m) / max(m.seconds - call - launch, 1e-9)
        )

    vector = rate("vector", lambda m: m.flops)
    elements = rate("transcendental", lambda m: m.transcendentals)
    spec = DeviceSpec(
        name=name,
        flops_per_s=rate("matmul", lambda m: m.flops),
        memory_bytes=memory_bytes,
        memory_bytes_per_s=rate("memory", lambda m: m.memory_bytes),
        link_bytes_per_s=1e9,
        topology=topology,
        hop_seconds=0.0,
        matrix_efficiency=1.0,
        vector_flops_per_s=vector,
        transcendental_flops=vector / elements,
        kernel_seconds=max(launch, 0.0),
        step_seconds=call,
        overlap=False,
        combine_bytes=1e18,
        copies_operands=topology == "shared",
        fusion=XLA_CPU if topology == "shared" else XLA,
        keeps_barriers=topology != "shared",
        source=source,
    )
    spec = _with_links(spec, devices, measured, call)
    made = [(m, predict(spec, devices, m)) for m in measured]
    return Fit(spec, tuple(made))


def predict(spec: DeviceSpec, devices: int, one: Measurement) -> float:
    """Time that a spec gives to a measured program."""
    seconds = spec.step_seconds
    if one.link_bytes:
        axes = {"A": devices // one.size, "B": one.size}
        network = Network(Mesh(axes), spec)
        return seconds + network.seconds(one.kind, ("B",), one.link_bytes)
    if one.kind == "matmul":
        work = one.flops / (spec.flops_per_s * spec.matrix_efficiency)
    else:
        flops = one.flops + one.transcendentals * spec.transcendental_flops
        work = flops / spec.vector_rate
    work = max(work, one.memory_bytes / spec.memory_bytes_per_s)
    return seconds + work + one.kernels * spec.kernel_seconds


_COLLECTIVES = (
    "all_gather",
    "all_reduce",
    "reduce_scatter",
    "all_to_all",
    "collective_permute",
)


def _with_links(
    spec: DeviceSpec, devices: int, measured: Sequence[Measurement], call: float
) -> DeviceSpec:
    """Latency from the smallest collectives, bandwidth of each kind from the others."""
    collectives = [m for m in measured if m.kind in _COLLECTIVES and m.size > 1]
    if not collectives:
        return spec
    small = min(m.link_bytes for m in collectives)
    starts = [m.seconds - call for m in collectives if m.link_bytes == small]
    start = max(statistics.median(starts), 0.0)
    trial = replace(spec, link_bytes_per_s=1.0)
    rates: dict[str, float] = {}
    for kind in _COLLECTIVES:
        each = [
            (predict(trial, devices, m) - call) / _lasting(m, call + start)
            for m in collectives
            if m.kind == kind and m.link_bytes > small
        ]
        if each:
            rates[kind] = statistics.median(each)
    link = rates.get("all_gather") or statistics.median(rates.values())
    return replace(
        spec,
        link_bytes_per_s=link,
        collective_seconds=start,
        collective_efficiency={k: round(r / link, 4) for k, r in rates.items()},
    )


def _lasting(measured: Measurement, start: float) -> float:
    """Seconds after the start; on a busy machine the start may have taken longer."""
    return max(measured.seconds - start, measured.seconds / 10)


def _of(measured: Sequence[Measurement], kind: str) -> list[Measurement]:
    of_kind = [m for m in measured if m.kind == kind]
    if not of_kind:
        raise PartirError(f"calibration: nothing of kind {kind!r} was measured")
    return of_kind


def _median(
    measured: Sequence[Measurement], kind: str, value: Callable[[Measurement], float]
) -> float:
    return statistics.median(value(m) for m in _of(measured, kind))
