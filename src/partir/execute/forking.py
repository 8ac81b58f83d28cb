"""Forked processes: JAX's threads are not in them, and running a program would hang."""

from __future__ import annotations

import os

from partir.errors import PartirError
from partir.execute.jax_private import uses_devices

stranded = False
"""Whether this process was forked from one that had begun to use devices."""


def _after_fork() -> None:
    global stranded
    stranded = stranded or uses_devices()


os.register_at_fork(after_in_child=_after_fork)


def refuse_stranded() -> None:
    """Say why nothing can be run here."""
    raise PartirError(
        "this process was forked from one that uses JAX, whose threads it does not "
        "have, so that running a program would never end. Partitioning, estimates and "
        "reports work; to run programs, start processes another way: "
        'multiprocessing.get_context("spawn")'
    )
