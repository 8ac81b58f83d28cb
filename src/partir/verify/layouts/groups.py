"""Replica groups, as tuples of mesh axes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from partir.ir.core import Signature
from partir.verify.layouts.layout import Unreadable

_HEX = re.compile(r'"0x([0-9A-Fa-f]+)"')
_INT = re.compile(r"-?\d+")
_MESH_AXIS = re.compile(r'<name = "([^"]+)", size = (\d+)>')


def dense(text: str) -> np.ndarray:
    """Numbers of a dense attribute of 64-bit integers, in its shape."""
    body, _, kind = text.rpartition(" : ")
    shape = [int(n) for n in re.findall(r"(\d+)x", kind)]
    found = _HEX.search(body)
    if found is not None:
        return np.frombuffer(bytes.fromhex(found[1]), "<i8").reshape(shape)
    numbers = np.array([int(n) for n in _INT.findall(body)], dtype=np.int64)
    return (
        np.broadcast_to(numbers, shape) if numbers.size == 1 else numbers.reshape(shape)
    )


def names_devices(attrs: Mapping[str, str]) -> bool:
    """Whether numbers are partitions', not replicas': there is a channel."""
    found = re.search(r"handle = (\d+)", attrs.get("channel_handle", ""))
    return found is not None and int(found[1]) > 0


def group_text(signature: Signature) -> str:
    """The groups of a collective, as it spells them; they must name devices."""
    attrs = signature.attrs
    named = signature.name == "all_to_all" or "use_global_device_ids" in attrs
    if not named or not names_devices(attrs):
        raise Unreadable("groups that do not name devices")
    return attrs["replica_groups"]


def axes_of(text: str, names: Sequence[str], sizes: Sequence[int]) -> tuple[int, ...]:
    """The mesh axes that the devices of a group differ in, major first."""
    if "axis_ref" in text:
        found = re.findall(r'axis_ref<name = "([^"]+)"\s*>', text)
        if len(found) != text.count("axis_ref"):
            raise Unreadable("groups over a part of an axis")
        if "device_ids" in text:
            raise Unreadable("groups by devices in another order than the mesh's")
        if _MESH_AXIS.findall(text) != [
            (n, str(s)) for n, s in zip(names, sizes, strict=True)
        ]:
            raise Unreadable("groups by the axes of another mesh")
        return tuple(names.index(name) for name in found)
    groups = dense(text)
    devices = np.arange(math.prod(sizes)).reshape(sizes)
    row = next((r for r in groups if r[0] == 0), groups[0])
    places = np.array(np.unravel_index(row, tuple(sizes)))
    varied = [axis for axis in range(len(sizes)) if len(set(places[axis])) > 1]
    for axes in itertools.permutations(varied):
        others = [axis for axis in range(len(sizes)) if axis not in axes]
        count = math.prod(sizes[axis] for axis in axes)
        wanted = devices.transpose([*others, *axes]).reshape(-1, count)
        if {*map(tuple, groups.tolist())} == {*map(tuple, wanted.tolist())}:
            return axes
    raise Unreadable("groups of devices that are not those of mesh axes")
