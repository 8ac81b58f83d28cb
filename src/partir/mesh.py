"""`Mesh`: ordered, named axes with sizes. Logical: it needs no devices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from partir.errors import PartitionError

MOST_DEVICES = 2**31 - 1


class Mesh:
    """Ordered named axes and their sizes, major axis first.

    Example:
        >>> mesh = Mesh({"B": 4, "M": 2})
        >>> mesh.size, mesh["M"], mesh.names
        (8, 2, ('B', 'M'))
    """

    __slots__ = ("axes", "links")

    def __init__(
        self, axes: Mapping[str, int], links: Mapping[str, str] | None = None
    ) -> None:
        """Check and keep the axes; any mapping of names to positive sizes will do.

        `links` says for the simulator where axes lie: ``"node"``, ``"network"``, or
        dimensions of a torus such as ``"xy"``; it has a default for the others.
        """
        if not isinstance(axes, Mapping) or not axes:
            raise PartitionError(
                f"a mesh needs named axes with sizes, got {axes!r}; "
                'write for example partir.Mesh({"B": 4, "M": 2})'
            )
        for name, size in axes.items():
            plain = isinstance(name, str) and name.isidentifier() and name.isascii()
            if not plain:  # others stop XLA, and the process with it
                raise PartitionError(
                    f"mesh axis {name!r} is not a name: use ASCII letters, digits and _"
                )
            whole = hasattr(size, "__index__") and not isinstance(size, bool)
            if not whole or size < 1:
                raise PartitionError(
                    f'mesh axis "{name}" has size {size!r}: it must be a whole '
                    "number of at least 1"
                )
        self.axes: dict[str, int] = {name: int(size) for name, size in axes.items()}
        if self.size > MOST_DEVICES:
            raise PartitionError(
                f"a mesh of {self.size} devices is more than XLA can number: at most "
                f"{MOST_DEVICES}"
            )
        if links is not None and not isinstance(links, Mapping):
            raise PartitionError(
                f"links= says of mesh axes where they lie, got {links!r}; write for "
                f'example links={{"{next(iter(self.axes))}": "node"}}'
            )
        self.links: dict[str, str] = dict(links or {})
        for name, link in self.links.items():
            self[name]
            if not isinstance(link, str) or not link:
                raise PartitionError(
                    f'links of mesh axis "{name}": say "node", "network" or '
                    f'dimensions of a torus such as "xy", got {link!r}'
                )

    @classmethod
    def of(cls, mesh: object) -> Mesh:
        """Accept our own mesh, a mapping, or anything shaped like jax's Mesh."""
        if isinstance(mesh, Mesh):
            return mesh
        if isinstance(mesh, Mapping):
            return cls(mesh)
        shape = getattr(mesh, "shape", None)
        if isinstance(shape, Mapping):
            return cls({str(name): int(size) for name, size in shape.items()})
        others = [mesh, *mesh] if isinstance(mesh, list | tuple) else [mesh]
        swapped = callable(mesh) or any(hasattr(one, "apply") for one in others)
        raise PartitionError(
            'a mesh is a partir.Mesh, a mapping such as {"B": 4, "M": 2} or a '
            f"jax.sharding.Mesh; got {type(mesh).__name__}: {mesh!r}"
            + ("; the order is function, mesh, schedule" if swapped else "")
        )

    @classmethod
    def parse(cls, text: str) -> Mesh:
        """Read the command line's form.

        >>> Mesh.parse("B=4,M=2")
        Mesh({'B': 4, 'M': 2})
        """
        axes: dict[str, int] = {}
        for part in text.split(","):
            name, equals, size = part.partition("=")
            if not equals or not size.strip().isdigit():
                raise PartitionError(
                    f"can't read mesh {text!r} at {part!r}: write it as B=4,M=2"
                )
            if name.strip() in axes:
                raise PartitionError(f"mesh {text!r} names axis {name!r} twice")
            axes[name.strip()] = int(size)
        return cls(axes)

    @property
    def names(self) -> tuple[str, ...]:
        """Axis names, major first."""
        return tuple(self.axes)

    @property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.axes.values())

    def __getitem__(self, axis: str) -> int:
        """Size of an axis; a PartitionError that lists the axes if unknown."""
        size = self.axes.get(axis)
        if size is None:
            raise PartitionError(
                f'mesh has no axis "{axis}"; it has '
                + ", ".join(f'"{n}" of size {s}' for n, s in self.axes.items())
            )
        return size

    def __iter__(self) -> Iterator[str]:
        """Iterate over axis names."""
        return iter(self.axes)

    def __contains__(self, axis: object) -> bool:
        """Whether the mesh has this axis."""
        return axis in self.axes

    def __eq__(self, other: object) -> bool:
        """Equal when names, sizes and order are."""
        if not isinstance(other, Mesh) or self.links != other.links:
            return False
        return list(self.axes.items()) == list(other.axes.items())

    def __hash__(self) -> int:
        """Hash of the ordered axes."""
        return hash(tuple(self.axes.items()))

    def __repr__(self) -> str:
        """As it would be written."""
        links = f", links={self.links!r}" if self.links else ""
        return f"Mesh({self.axes!r}{links})"

    def __str__(self) -> str:
        """As the command line takes it: ``B=4,M=2``."""
        return ",".join(f"{n}={s}" for n, s in self.axes.items())
