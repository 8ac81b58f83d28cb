"""Devices, shardings and placement of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding

from partir.errors import PartitionError
from partir.execute.jax_private import spec_text, weaken
from partir.execute.module import wrap_key
from partir.execute.padded_arrays import Uneven
from partir.frontend.leaves import abstract, show_aval
from partir.mesh import Mesh


def device_mesh(mesh: Mesh, devices: Any = None) -> jax.sharding.Mesh:
    """A mesh of real (or virtual) devices in the shape of ours.

    `devices` may be a sequence of devices, or a jax Mesh with the same axes, which may
    come in another order; their types, Auto or Explicit, stay.
    """
    types = (AxisType.Auto,) * len(mesh.axes)
    if isinstance(devices, jax.sharding.Mesh):
        if dict(devices.shape) != mesh.axes:
            raise PartitionError(
                f"the program is partitioned for mesh {mesh}, but devices= is a jax "
                f"mesh {dict(devices.shape)}: their axes must be the same"
            )
        order = [devices.axis_names.index(name) for name in mesh.names]
        grid = np.transpose(devices.devices, order)
        types = tuple(devices.axis_types[i] for i in order)
    else:
        grid = _grid(mesh, jax.devices() if devices is None else _listed(devices))
    return jax.sharding.Mesh(grid, mesh.names, axis_types=types)


def _listed(devices: Any) -> list[jax.Device]:
    """Devices that the user gave, checked: each is one, and there once."""
    if isinstance(devices, np.ndarray):
        devices = devices.ravel()
    single = isinstance(devices, (str, jax.Device)) or not np.iterable(devices)
    listed = [] if single else list(devices)
    wrong = devices if single else [d for d in listed if not isinstance(d, jax.Device)]
    if single or wrong:
        raise PartitionError(
            f"devices= takes jax devices, as in jax.devices()[:8], or a jax Mesh of "
            f"them; got {wrong!r}"
        )
    if len(set(listed)) < len(listed):
        twice = next(d for n, d in enumerate(listed) if d in listed[:n])
        raise PartitionError(f"devices= holds {twice} more than once")
    return listed


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


def is_explicit(mesh: Any) -> bool:
    """Whether a mesh has axes on which layouts are part of arrays' types."""
    return AxisType.Explicit in mesh.axis_types


def several_processes(mesh: Any) -> bool:
    """Whether other processes hold some of the mesh's devices."""
    return bool(mesh.is_multi_process)


def is_concrete(leaf: Any) -> bool:
    """Whether this is an array of jax's with values, not one that is traced."""
    return isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)


