"""Layouts as `PartitionSpec`s, and as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jax.sharding import PartitionSpec

from partir.ir.core import Port
from partir.rules.nest import Tiling


def port_spec(tiling: Tiling, port: Port) -> PartitionSpec:
    """Trailing dimensions that are whole are left out."""
    entries = [
        axes[0] if len(axes) == 1 else (axes or None) for axes in tiling[: port.rank]
    ]
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


def specs_data(
    ports: Iterable[Port], specs: Iterable[PartitionSpec]
) -> dict[str, list[list[str]]]:
    """Axes of each dimension, by name."""
    pairs = zip(ports, specs, strict=True)
    return {port.name: [_axes(entry) for entry in spec] for port, spec in pairs}


def _axes(entry: Any) -> list[str]:
    """Axes of one entry of a PartitionSpec."""
    if entry is None:
        return []
    return [entry] if isinstance(entry, str) else list(entry)
