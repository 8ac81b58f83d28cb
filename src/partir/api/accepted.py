"""What users may pass where one thing can be said in several ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import jax
import numpy as np

from partir.mesh import Mesh
from partir.tactics.schedule import Tactic

MeshLike: TypeAlias = (
    Mesh | Mapping[str, int] | jax.sharding.Mesh | jax.sharding.AbstractMesh
)
"""A mesh, its axes with their sizes, or jax's."""

ScheduleLike: TypeAlias = Tactic | Iterable[Tactic]
"""Tactics in order, or a single one; a schedule is a tactic too."""

DevicesLike: TypeAlias = Sequence[jax.Device] | np.ndarray | jax.sharding.Mesh
"""Devices to run on."""
