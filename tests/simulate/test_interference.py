"""What collectives take from kernels beside them, and waiting for the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.simulate.interference import stored_moves
from partir.simulate.kernels.fusion import Fuser

LAYERS, WIDTH = 12, 2048
TPU = replace(partir.devices["tpu_v5e"], overlap_cost=0.0)


def layers(weights: Any, x: Any) -> Any:
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]


def made(rows: int, schedule: list[Any], unroll: bool = False) -> partir.Partitioned:
    weights = jax.ShapeDtypeStruct((LAYERS, WIDTH, WIDTH), "bfloat16")
    x = jax.ShapeDtypeStruct((rows, WIDTH), "bfloat16")

    def unrolled(weights: Any, x: Any) -> Any:
        for number in range(LAYERS):
            x = jnp.tanh(x @ weights[number])
        return x

    step = unrolled if unroll else layers
    return partir.partition(step, {"B": 8}, schedule, args=(weights, x))


SHARDED = [
    partir.ManualPartition({"x": 0}, axis="B"),
    partir.ManualPartition({"weights": 1}, axis="B"),
]


def seconds(done: partir.Partitioned, **constants: float) -> float:
    return float(done.estimate_on(replace(TPU, **constants)).seconds)  # type: ignore[arg-type]  # mypy reads one type for all fields


@pytest.mark.parametrize("unroll", [False, True])
def test_hidden_gathers_of_weights_slow_products(unroll: bool) -> None:
    done = made(2**17, SHARDED, unroll)
    free, dear, whole = (seconds(done, overlap_cost=c) for c in (0.0, 0.5, 1.0))
    moved = done.estimate_on(TPU).communication_seconds
    assert free < dear < whole
    assert whole - dear == pytest.approx(dear - free)
    # At a cost of 1 hiding gains nothing.
    apart = done.estimate_on(TPU).compute_seconds + moved
    assert whole == pytest.approx(apart, rel=0.02)


def test_what_is_waited_for_is_not_paid_twice() -> None:
    done = made(2**11, SHARDED)  # hardly anything to hide behind
    assert seconds(done, overlap_cost=1.0) <= (
        done.estimate_on(TPU).compute_seconds
        + done.estimate_on(TPU).communication_seconds
    ) * (1 + 1e-9)


def stored(done: partir.Partitioned) -> int:
    block = Fuser(done.spmd, TPU.fusion).run()
    return len(stored_moves(block, done.spmd.types, repeated=False))


def test_what_lies_between_products_is_moved_with_them() -> None:
    def products(x: Any, up: Any, down: Any, last: Any) -> Any:
        return jnp.tanh((x @ up) @ down) @ last

    x = jax.ShapeDtypeStruct((2**14, WIDTH), "bfloat16")
    w = jax.ShapeDtypeStruct((WIDTH, WIDTH), "bfloat16")
    columns = partir.ManualPartition({"up": 1}, axis="B")
    done = partir.partition(products, {"B": 8}, [columns], args=(x, w, w, w))
    assert sum(done.collectives.values()) == 1
    assert stored(done) == 0
    assert stored(made(2**11, SHARDED, unroll=True)) == LAYERS


def test_the_host_starts_kernels_while_others_run() -> None:
    done = made(2**17, SHARDED)
    plain = seconds(done)
    assert seconds(done, host_seconds=1e-9) == plain
    slow = seconds(done, host_seconds=1.0)
    assert slow >= LAYERS
    assert slow == pytest.approx(2 * seconds(done, host_seconds=0.5))


def test_the_host_works_ahead_while_a_long_kernel_runs() -> None:
    def step(weights: Any, x: Any, large: Any) -> Any:
        return layers(weights, x), large @ large

    weights = jax.ShapeDtypeStruct((LAYERS, 128, 128), "bfloat16")
    x = jax.ShapeDtypeStruct((128, 128), "bfloat16")
    large = jax.ShapeDtypeStruct((2**14, 2**14), "bfloat16")
    done = partir.partition(step, {"B": 1}, [], args=(weights, x, large))
    plain, cost = seconds(done), done.estimate_on(TPU).cost
    for share in (0.9, 1.5):  # of what the device takes, most of it for one product
        host = share * plain / cost.kernels
        assert seconds(done, host_seconds=host) == pytest.approx(plain * max(share, 1))


def test_kernels_written_by_hand_have_an_efficiency_of_their_own() -> None:
    def product(x: Any, w: Any) -> Any:
        return x @ w

    x = jax.ShapeDtypeStruct((4096, 4096), "bfloat16")
    kept = partir.opaque(product, "b _, _ f -> b f")
    plain = partir.partition(product, {"B": 1}, [], args=(x, x))
    whole = partir.partition(lambda x, w: kept(x, w), {"B": 1}, [], args=(x, x))
    one = {"matrix_efficiency": 0.8, "opaque_efficiency": 0.0, "kernel_seconds": 0.0}
    assert seconds(whole, **one) == pytest.approx(seconds(plain, **one))
    other = one | {"opaque_efficiency": 0.4}
    assert seconds(whole, **other) == pytest.approx(2 * seconds(plain, **other))


def test_memory_is_as_fast_as_kernels_make_it() -> None:
    x = jax.ShapeDtypeStruct((4096, 4096), "bfloat16")
    done = partir.partition(lambda x: x + 1, {"B": 1}, [], args=(x,))
    fast, slow = (
        seconds(done, memory_efficiency=share, kernel_seconds=0.0)
        for share in (1.0, 0.5)
    )
    assert slow == pytest.approx(2 * fast)


def test_products_of_rows_that_are_not_aligned_are_slow() -> None:
    """Whether an operand's rows are odd, or the result's."""

    def time(rows: int, columns: int, depth: int) -> float:
        x = jax.ShapeDtypeStruct((rows, depth), "bfloat16")
        w = jax.ShapeDtypeStruct((depth, columns), "bfloat16")
        done = partir.partition(lambda x, w: x @ w, {"B": 1}, [], args=(x, w))
        eager = {"aligned_bytes": 16, "unaligned_rate": 0.2, "kernel_seconds": 0.0}
        return seconds(done, **eager) / seconds(done, kernel_seconds=0.0)

    assert time(4096, 4096, 4096) == pytest.approx(1.0)
    assert time(4095, 4096, 4096) == pytest.approx(1.0)  # rows are as long as before
    assert time(4096, 4095, 4096) == pytest.approx(5.0)
    assert time(4096, 4096, 4095) == pytest.approx(5.0)


def test_nodes_wait_for_the_latest_of_them() -> None:
    def times(devices: int) -> tuple[float, float]:
        x = jax.ShapeDtypeStruct((devices * 64, WIDTH), "bfloat16")
        rows = partir.ManualPartition({"x": 0}, axis="B")
        done = partir.partition(jnp.tanh, {"B": devices}, [rows], args=(x,))
        node = {"node_size": 8, "step_seconds": 1.0}
        on_time = seconds(done, node_lateness=0.0, **node)
        return on_time - 1, seconds(done, node_lateness=0.1, **node) - 1

    one, late = times(8)  # within a node
    assert late == one
    for nodes, later in ((2, 1 / 2), (3, 1 / 2 + 1 / 3)):
        one, late = times(8 * nodes)
        assert late == pytest.approx(one * (1 + 0.1 * later))


def test_the_order_of_arguments_and_results_does_not_matter() -> None:
    """State is paired with its update by what is carried, not by where it stands."""

    def step(weights: dict[str, Any], x: Any) -> dict[str, Any]:
        def loss(weights: dict[str, Any]) -> Any:
            return jnp.sum(jnp.tanh(x @ weights["up"]) @ weights["down"])

        grads = jax.grad(loss)(weights)
        return {name: weights[name] - grads[name] for name in weights}

    def crossed(up: Any, down: Any, x: Any) -> tuple[Any, Any]:
        new = step({"down": down, "up": up}, x)
        return new["down"], new["up"]

    up = jax.ShapeDtypeStruct((WIDTH, 4 * WIDTH), "bfloat16")
    down = jax.ShapeDtypeStruct((4 * WIDTH, WIDTH), "bfloat16")
    x = jax.ShapeDtypeStruct((2**14, WIDTH), "bfloat16")
    tactic = partir.ManualPartition({"x": 0}, axis="B")
    given = {"up": up, "down": down}
    carry = {"out/down": "weights/down", "out/up": "weights/up"}
    plain = partir.partition(step, {"B": 8}, [tactic], args=(given, x), carry=carry)
    carry = {"out/0": "down", "out/1": "up"}
    other = partir.partition(
        crossed, {"B": 8}, [tactic], args=(up, down, x), carry=carry
    )
    costly = replace(TPU, overlap_cost=1.0)
    ours, theirs = (p.estimate_on(costly).seconds for p in (plain, other))
    assert theirs == pytest.approx(ours, rel=1e-9)
