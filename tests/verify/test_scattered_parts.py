"""What is scattered into tiles along one axis, in parts along another."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import Array

import partir

MESH = {"B": 2, "M": 2}


def rows_added(t: Array, i: Array, u: Array) -> Array:
    return jnp.sin(jnp.zeros_like(t).at[i].add(u)) + t


@pytest.fixture(scope="module")
def scattered() -> partir.Partitioned:
    shapes = (((16, 4), "float32"), ((6,), "int32"), ((6, 4), "float32"))
    tactics = [
        partir.ManualPartition({"t": 0}, axis="M"),
        partir.ManualPartition({"i": 0, "u": 0}, axis="B"),
    ]
    args = [jax.ShapeDtypeStruct(*one) for one in shapes]
    return partir.partition(rows_added, MESH, tactics, args=args)


def test_parts_are_proved(scattered: partir.Partitioned) -> None:
    assert sum(scattered.collectives.values()) == 1
    assert not scattered.verify().not_proved


def _groups(*numbers: int) -> str:
    return "".join(n.to_bytes(8, "little").hex() for n in numbers)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("dense<8> : tensor<i32>", "dense<7> : tensor<i32>", id="tiles"),
        pytest.param('lo.subtract"', 'lo.add"', id="shifted the other way"),
        pytest.param('lo.add"', 'lo.maximum"', id="largest"),
        pytest.param(_groups(0, 2, 1, 3), _groups(0, 1, 2, 3), id="another axis"),
    ],
)
def test_mistakes_are_found(
    scattered: partir.Partitioned, right: str, wrong: str
) -> None:
    text = scattered.stablehlo()
    assert right in text
    for at in range(text.count(right)):
        parts = text.split(right)
        made = right.join(parts[: at + 1]) + wrong + right.join(parts[at + 1 :])
        assert scattered.proof(made).not_proved
