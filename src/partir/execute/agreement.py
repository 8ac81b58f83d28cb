"""Several processes must run one program, or they wait for each other forever."""

from __future__ import annotations

import hashlib
import re

import jax
import numpy as np
from jax.experimental import multihost_utils

from partir.errors import PartitionError
from partir.execute.runner import Plan

_LOCATIONS = re.compile(r"^#loc.*$| loc\(#loc\d+\)", re.MULTILINE)


def require_agreement(plan: Plan, mesh: jax.sharding.Mesh) -> None:
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


def fingerprint(plan: Plan) -> bytes:
    """Of the program and its layouts; where it was written does not count."""
    program = _LOCATIONS.sub("", plan.module.text)
    layouts = repr((plan.in_specs, plan.out_specs))
    return hashlib.sha256(f"{program}\n{layouts}".encode()).digest()
