"""Several processes must run one program, or they wait for each other forever."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from partir.execute.bulletin import Attempt, OtherProcess, can_post
from partir.execute.runner import CallPlan
from partir.mesh import Mesh

T = TypeVar("T")
_LOCATIONS = re.compile(r"^#loc.*$| loc\(#loc\d+\)", re.MULTILINE)


def require_agreement(plan: CallPlan, mesh: jax.sharding.Mesh) -> None:
    """Compare fingerprints of the device-local program among all processes.

    Nothing is compared if the mesh leaves out some of them: those would not answer. Nor
    if it has devices of more processes than there are, to compile for.
    """
    processes = _processes(mesh.devices)
    if not can_post() or not _are_all(processes):
        return
    with Attempt.at(f"running {plan.name}") as attempt:
        prints = attempt.exchanged(fingerprint(plan), sorted(processes), patient=False)
        different = [n for n, print_ in enumerate(prints) if print_ != prints[0]]
        if different:
            raise OtherProcess(
                f"process {different[0]} has made another program of {plan.name} than "
                "process 0: all processes must partition the same function for the "
                "same shapes, by the same schedule, with the same settings of jax"
            )


def shared(make: Callable[[], bytes], mesh: Mesh, devices: Any) -> bytes:
    """What process 0 makes, in all processes that a mesh spans; else made here."""
    if not spans_all(mesh, devices):
        return make()
    with Attempt.at("a search") as attempt:
        mine = make() if jax.process_index() == 0 else None
        found: list[bytes] = attempt.exchanged(mine, [0], patient=True)
        return found[0]


def told_to_all(what: str, make: Callable[[], T], mesh: Mesh, devices: Any) -> T:
    """Make something; if that fails and others would wait for it, they are told."""
    if not spans_all(mesh, devices):
        return make()
    with Attempt.at(what):
        return make()


def spans_all(mesh: Mesh, devices: Any) -> bool:
    """Whether there are several processes, and every one takes part.

    Only then all of them come to the same occasions.
    """
    if not can_post():
        return False
    given = getattr(devices, "devices", devices)
    if given is None:
        return jax.process_count() > 1 and mesh.size == len(jax.devices())
    return _are_all(_processes(given))


def _processes(devices: Any) -> set[int]:
    return {device.process_index for device in np.ravel(np.asarray(devices))}


def fingerprint(plan: CallPlan) -> bytes:
    """Of the program and its layouts; where it was written does not count."""
    program = _LOCATIONS.sub("", plan.module.text)
    layouts = repr((plan.in_specs, plan.out_specs))
    return hashlib.sha256(f"{program}\n{layouts}".encode()).digest()


def _are_all(processes: set[int]) -> bool:
    return len(processes) > 1 and len(processes) == int(jax.process_count())
