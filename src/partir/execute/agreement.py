"""Several processes must run one program, or they wait for each other forever."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from partir.errors import PartitionError
from partir.execute.runner import CallPlan
from partir.mesh import Mesh

_LOCATIONS = re.compile(r"^#loc.*$| loc\(#loc\d+\)", re.MULTILINE)


def require_agreement(plan: CallPlan, mesh: jax.sharding.Mesh) -> None:
    """Compare fingerprints of the device-local program among all processes.

    Nothing is compared if the mesh leaves out some of them: those would not answer.
    """
    processes = {device.process_index for device in mesh.devices.flat}
    if len(processes) < 2 or len(processes) < jax.process_count():
        return
    mine = np.frombuffer(fingerprint(plan), np.uint8)
    everyones = np.asarray(multihost_utils.process_allgather(mine))
    different = np.flatnonzero((everyones != everyones[0]).any(axis=1))
    if different.size:
        raise PartitionError(
            f"process {different[0]} has made another program of {plan.name} than "
            "process 0: all processes must partition the same function for the same "
            "shapes, by the same schedule, with the same settings of jax"
        )


def shared(make: Callable[[], bytes], mesh: Mesh, devices: Any) -> bytes:
    """What process 0 makes, in all processes that a mesh spans; else made here."""
    if not jax.distributed.is_initialized() or not _spans_all(mesh, devices):
        return make()
    first = jax.process_index() == 0
    mine = np.frombuffer(make() if first else b"", np.uint8)
    length = int(multihost_utils.broadcast_one_to_all(np.int64(mine.size)))
    sent = mine if first else np.zeros(length, np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(sent)).tobytes()


def _spans_all(mesh: Mesh, devices: Any) -> bool:
    """Whether every process takes part: only then all of them come here."""
    given = getattr(devices, "devices", devices)
    if given is None:
        return jax.process_count() > 1 and mesh.size == len(jax.devices())
    processes = {device.process_index for device in np.ravel(np.asarray(given))}
    return len(processes) > 1 and len(processes) == jax.process_count()


def fingerprint(plan: CallPlan) -> bytes:
    """Of the program and its layouts; where it was written does not count."""
    program = _LOCATIONS.sub("", plan.module.text)
    layouts = repr((plan.in_specs, plan.out_specs))
    return hashlib.sha256(f"{program}\n{layouts}".encode()).digest()
