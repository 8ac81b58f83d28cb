"""Where each mesh axis lies in the devices' topology.

The default, stated: axes are placed from the last, which varies fastest over device
numbers, to the first. They fill a node before the network between nodes is used; an
axis that crosses the border is split into a part within nodes and a part across. In
a torus each axis takes a dimension of its own while there are dimensions, the last
axis first; dimensions left over go to the largest axes, and further axes share the
last dimension. `partir.Mesh(..., links={"B": "network", "M": "node"})` says otherwise,
and ``links={"B": "xy", "M": "z"}`` names a torus's dimensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from partir.errors import PartitionError
from partir.mesh import Mesh
from partir.simulate.device.spec import DeviceSpec

_NAMES = "xyzuvw"


@dataclass(frozen=True, slots=True)
class Place:
    """One mesh axis: `sizes` along dimensions of a node, `across` many nodes.

    In a switch there is one dimension. `shared` is how many axes a link serves.
    """

    sizes: tuple[int, ...]
    across: int
    wraps: tuple[bool, ...]
    shared: int = 1

    @property
    def inside(self) -> int:
        """Devices of this axis within a node."""
        return math.prod(self.sizes)


def place_axes(mesh: Mesh, device: DeviceSpec) -> dict[str, Place]:
    """Where each axis lies; a PartitionError if the mesh does not fit the device."""
    inside, across = _levels(mesh, device)
    if max(across.values(), default=1) > 1 and not device.network_bytes_per_s:
        raise PartitionError(
            f"mesh {mesh} of {mesh.size} devices does not fit {device.name}: a node "
            f"has {device.node_size} and there is no network between nodes "
            "(network_bytes_per_s is 0)"
        )
    if device.topology in ("switch", "shared"):
        return {a: Place((inside[a],), across[a], (False,)) for a in mesh}
    return _torus(mesh, device, inside, across)


def _levels(mesh: Mesh, device: DeviceSpec) -> tuple[dict[str, int], dict[str, int]]:
    """Each axis's part within nodes and across them."""
    room = device.node_size or mesh.size
    given = mesh.links
    inside, across = {}, {}
    # Those that are to lie within a node have the first choice.
    for axis in sorted(reversed(mesh.names), key=lambda a: a not in given):
        size, wanted = mesh.axes[axis], given.get(axis)
        if wanted == "network":
            here = 1
        elif wanted is not None or size <= room:
            here = size
        else:
            here = math.gcd(size, room)
        if here > room:
            raise PartitionError(
                f"mesh {mesh} does not fit {device.name} with links {given}: axis "
                f'"{axis}" of {size} is to lie within a node, which has room for '
                f"{room} more devices"
            )
        inside[axis], across[axis] = here, size // here
        room //= here
    return inside, across


def _torus(
    mesh: Mesh, device: DeviceSpec, inside: dict[str, int], across: dict[str, int]
) -> dict[str, Place]:
    dims = device.torus_dims if device.topology in ("torus", "mesh") else 1
    taken = _dimensions(mesh, device, inside, dims)
    users = {d: sum(d in own for own in taken.values()) for d in range(dims)}
    whole = dict.fromkeys(range(dims), 1)
    split = {a: _split(inside[a], len(taken[a])) for a in mesh}
    for axis, own in taken.items():
        for dim, size in zip(own, split[axis], strict=True):
            whole[dim] *= size
    wraps = device.topology in ("torus", "ring")
    return {
        axis: Place(
            split[axis],
            across[axis],
            tuple(wraps and whole[d] >= device.wrap_size for d in taken[axis]),
            max((users[d] for d in taken[axis]), default=1),
        )
        for axis in mesh
    }


def _dimensions(
    mesh: Mesh, device: DeviceSpec, inside: dict[str, int], dims: int
) -> dict[str, tuple[int, ...]]:
    """Dimensions of the torus that each axis takes."""
    taken: dict[str, tuple[int, ...]] = {a: () for a in mesh}
    for axis, text in mesh.links.items():
        if text not in ("node", "network"):
            taken[axis] = tuple(_dimension(mesh, device, c, dims) for c in text)
    used = {d for own in taken.values() for d in own}
    free = [d for d in range(dims) if d not in used]
    waiting = [a for a in reversed(mesh.names) if inside[a] > 1 and not taken[a]]
    for axis in waiting:
        taken[axis] = (free.pop(),) if free else (dims - 1,)
    largest = sorted(waiting, key=lambda a: -inside[a])
    while free and largest:
        axis = largest.pop(0)
        if _composite(inside[axis]):
            taken[axis] = (free.pop(), *taken[axis])
    return taken


def _dimension(mesh: Mesh, device: DeviceSpec, name: str, dims: int) -> int:
    if name not in _NAMES[:dims]:
        raise PartitionError(
            f"mesh {mesh}: links {mesh.links} name {name!r}, but {device.name} has "
            f'dimensions {", ".join(_NAMES[:dims])}; or say "node" or "network"'
        )
    return _NAMES.index(name)


def _composite(size: int) -> bool:
    return any(size % n == 0 for n in range(2, math.isqrt(size) + 1))


def _split(size: int, parts: int) -> tuple[int, ...]:
    """A size as `parts` factors, as equal as can be.

    >>> _split(16, 2), _split(32, 2), _split(8, 1)
    ((4, 4), (4, 8), (8,))
    """
    sizes = []
    for left in range(parts, 1, -1):
        ideal = size ** (1 / left)
        fitting = [n for n in range(1, size + 1) if size % n == 0 and n <= ideal + 1e-9]
        sizes.append(fitting[-1])
        size //= sizes[-1]
    return (*sizes, size) if parts else ()
