"""What tests do alike on every version of jax."""

from __future__ import annotations

import doctest

import jax
from jax.sharding import AxisType


def explicit(**axes: int) -> jax.sharding.Mesh:
    """A mesh whose axes are Explicit: jax's default from 0.9 on, a warning before."""
    types = (AxisType.Explicit,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=types)


def spelled(printed: str) -> str:
    """What jax printed, as 0.9 and later spell it: P('B') for PartitionSpec('B')."""
    old = jax.__version_info__ < (0, 9)
    return printed.replace("PartitionSpec(", "P(") if old else printed


class OutputChecker(doctest.OutputChecker):
    """Compares what examples print, however this version of jax spells it."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, spelled(got), optionflags)
