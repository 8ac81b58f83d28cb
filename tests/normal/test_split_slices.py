"""Slices of what a reshape set apart are slices of the product before it."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from tests.normal.forms import kinds, normal

X = np.arange(2 * 4 * 6, dtype=np.int32).reshape(2, 4, 6) % 5 - 2
W = np.arange(6 * 12, dtype=np.int32).reshape(6, 12) % 7 - 3
B = np.arange(12, dtype=np.int32)

Function = Callable[[Array, Array, Array], Array]

BEFORE: dict[str, tuple[Function, tuple[int, ...]]] = {
    "one of three": (
        lambda x, w, b: (x @ w).reshape(2, 4, 3, 4)[:, :, 1],
        (2, 4, 4),
    ),
    "with a bias": (
        lambda x, w, b: (x @ w + b).reshape(2, 4, 3, 4)[:, :, 2],
        (2, 4, 4),
    ),
    "two of three, of heads": (
        lambda x, w, b: (x @ w).reshape(2, 4, 3, 2, 2)[:, :, 1:],
        (2, 4, 8),
    ),
    "heads first": (
        lambda x, w, b: (x @ w).reshape(2, 4, 3, 2, 2).transpose(2, 0, 3, 1, 4)[1],
        (2, 4, 4),
    ),
    "heads last, cut too": (
        lambda x, w, b: jnp.moveaxis((x @ w).reshape(2, 4, 3, 4), 1, 3)[:, 1:, :, 2:],
        (2, 2, 8),
    ),
    "other dimensions too": (
        lambda x, w, b: (x @ w).reshape(2, 4, 3, 4)[:, 1:3, 0],
        (2, 2, 4),
    ),
}


@pytest.mark.identity("set apart")
@pytest.mark.parametrize("name", BEFORE)
def test_sliced_before(name: str) -> None:
    function, shape = BEFORE[name]
    program = normal(function, X, W, B)
    ops = {op.signature.name: op.signature for op in program.ops}
    assert ops["slice"].results[0].shape == shape


AS_THEY_ARE: dict[str, Function] = {
    "the second part": lambda x, w, b: (x @ w).reshape(2, 4, 3, 4)[..., :2],
    "merged before": lambda x, w, b: (x @ w).reshape(8, 12)[1:],
    "the second part, turned": (
        lambda x, w, b: (x @ w).reshape(2, 4, 3, 4).transpose(3, 0, 1, 2)[:2]
    ),
    "a step": lambda x, w, b: lax.slice_in_dim((x @ w).reshape(2, 4, 3, 4), 0, 3, 2, 2),
    "no product": lambda x, w, b: x.reshape(2, 4, 3, 2)[:, :, 1],
    "a tag": lambda x, w, b: partir.tag((x @ w).reshape(2, 4, 3, 4), "t")[:, :, 1],
}


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_what_stays_as_it_is(name: str) -> None:
    program = normal(AS_THEY_ARE[name], X, W, B)
    (cut,) = (o.signature for o in program.ops if o.signature.name == "slice")
    assert cut.operands[0].shape not in ((2, 4, 12), X.shape[:2])
    assert kinds(program)["reshape"] >= 1


def by_index(x: Array, w: Array) -> Array:
    p = (x @ w).reshape(2, 4, 3, 4)
    return p[:, :, 0] * p[:, :, 1] + p[:, :, 2]


def heads_first(x: Array, w: Array) -> Array:
    a, b, c = (x @ w).reshape(2, 4, 3, 4, 1).transpose(2, 0, 3, 1, 4)
    return a * b + c


@pytest.mark.parametrize("function", [by_index, heads_first])
def test_a_fused_projection_exchanges_its_weight(
    function: Callable[[Array, Array], Array],
) -> None:
    tactic = partir.ManualPartition({"w": 1}, axis="X")
    record = partir.partition(function, {"X": 4}, [tactic], args=(X, W))
    assert record.collectives["collective_permute"] > 0
    assert record.collectives["all_gather"] == 0
    assert record.bytes_communicated < W.nbytes
    np.testing.assert_array_equal(record.compile()(X, W), function(X, W))
