"""Functions kept whole and regions written for one device cost what is inside them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, PartitionSpec as P

import partir
from partir.frontend.arithmetic import arithmetic
from partir.mesh import Mesh
from partir.simulate.network.collectives import Network

X = jax.ShapeDtypeStruct((64, 128), "float32")
W = jax.ShapeDtypeStruct((128, 128), "float32")
MESH = {"B": 4, "M": 2}
ROWS = partir.ManualPartition({"x": 0}, axis="B", name="BP")
V5E = partir.devices["tpu_v5e"]


def inner(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def estimate(fn: Any, schedule: Any = ()) -> Any:
    return partir.partition(fn, MESH, schedule, args=(X, W), device=V5E).estimate


def test_functions_kept_whole() -> None:
    kept = partir.opaque(inner, "b _, _ f -> b f")

    def run(x: Any, w: Any) -> Any:
        return kept(x, w)

    whole, split = estimate(run), estimate(run, [ROWS])
    assert whole.flops == 2 * 64 * 128 * 128 + 64 * 128
    assert split.flops == whole.flops / 4
    assert split.compute_seconds < whole.compute_seconds
    slow = partir.partition(run, MESH, [], args=(X, W), device="cpu").estimate
    plain = partir.partition(inner, MESH, [], args=(X, W), device="cpu").estimate
    assert slow.compute_seconds == pytest.approx(plain.compute_seconds, rel=0.3)


def test_their_gradients_cost_too() -> None:
    kept = partir.opaque(inner, "b _, _ f -> b f")

    def run(x: Any, w: Any) -> Any:
        return jax.grad(lambda w: kept(x, w).sum())(w)

    assert estimate(run).flops > 2 * 2 * 64 * 128 * 128


def test_loops_and_branches_within() -> None:
    def looped(x: Any) -> Any:
        return jax.lax.fori_loop(0, 10, lambda _, x: x @ x, x)

    def branch(x: Any) -> Any:
        return jax.lax.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: x, x)

    product = 2.0 * 128**3
    assert arithmetic(looped, [W]).products == 10 * product
    assert arithmetic(branch, [W]).products == product


def mapped(body: Any, ins: Any, outs: Any) -> Any:
    mesh = jax.make_mesh((4, 2), ("B", "M"), axis_types=(AxisType.Auto,) * 2)
    return jax.shard_map(body, mesh=mesh, in_specs=ins, out_specs=outs)


def test_collectives_in_a_shard_map() -> None:
    def body(x: Any, w: Any) -> Any:
        return jax.lax.psum(x @ w, "M")

    def run(x: Any, w: Any) -> Any:
        return mapped(body, (P("B", "M"), P("M", None)), P("B", None))(x, w)

    done = partir.partition(run, MESH, [], args=(X, W), device=V5E)
    found = done.estimate
    one = Network(Mesh(MESH), V5E).seconds("all_reduce", ("M",), 16 * 128 * 4)
    assert done.collectives["all_reduce"] == 1
    assert done.bytes_communicated == 16 * 128 * 4
    assert found.communication_seconds == pytest.approx(one)
    assert found.seconds >= found.compute_seconds + one
    assert found.flops >= 2 * 16 * 64 * 128


def test_loops_in_a_shard_map() -> None:
    ring = [(0, 1), (1, 0)]

    def body(x: Any, w: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            return jax.lax.ppermute(x, "M", ring) @ w[:64, :64]

        return jax.lax.fori_loop(0, 10, step, x)

    def run(x: Any, w: Any) -> Any:
        return mapped(body, (P("B", "M"), P()), P("B", "M"))(x, w)

    done = partir.partition(run, MESH, [], args=(X, W), device=V5E)
    assert done.collectives["collective_permute"] == 10
    assert done.estimate.flops >= 10 * 2 * 16 * 64 * 64
    assert done.estimate.cost.collectives == 10


def test_decompositions_take_time_where_they_are_not_split() -> None:
    matrices = jax.ShapeDtypeStruct((8, 128, 128), "float32")
    rows = partir.ManualPartition({"x": 0}, axis="B", name="BP")

    def run(x: Any) -> Any:
        return jnp.linalg.eigh(x)[0]

    whole, split = (
        partir.partition(run, MESH, schedule, args=(matrices,), device="cpu").estimate
        for schedule in ([], [rows])
    )
    assert whole.compute_seconds > 8 * 128**3 / partir.devices["cpu"].flops_per_s
    assert split.compute_seconds < whole.compute_seconds / 2
