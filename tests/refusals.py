"""The function that tests of messages partition, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir import ManualPartition

MESH = {"B": 4, "M": 2}
WISHES = (
    "a dimension, partir.padded(dimension), partir.FIRST_DIVISIBLE_DIM, "
    "partir.REPLICATED or partir.UNKNOWN"
)


def mlp(params: dict[str, Array], x: Array) -> Array:
    return jnp.tanh(x @ params["w1"]) @ params["w2"]


LINE = f"tests/refusals.py:{mlp.__code__.co_firstlineno + 1} (mlp)"
ARGS: Any = (
    {
        "w1": jax.ShapeDtypeStruct((8, 16), "float32"),
        "w2": jax.ShapeDtypeStruct((16, 6), "float32"),
    },
    jax.ShapeDtypeStruct((12, 8), "float32"),
)
BP = ManualPartition({"x": 0}, axis="B", name="BP")
MP = ManualPartition({"params/w1": 1}, axis="M", name="MP")


def arrays() -> tuple[dict[str, np.ndarray], np.ndarray]:
    return jax.tree.map(lambda s: np.ones(s.shape, s.dtype), ARGS)


def message(action: Callable[[], Any]) -> str:
    with pytest.raises(partir.PartitionError) as caught:
        action()
    return str(caught.value)


def refusal(*tactics: Any, **options: Any) -> str:
    """What partitioning the MLP with these tactics is answered."""
    return message(
        lambda: partir.partition(mlp, MESH, list(tactics), args=ARGS, **options)
    )


def says(wishes: Any, axis: str = "B", name: str = "T", **options: Any) -> Any:
    return ManualPartition(wishes, axis=axis, name=name, **options)
