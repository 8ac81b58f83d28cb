"""A small ResNet tiled on its batch and on its channels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from tests.e2e.compare import MESH, assert_same

BATCH, SIZE, WIDTH, CLASSES, BLOCKS = 8, 8, 8, 4, 2
BP = partir.ManualPartition({"images": 0, "labels": 0}, axis="B", name="BP")
CHANNELS = partir.ManualPartition({"params/block_*/first": 3}, axis="M", name="MP")

pytestmark = pytest.mark.usefixtures("double")


def convolve(x: Array, kernel: Array, stride: int = 1) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=layout
    )


def normalise(x: Array, norm: Array) -> Array:
    """Batch normalisation: means over the batch and the image."""
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.mean((x - mean) ** 2, axis=(0, 1, 2))
    return norm[0] * (x - mean) * lax.rsqrt(variance + 1e-5) + norm[1]


def loss(params: Any, images: Array, labels: Array) -> Array:
    x = convolve(images, params["stem"], stride=2)
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for number in range(BLOCKS):
        block = params[f"block_{number}"]
        hidden = jax.nn.relu(normalise(convolve(x, block["first"]), block["norm_1"]))
        x = jax.nn.relu(
            x + normalise(convolve(hidden, block["second"]), block["norm_2"])
        )
    logits = jnp.mean(x, axis=(1, 2)) @ params["head"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -jnp.mean(chosen)


def example() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)

    def block() -> dict[str, np.ndarray]:
        shapes = {
            "first": (3, 3, WIDTH, WIDTH),
            "norm_1": (2, WIDTH),
            "norm_2": (2, WIDTH),
            "second": (3, 3, WIDTH, WIDTH),
        }
        return {name: 0.5 * rng.normal(size=shape) for name, shape in shapes.items()}

    params = {
        "stem": rng.normal(size=(3, 3, 3, WIDTH)),
        "head": rng.normal(size=(WIDTH, CLASSES)),
        **{f"block_{number}": block() for number in range(BLOCKS)},
    }
    images = rng.normal(size=(BATCH, 2 * SIZE, 2 * SIZE, 3))
    return params, images, rng.integers(0, CLASSES, BATCH, np.int32)


def run(schedule: list[Any]) -> partir.Partitioned:
    args = example()
    step = jax.value_and_grad(loss)
    record = partir.partition(step, MESH, schedule, args=args)
    assert not record.replicated_ops
    assert_same(record.compile()(*args), jax.jit(step)(*args))
    return record


def assert_reduces_only(record: partir.Partitioned, times: int) -> None:
    assert record.collectives["all_reduce"] == times
    assert sum(record.collectives.values()) == times


TENSORS = 4 * BLOCKS + 2
MOMENTS = 4 * 2 * BLOCKS  # a batch norm's mean and variance, and their gradients


def test_batch() -> None:
    record = run([BP])
    assert record.in_specs[1:] == (jax.P("B"), jax.P("B"))
    assert set(jax.tree.leaves(record.in_specs[0])) == {jax.P()}
    assert_reduces_only(record, TENSORS + 1 + MOMENTS)


def test_channels() -> None:
    """Like an MLP's hidden layer: one sum per block forward, one backward."""
    record = run([CHANNELS])
    block = record.in_specs[0]["block_1"]
    assert block["norm_1"] == jax.P(None, "M")
    assert block["second"] == jax.P(None, None, "M")
    assert block["norm_2"] == jax.P()
    assert record.out_specs[1] == record.in_specs[0]
    assert_reduces_only(record, 2 * BLOCKS)


def test_batch_and_channels() -> None:
    record = run([BP, CHANNELS])
    assert record.in_specs[1:] == (jax.P("B"), jax.P("B"))
    assert_reduces_only(record, TENSORS + 1 + MOMENTS + 2 * BLOCKS)
