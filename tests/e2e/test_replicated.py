"""Ops computed whole though an axis tiles what they read: listed, or refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import partir
from tests.e2e.compare import MESH, assert_same

COLUMNS = partir.ManualPartition({"x": 1}, axis="M", name="columns")
ROWS = partir.ManualPartition({"x": 0}, axis="M", name="rows")
BOTH = partir.ManualPartition({"x": 0, "w": 1}, axis="M", name="both")

pytestmark = pytest.mark.usefixtures("double")


def order(x: Any) -> Any:
    return jnp.sin(jnp.sort(jnp.cos(x), axis=1))


def transformed(x: Any) -> Any:
    return jnp.sin(jnp.fft.fft2(jnp.cos(x)).real)


def product(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def looped(x: Any) -> Any:
    def body(carry: Any, _: None) -> Any:
        return jnp.fft.fft2(carry).real * 0.5, None

    return jax.lax.scan(body, x, None, length=3)[0]


def argument(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def stopped(record: partir.Partitioned) -> Any:
    """The one op where tiling stopped."""
    (found,) = [op for op in record.replicated_ops if op.stopped_here]
    assert {op.stopped_at for op in record.replicated_ops} == {found.name}
    return found


def test_nothing_to_report() -> None:
    record = partir.partition(order, MESH, [ROWS], args=(argument(8, 8),), strict=True)
    assert record.replicated_ops == ()


@pytest.mark.parametrize("fn", [transformed, looped])
def test_no_loop_along_the_tiled_dimension(fn: Any) -> None:
    x = argument(8, 8)
    record = partir.partition(fn, MESH, [COLUMNS], args=(x,))
    found = stopped(record)
    assert (found.kind, found.axis) == ("stablehlo.fft", "M")
    assert "no loop along the dimension" in found.reason
    line = fn.__code__.co_firstlineno
    assert found.source.file == __file__
    assert line < found.source.line <= line + 3
    assert_same(record.compile()(x), jax.jit(fn)(x))


def test_a_detour() -> None:
    """Sorted along what is tiled: tiled along another dimension meanwhile."""
    x = argument(8, 8)
    record = partir.partition(order, MESH, [COLUMNS], args=(x,), strict=True)
    assert record.collectives["all_to_all"] == 1
    assert sum(record.collectives.values()) == 1
    assert_same(record.compile()(x), jax.jit(order)(x))


def test_a_conflict() -> None:
    x, w = argument(8, 8), argument(8, 8)
    record = partir.partition(product, MESH, [BOTH], args=(x, w), strict=True)
    assert len(record.steps[-1].conflicts) == 1
    assert record.collectives["all_gather"] == 1
    assert_same(record.compile()(x, w), jax.jit(product)(x, w))


def test_no_rule() -> None:
    text = """
    module {
      func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
        %0 = stablehlo.custom_call @unheard_of(%x) : (tensor<8xf32>) -> tensor<8xf32>
        return %0 : tensor<8xf32>
      }
    }"""
    rows = partir.ManualPartition({"arg0": 0}, axis="M", name="rows")
    record = partir.partition(partir.load(text), MESH, [rows])
    found = stopped(record)
    assert found.kind == "stablehlo.custom_call"
    assert "it has no rule" in found.reason
    with pytest.raises(partir.PartitionError, match="no rule"):
        partir.partition(partir.load(text), MESH, [rows], strict=True)


def test_what_is_kept_whole_by_request_is_not_listed() -> None:
    def whole(partition: partir.Partition) -> None:
        partition.tile("x", 0, "M")
        partition.atomic("x", "M", at="uses")

    tactic = type("Whole", (), {"name": "whole", "apply": staticmethod(whole)})()
    record = partir.partition(
        order, MESH, [tactic], args=(argument(8, 8),), strict=True
    )
    assert record.collectives["all_gather"] == 1


@pytest.mark.parametrize(
    ("fn", "schedule", "shapes"),
    [(transformed, [COLUMNS], [(8, 8)]), (looped, [ROWS], [(8, 8)])],
)
def test_strict(fn: Any, schedule: Any, shapes: Any) -> None:
    args = tuple(argument(*shape) for shape in shapes)
    with pytest.raises(partir.PartitionError, match=r"test_replicated\.py"):
        partir.partition(fn, MESH, schedule, args=args, strict=True)
    with pytest.raises(partir.PartitionError, match='whole on "M"'):
        partir.jit(fn, MESH, schedule, strict=True)(*args)
