"""jax's meshes for tests."""

from __future__ import annotations

import jax
from jax.sharding import AxisType


def explicit(**axes: int) -> jax.sharding.Mesh:
    """A mesh whose axes are Explicit: jax's default from 0.9 on, a warning before."""
    types = (AxisType.Explicit,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=types)
