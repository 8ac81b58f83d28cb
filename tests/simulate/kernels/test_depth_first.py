"""Kernels in the order of a compiler that minds memory."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

import partir
from partir.simulate.device.fusion_policy import XLA, XLA_CPU
from partir.simulate.kernels.depth_first import depth_first, spans_in
from partir.simulate.kernels.fusion import Fuser
from partir.simulate.kernels.kernel import Kernels
from partir.spmd.preparations.weight_sizes import gathers_most
from tests.simulate import models

W = models.f32((64, 64), "float32")


def block_of(fn: Any, *args: Any, policy: Any = XLA) -> Kernels:
    done = partir.partition(fn, {"B": 1}, [], args=args, verify="off")
    return Fuser(done.spmd, policy).run()


def kinds(block: Kernels, order: list[int]) -> list[str]:
    return [block.kernels[place].op.nest.signature.name for place in order]  # type: ignore[union-attr]


def test_it_is_an_order() -> None:
    block = Fuser(models.partitioned().spmd, XLA).run()
    order = depth_first(block)
    assert sorted(order) == list(range(len(block.kernels)))
    there = set(block.arguments)
    for place in order:
        assert there >= set(block.kernels[place].reads)
        there |= set(block.kernels[place].writes)


def test_what_is_needed_last_comes_last() -> None:
    """Not as soon as it could: the sort waits for nothing, but is read at the end."""

    def fn(w: Any, x: Any) -> Any:
        late = jnp.sort(w)
        y = x @ w
        return (y @ w + jnp.tanh(y)) @ late

    block = block_of(fn, W, W)
    assert "sort" in kinds(block, list(range(len(block.kernels))))[0]
    assert kinds(block, depth_first(block))[-2:] == ["sort", "dot_general"]


def test_spans_are_of_what_stands_before() -> None:
    spans = [(0.0, 4.0), (1.0, 5.0), (2.0, 6.0), (9.0, 9.0)]
    first, second, third, _ = spans
    assert spans_in([3, 0, 1, 2], spans) == [first, first, second, third]
    assert spans_in([0, 1, 2, 3], [*spans[:3], (0.5, 1.0)])[3] == third
    assert spans_in([0, 1, 2, 3], spans) == spans


def test_what_a_product_reads_is_computed_again_for_others() -> None:
    def fn(w: Any, x: Any) -> Any:
        up = x @ w
        hidden = jnp.maximum(up, 0)
        return hidden @ w, jnp.tanh(hidden), jnp.sort(up)

    for policy, reads_up in ((XLA, False), (XLA_CPU, True)):
        block = block_of(fn, W, W, policy=policy)
        by_kind = {k.op.nest.signature.name: k for k in block.kernels}  # type: ignore[union-attr]
        (up,) = by_kind["sort"].reads
        assert (by_kind["tanh"].reads == (up,)) == reads_up


def test_weights_are_larger_where_gathers_make_more_than_products() -> None:
    def step(params: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            return jnp.sum(functools.reduce(jnp.matmul, params, x) ** 2)

        return jax.grad(loss)(params)

    rows = partir.ManualPartition({"x": 0}, axis="B", name="BP")
    tiles = partir.ManualPartition({"params/**": 0}, axis="B", name="Z3")
    found = []
    for count in (8, 8192):
        args = [W] * 4, models.f32((count, 64), "float32")
        done = partir.partition(step, {"B": 8}, [rows, tiles], args=args, verify="off")
        found.append(gathers_most(done.spmd))
    assert found == [True, False]
