"""Time of a collective: latency and bandwidth on the links of its mesh axes.

Within a node, rings: gathering V bytes over N devices takes ``V (N-1) / (N W)``, where
W counts both directions if the axis wraps around, and every dimension that the axes
have. In one shared memory the whole is copied, however many devices there are. Between
nodes the network's bandwidth per device counts, and each phase handles
only what its level adds: gather across nodes first, then within.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from partir.mesh import Mesh
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.network.topology import Place, place_axes


@dataclass(frozen=True, slots=True)
class Group:
    """A collective's devices as its two levels see them."""

    inside: int
    across: int
    rate: float  # bytes per second of a ring within a node
    longest: int  # devices along the longest dimension
    line_rate: float  # of one link, both directions counted if it wraps
    steps: int  # hops of a ring within a node
    across_steps: int

    @property
    def size(self) -> int:
        """Devices in the group."""
        return self.inside * self.across


class Network:
    """Times collectives on one mesh of one device."""

    def __init__(self, mesh: Mesh, device: DeviceSpec) -> None:
        """Place the mesh; a PartitionError if it can't sit there."""
        self.mesh, self.device = mesh, device
        self.places = place_axes(mesh, device)
        self._groups: dict[tuple[str, ...], Group] = {}
        self._known: dict[tuple[str, tuple[str, ...], float], float] = {}

    def seconds(self, kind: str, axes: tuple[str, ...], count: float) -> float:
        """Time of one collective.

        `count` is the bytes of its whole: what a gather makes, what a reduction or an
        all-to-all reads, on one device.
        """
        key = kind, axes, count
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._seconds(*key)
        return known

    def _seconds(self, kind: str, axes: tuple[str, ...], count: float) -> float:
        group = self._groups.get(axes)
        if group is None:
            group = self._groups[axes] = self._group(axes)
        if group.size == 1:
            return 0.0
        timer = _shared if self.device.topology == "shared" else _TIMES[kind]
        transfer, steps = timer(group, count, self.device)
        share = self.device.collective_efficiency.get(kind, 1.0)
        return self.device.collective_seconds + transfer / share + steps

    @property
    def nodes(self) -> int:
        """Nodes that the mesh takes."""
        return math.prod(place.across for place in self.places.values())

    def axes_of(self, devices: Sequence[int]) -> tuple[str, ...]:
        """Mesh axes along which devices of a group differ; all if there are none."""
        if not devices:
            return self.mesh.names
        axes, stride = [], self.mesh.size
        for axis, size in self.mesh.axes.items():
            stride //= size
            if len({device // stride % size for device in devices}) > 1:
                axes.append(axis)
        return tuple(axes)

    def _group(self, axes: Sequence[str]) -> Group:
        places = [self.places[axis] for axis in axes]
        inside = math.prod(p.inside for p in places)
        across = math.prod(p.across for p in places)
        if self.device.topology in ("switch", "shared"):
            steps = math.ceil(math.log2(inside)) if inside > 1 else 0
            rate = self.device.link_bytes_per_s
            return Group(inside, across, rate, inside, rate, steps, _tree(across))
        return self._torus_group(places, inside, across)

    def _torus_group(self, places: list[Place], inside: int, across: int) -> Group:
        link = self.device.link_bytes_per_s
        rate, longest, line, steps = 0.0, 1, link, 0
        for place in places:
            for size, wraps in zip(place.sizes, place.wraps, strict=True):
                if size == 1:
                    continue
                one = link * (2 if wraps else 1) / place.shared
                rate += one
                steps += size // 2 if wraps else size - 1
                if size >= longest:
                    longest, line = size, one
        return Group(inside, across, rate or link, longest, line, steps, _tree(across))


def _tree(size: int) -> int:
    return math.ceil(math.log2(size)) if size > 1 else 0


Timer = Callable[[Group, float, DeviceSpec], tuple[float, float]]


def _gather(group: Group, count: float, device: DeviceSpec) -> tuple[float, float]:
    within = count * (group.inside - 1) / group.inside / group.rate
    seconds, steps = within, group.steps * device.hop_seconds
    if group.across > 1:
        part = count / group.inside
        share = part * (group.across - 1) / group.across
        seconds += share / device.network_bytes_per_s
        steps += group.across_steps * device.network_hop_seconds
    return seconds, steps


def _reduce(group: Group, count: float, device: DeviceSpec) -> tuple[float, float]:
    """Scatter, then gather."""
    seconds, steps = _gather(group, count, device)
    return 2 * seconds, 2 * steps


def _to_all(group: Group, count: float, device: DeviceSpec) -> tuple[float, float]:
    """Every device sends a part to every other; a torus is limited by its middle."""
    within = count * (group.inside - 1) / group.inside / group.rate
    if device.topology != "switch":
        within = max(within, count * group.longest / 4 / group.line_rate)
    seconds, steps = within, group.steps * device.hop_seconds
    if group.across > 1:
        share = count * (group.across - 1) / group.across
        seconds += share / device.network_bytes_per_s
        steps += group.across_steps * device.network_hop_seconds
    return seconds, steps


def _permute(group: Group, count: float, device: DeviceSpec) -> tuple[float, float]:
    if group.across > 1:
        return count / device.network_bytes_per_s, device.network_hop_seconds
    return count / group.line_rate, group.steps * device.hop_seconds


def _shared(group: Group, count: float, device: DeviceSpec) -> tuple[float, float]:
    """Copies within one memory: all bytes of the whole, however many devices."""
    return count / group.rate, group.steps * device.hop_seconds


_TIMES: dict[str, Timer] = {
    "all_gather": _gather,
    "reduce_scatter": _gather,
    "all_reduce": _reduce,
    "all_to_all": _to_all,
    "collective_permute": _permute,
}
