"""How much of the work is shared out: the figures behind the column `work`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import partir
from partir import ManualPartition


def shape(*sizes: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def tiled(axis: str, **inputs: int) -> ManualPartition:
    return ManualPartition(inputs, axis=axis, name=axis)


def product(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def accumulated(w: Any, x: Any) -> Any:
    """Gradients of microbatches ``x[step, batch, d]``, added up in a loop."""

    def body(total: Any, batch: Any) -> Any:
        return total + jax.grad(lambda w: jnp.sum(jnp.tanh(batch @ w)))(w), None

    return w - 0.1 * jax.lax.scan(body, jnp.zeros_like(w), x)[0]


def test_perfect_is_exactly_one() -> None:
    args = shape(9, 14), shape(14, 6)
    mesh = {"A": 3, "B": 2}
    p = partir.partition(product, mesh, [tiled("A", x=0), tiled("B", w=1)], args=args)
    assert [step.work for step in p.steps] == [2.0, 1.0]
    assert [step.work_by_axis for step in p.steps] == [
        {"A": 1.0, "B": 2.0},
        {"A": 1.0, "B": 1.0},
    ]
    assert p.work == 1.0
    assert p.work_by_axis == {"A": 1.0, "B": 1.0}


def test_a_sum_that_is_shared_out_is_not_less_than_one() -> None:
    rows = [tiled("A", x=0)]
    p = partir.partition(lambda x: x.sum(), {"A": 4}, rows, args=(shape(8),))
    assert p.work == 1.0


def test_nothing_to_compute() -> None:
    p = partir.partition(lambda x: x.T, {"A": 4}, [], args=(shape(8, 8),))
    assert (p.work, p.work_by_axis) == (1.0, {"A": 1.0})


def test_part_of_the_work() -> None:
    """One of two equal products is divided by four: (1 + 4) / 2."""

    def two(x: Any, y: Any, w: Any) -> Any:
        return x @ w, y @ w

    args = shape(8, 8), shape(8, 8), shape(8, 8)
    p = partir.partition(two, {"A": 4, "B": 2}, [tiled("A", x=0)], args=args)
    assert p.work_by_axis == {"A": 2.5, "B": 2.0}
    assert p.work == 5.0


def test_loops_multiply() -> None:
    """Ten times the work inside the loop, which is not divided, and once outside."""

    def looped(x: Any, w: Any) -> Any:
        y, _ = jax.lax.scan(lambda c, _: (c @ w, None), w, None, length=10)
        return x @ w, y

    args = shape(8, 8), shape(8, 8)
    p = partir.partition(looped, {"A": 4}, [tiled("A", x=0)], args=args)
    assert p.work == pytest.approx((10 * 4 + 1) / 11, rel=1e-2)


@pytest.mark.parametrize(("dim", "work"), [(0, 4.0), (1, 1.0)])
def test_gradient_accumulation(dim: int, work: float) -> None:
    args = shape(64, 64), shape(8, 128, 64)
    p = partir.partition(accumulated, {"B": 4}, [tiled("B", x=dim)], args=args)
    assert p.work == pytest.approx(work, rel=0.05)


def test_a_product_in_parts_is_one_product() -> None:
    """Thirds of a fused projection are computed on their own."""

    def thirds(x: Any, w: Any) -> Any:
        q, k, v = jnp.split(x @ w, 3, -1)
        return q * k + v

    args = shape(8, 16), shape(16, 24)
    p = partir.partition(thirds, {"A": 4}, [tiled("A", w=1)], args=args)
    assert p.work == 1


def test_masked_work_is_not_divided() -> None:
    """Every device adds all updates; those of other tiles are masked."""

    def add(table: Any, rows: Any, updates: Any) -> Any:
        return table.at[rows].add(updates)

    args = shape(32, 16), shape(64, dtype="int32"), shape(64, 16)
    p = partir.partition(add, {"M": 4}, [tiled("M", table=0)], args=args)
    assert p.work == 4
    p = partir.partition(add, {"M": 4}, [tiled("M", table=1)], args=args)
    assert p.work_by_axis["M"] < 2


def test_a_shard_map_is_shared_out_by_its_author() -> None:
    mapped = jax.shard_map(
        product, in_specs=(P("A"), P()), out_specs=P("A"), axis_names={"A"}
    )
    p = partir.partition(mapped, {"A": 4}, [], args=(shape(8, 8), shape(8, 8)))
    assert p.work == 1.0


def test_against_xla() -> None:
    """The flops that XLA counts in a device's program and in the whole one."""

    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)

    args = shape(256, 256), shape(32, 256)
    p = partir.partition(step, {"B": 4}, [tiled("B", x=0)], args=args)
    whole = jax.jit(step).lower(*args).compile().cost_analysis()["flops"]
    device = p.compile().lower(*args).compile().cost_analysis()["flops"]
    summed = 256 * 256  # the gradient's all_reduce, which is no work of the program
    assert p.work > 1.01
    assert p.work == pytest.approx(4 * (device - summed) / whole, rel=2e-3)
