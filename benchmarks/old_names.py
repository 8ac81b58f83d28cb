"""Names that jax dropped and that packages of models still use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax.numpy as jnp
from jax import Array


@contextlib.contextmanager
def old_names() -> Iterator[None]:
    """Gives `jnp.clip` back an argument name that T5 uses."""
    clip = jnp.clip

    def old_clip(x: Any, a_min: Any = None, a_max: Any = None) -> Array:
        return clip(x, a_min, a_max)

    with mock.patch.object(jnp, "clip", old_clip):
        yield
