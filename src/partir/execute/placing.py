"""Devices, shardings and placement of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from partir.errors import PartitionError
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


def shardings(
    mesh: jax.sharding.Mesh, specs: Sequence[PartitionSpec]
) -> list[NamedSharding]:
    """Named shardings on a mesh."""
    return [NamedSharding(mesh, spec) for spec in specs]


def place(name: str, leaf: Any, wanted: NamedSharding) -> Any:
    """An argument ready for a call: checked if committed, else left to jax.

    Raises:
        PartitionError: a committed array lies in another layout.
    """
    if not isinstance(leaf, jax.Array):
        return _spread(leaf, wanted) if jax.process_count() > 1 else leaf
    if not leaf.committed:
        return _spread(leaf, wanted) if jax.process_count() > 1 else leaf
    if not _same_layout(leaf, wanted):
        raise PartitionError(
            f'argument "{name}" lies on the devices as {_layout(leaf.sharding)}, but '
            f"the program wants {_layout(wanted)}. It is never moved inside the "
            "program: place it first with Partitioned.shard(...), or create it so with "
            "Partitioned.in_shardings()"
        )
    if leaf.sharding == wanted or not isinstance(leaf.sharding, NamedSharding):
        return leaf
    return _rewrap(leaf, wanted)


def _same_layout(leaf: jax.Array, wanted: NamedSharding) -> bool:
    if leaf.sharding.device_set != wanted.device_set:
        return False
    return bool(leaf.sharding.is_equivalent_to(wanted, leaf.ndim))


def _rewrap(leaf: jax.Array, wanted: NamedSharding) -> jax.Array:
    """The same shards under our mesh: another mesh's axis types don't matter."""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        return jax.device_put(leaf, wanted)
    shards = [shard.data for shard in leaf.addressable_shards]
    return jax.make_array_from_single_device_arrays(leaf.shape, wanted, shards)


def _layout(sharding: Any) -> str:
    if isinstance(sharding, NamedSharding):
        axes = ",".join(f"{n}={s}" for n, s in sharding.mesh.shape.items())
        return f"{sharding.spec} on mesh {axes}"
    return str(sharding)


def _spread(leaf: Any, wanted: NamedSharding) -> Any:
    """Host data that every process has, as one global array."""
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(
        leaf.dtype, jax.dtypes.extended
    ):
        return jax.device_put(leaf, wanted)
    whole = np.asarray(leaf, dtype=jax.dtypes.canonicalize_dtype(np.result_type(leaf)))
    return jax.make_array_from_callback(whole.shape, wanted, lambda i: whole[i])


def shard_leaf(leaf: Any, aval: jax.ShapeDtypeStruct, wanted: NamedSharding) -> Any:
    """Place a host or single-device array; with several processes, their parts."""
    extended = jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)
    if jax.process_count() == 1 or extended:
        return jax.device_put(leaf, wanted)
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return jax.device_put(leaf, wanted)
    local = np.asarray(leaf, dtype=aval.dtype)
    return jax.make_array_from_process_local_data(wanted, local, aval.shape)