def is_placed(leaf: Any) -> bool:
    """Whether an array lies on devices by somebody's wish: ours, mostly."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf.sharding is not None
    return isinstance(leaf, jax.core.Tracer) or (is_concrete(leaf) and leaf.committed)


def place(
    name: str, leaf: Any, wanted: NamedSharding, uneven: Uneven | None = None
) -> Any:
    """An argument ready for a call: on our mesh, checked if committed, else put there.

    jit would place it too. But the mesh is part of an array's type, so jit would trace
    and compile once for what comes from the host, and again for its own results.

    Raises:
        PartitionError: a committed array lies in another layout.
    """
    if uneven is not None and np.shape(leaf) == uneven.shape:
        leaf = _padded(name, leaf, uneven)
    if isinstance(leaf, jax.core.Tracer):
        return leaf
    if isinstance(leaf, jax.ShapeDtypeStruct):
        raise PartitionError(
            f'argument "{name}" is a shape, not an array: a call needs arrays; lower() '
            "and partitioned() take shapes"
        )
    if not isinstance(leaf, jax.Array) or not leaf.committed:
        if several_processes(wanted.mesh):
            return _spread(leaf, wanted)
        return jax.device_put(leaf, wanted)
    if leaf.sharding == wanted:
        return leaf
    if not _same_layout(leaf, wanted):
        raise PartitionError(
            f'argument "{name}" is sharded as {_layout(leaf.sharding)}, but '
            f"the program wants {_layout(wanted)}. It is never moved inside the "
            "program: place it first with Partitioned.shard(...), or create it so with "
            "Partitioned.in_shardings()"
        )
    mesh = getattr(leaf.sharding, "mesh", None)
    return leaf if mesh == wanted.mesh else _rewrap(leaf, wanted)


def _padded(name: str, leaf: Any, uneven: Uneven) -> Any:
    """An array as it is to lie on the devices; one that lies on some stays there."""
    if is_concrete(leaf) and leaf.committed:
        raise PartitionError(
            f'argument "{name}" is to be padded from {uneven.shape} to '
            f"{uneven.padded}, but lies on devices already: place it first with "
            "Partitioned.shard(...)"
        )
    return uneven.pad(leaf if isinstance(leaf, jax.Array) else np.asarray(leaf))


def _same_layout(leaf: jax.Array, wanted: NamedSharding) -> bool:
    """Whether every device holds the part that it should, whatever the mesh."""
    given = leaf.sharding
    if given.device_set != wanted.device_set:
        return False
    if given.is_equivalent_to(wanted, leaf.ndim):
        return True
    return bool(
        given.devices_indices_map(leaf.shape) == wanted.devices_indices_map(leaf.shape)
    )


def _rewrap(leaf: jax.Array, wanted: NamedSharding) -> Any:
    """The same shards under our mesh; nothing is copied, but numbers and keys."""
    if getattr(leaf, "weak_type", True):  # a PRNG key has no weak type
        return jax.device_put(leaf, wanted)
    shards = [shard.data for shard in leaf.addressable_shards]
    return jax.make_array_from_single_device_arrays(leaf.shape, wanted, shards)


def _layout(sharding: Any) -> str:
    if isinstance(sharding, NamedSharding):
        axes = ",".join(f"{n}={s}" for n, s in sharding.mesh.shape.items())
        return f"{spec_text(sharding.spec)} on mesh {axes}"
    return str(sharding)


def shard_leaf(
    name: str,
    leaf: Any,
    aval: jax.ShapeDtypeStruct,
    wanted: NamedSharding,
    uneven: Uneven | None = None,
) -> Any:
    """Place a host or single-device array; with several processes, their parts."""
    if uneven is not None and np.shape(leaf) == uneven.shape:
        leaf = uneven.pad(leaf if isinstance(leaf, jax.Array) else np.asarray(leaf))
    given, mesh = abstract(leaf), wanted.mesh
    if given is None or given.dtype != aval.dtype or given.ndim != aval.ndim:
        raise PartitionError(_unfit(name, given, aval))
    is_global = isinstance(leaf, jax.Array) and not leaf.is_fully_addressable
    if several_processes(mesh) and not is_global:
        try:
            return _from_parts(leaf, aval.shape, wanted)
        except ValueError:
            raise PartitionError(_unfit(name, given, aval)) from None
    if given.shape != aval.shape:
        raise PartitionError(_unfit(name, given, aval))
    return jax.device_put(leaf, wanted)


def _unfit(
    name: str, given: jax.ShapeDtypeStruct | None, aval: jax.ShapeDtypeStruct
) -> str:
    shown = "no array" if given is None else show_aval(given)
    parts = ", or this process's part of it" if jax.process_count() > 1 else ""
    return f'shard: "{name}" is {shown}, but the program takes {show_aval(aval)}{parts}'


# Several processes, for which jax.device_put will not do


def _spread(leaf: Any, wanted: NamedSharding) -> Any:
    """Host data that every process has, as one global array."""

    def make(whole: np.ndarray) -> Any:
        return jax.make_array_from_callback(whole.shape, wanted, whole.__getitem__)

    return _as_given(leaf, make)


def _from_parts(leaf: Any, shape: tuple[int, ...], wanted: NamedSharding) -> Any:
    """Each process's part, or the whole on each, as one global array."""

    def make(part: np.ndarray) -> Any:
        whole = shape + part.shape[len(shape) :]  # a key has more dimensions than seen
        return jax.make_array_from_process_local_data(wanted, part, whole)

    return _as_given(leaf, make)


def _as_given(leaf: Any, make: Callable[[np.ndarray], Any]) -> Any:
    """A global array made of numbers, with the type that the leaf has for jax."""
    aval = abstract(leaf)
    assert aval is not None
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return wrap_key(make(np.asarray(jax.random.key_data(leaf))), aval.dtype)
    array = make(np.asarray(leaf, dtype=aval.dtype))
    return jax.jit(weaken)(array) if aval.weak_type else array
