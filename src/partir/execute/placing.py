"""Devices, shardings and placement of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding

from partir.errors import PartitionError
from partir.frontend.leaves import abstract, show_aval
from partir.mesh import Mesh


def device_mesh(mesh: Mesh, devices: Any = None) -> jax.sharding.Mesh:
    """A mesh of real (or virtual) devices in the shape of ours.

    `devices` may be a jax Mesh with the same axes, or a sequence of devices.
    """
    if isinstance(devices, jax.sharding.Mesh):
        if dict(devices.shape) != mesh.axes:
            raise PartitionError(
                f"the program is partitioned for mesh {mesh}, but devices= is a jax "
                f"mesh {dict(devices.shape)}: their axes must be the same"
            )
        grid = np.transpose(
            devices.devices, [devices.axis_names.index(name) for name in mesh.names]
        )
    else:
        grid = _grid(mesh, jax.devices() if devices is None else list(devices))
    types = (AxisType.Auto,) * len(mesh.axes)
    return jax.sharding.Mesh(grid, mesh.names, axis_types=types)


def _grid(mesh: Mesh, devices: Sequence[Any]) -> np.ndarray:
    if len(devices) < mesh.size:
        platform = devices[0].platform if devices else "no"
        raise PartitionError(
            f"mesh {mesh} needs {mesh.size} devices, but there are {len(devices)} "
            f"({platform}). To run on virtual CPU devices, before jax starts, set "
            f'jax.config.update("jax_num_cpu_devices", {mesh.size}) or '
            f"XLA_FLAGS=--xla_force_host_platform_device_count={mesh.size}. "
            "Partitioning and looking need no devices: partir.partition(...)"
        )
    shape = tuple(mesh.axes.values())
    return np.array(devices[: mesh.size], dtype=object).reshape(shape)


def several_processes() -> bool:
    """Whether other processes hold some of the devices."""
    return bool(jax.process_count() > 1)


def place(name: str, leaf: Any, wanted: NamedSharding) -> Any:
    """An argument ready for a call: checked if committed, else left to jax.

    Raises:
        PartitionError: a committed array lies in another layout.
    """
    if isinstance(leaf, jax.core.Tracer):
        return leaf
    if not isinstance(leaf, jax.Array) or not leaf.committed:
        return _spread(leaf, wanted) if several_processes() else leaf
    if leaf.sharding == wanted:
        return leaf
    if not _same_layout(leaf, wanted):
        raise PartitionError(
            f'argument "{name}" lies on the devices as {_layout(leaf.sharding)}, but '
            f"the program wants {_layout(wanted)}. It is never moved inside the "
            "program: place it first with Partitioned.shard(...), or create it so with "
            "Partitioned.in_shardings()"
        )
    return _rewrap(leaf, wanted) if _is_explicit(leaf.sharding) else leaf


def _same_layout(leaf: jax.Array, wanted: NamedSharding) -> bool:
    if leaf.sharding.device_set != wanted.device_set:
        return False
    return bool(leaf.sharding.is_equivalent_to(wanted, leaf.ndim))


def _rewrap(leaf: jax.Array, wanted: NamedSharding) -> Any:
    """The same shards under our mesh: another mesh's axis types don't matter."""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        return jax.device_put(leaf, wanted)
    shards = [shard.data for shard in leaf.addressable_shards]
    return jax.make_array_from_single_device_arrays(leaf.shape, wanted, shards)


def _is_explicit(sharding: Any) -> bool:
    mesh = getattr(sharding, "mesh", None)
    return mesh is not None and AxisType.Explicit in mesh.axis_types


def _layout(sharding: Any) -> str:
    if isinstance(sharding, NamedSharding):
        axes = ",".join(f"{n}={s}" for n, s in sharding.mesh.shape.items())
        return f"{sharding.spec} on mesh {axes}"
    return str(sharding)


# Several processes


def _spread(leaf: Any, wanted: NamedSharding) -> Any:
    """Host data that every process has, as one global array."""
    aval = abstract(leaf)
    assert aval is not None
    if aval.weak_type or _is_extended(aval):
        return jax.device_put(leaf, wanted)
    whole = np.asarray(leaf, dtype=aval.dtype)
    return jax.make_array_from_callback(whole.shape, wanted, lambda i: whole[i])


def _is_extended(aval: jax.ShapeDtypeStruct) -> bool:
    return bool(jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended))


def shard_leaf(
    name: str, leaf: Any, aval: jax.ShapeDtypeStruct, wanted: NamedSharding
) -> Any:
    """Place a host or single-device array; with several processes, their parts."""
    given = abstract(leaf)
    if given is None or given.dtype != aval.dtype or given.ndim != aval.ndim:
        raise PartitionError(_unfit(name, given, aval))
    ours = isinstance(leaf, jax.Array) and not leaf.is_fully_addressable
    if not several_processes() or ours or _is_extended(aval):
        if given.shape != aval.shape:
            raise PartitionError(_unfit(name, given, aval))
        return jax.device_put(leaf, wanted)
    try:
        local = np.asarray(leaf, dtype=aval.dtype)
        return jax.make_array_from_process_local_data(wanted, local, aval.shape)
    except ValueError:
        raise PartitionError(_unfit(name, given, aval)) from None


def _unfit(
    name: str, given: jax.ShapeDtypeStruct | None, aval: jax.ShapeDtypeStruct
) -> str:
    shown = "no array" if given is None else show_aval(given)
    parts = ", or this process's part of it" if several_processes() else ""
    return f'shard: "{name}" is {shown}, but the program takes {show_aval(aval)}{parts}'
