"""Idle ticks of a pipeline, told by the name scope of its loop.

A pipeline is an ordinary loop: nothing in its ops says that stages wait at its ends.
Its scope does, and survives gradients and loops around it.
"""

from __future__ import annotations

import re

_SCOPE = re.compile(r"\bpipelined\.idle_(\d+)_of_(\d+)\b")


def idle_scope(idle: int, ticks: int) -> str:
    """The scope of a loop of `ticks`, in `idle` of which a stage waits.

    >>> idle_scope(3, 11)
    'pipelined.idle_3_of_11'
    """
    return f"pipelined.idle_{idle}_of_{ticks}"


def idle_ticks(path: str) -> tuple[int, int] | None:
    """Idle ticks and all of them, of the innermost pipeline in a name stack.

    >>> idle_ticks("jit(step)/transpose(jvp(pipelined.idle_3_of_11))/while")
    (3, 11)
    """
    found = _SCOPE.findall(path)
    return (int(found[-1][0]), int(found[-1][1])) if found else None
