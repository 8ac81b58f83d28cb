"""What compilers do about memory: where values lie, and what is not copied."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import partir

X = jax.ShapeDtypeStruct((256, 256), "float32")
STACK = jax.ShapeDtypeStruct((8, 256, 256), "float32")
SIZE = 256 * 256 * 4
TPU = replace(partir.devices["tpu_v5e"], near_bytes=0.0)
GPU = replace(partir.devices["h100"], product_bytes=0)
ROWS = partir.ManualPartition({"x": 0}, axis="B", name="rows")


def estimate(
    fn: Any, device: partir.DeviceSpec, *args: Any, rows: bool = False, **how: Any
) -> partir.Estimate:
    tactics = [ROWS] if rows else []
    mesh = {"B": 2 if rows else 1}
    return partir.partition(fn, mesh, tactics, args=args, device=device, **how).estimate


@pytest.mark.parametrize("ordered", [True, False])
def test_arguments_that_are_read_first_are_not_copied(ordered: bool) -> None:
    def step(p: Any, m: Any) -> Any:
        return p - m, jnp.sort(p, 0)  # nothing says which of the two comes first

    device = replace(TPU, orders_reads=ordered)
    found = estimate(step, device, X, X, donate_argnums=(0,))
    names = [one.name for one in found.alive_at_peak]
    assert ("copy of p" in names) is not ordered


@pytest.mark.parametrize("device", [TPU, GPU], ids=lambda device: device.name)
def test_all_reduces_write_over_what_they_read(device: partir.DeviceSpec) -> None:
    def summed(x: Any) -> Any:
        return jnp.max(x.T @ x)

    apart = replace(device, reduces_in_place=False)
    taken = [
        estimate(summed, one, X, rows=True).temporary_bytes for one in (device, apart)
    ]
    assert taken == [SIZE, 2 * SIZE]


def outer(carried: Any, x: Any) -> tuple[Any, Any]:
    """A product that nobody reads but the stack."""
    return carried + 1.0, x.T @ x


def read_twice(carried: Any, x: Any) -> tuple[Any, Any]:
    """A product that something else reads as well."""
    product = x.T @ x
    return carried + product.sum(), product


@pytest.mark.parametrize(("body", "less"), [(outer, SIZE), (read_twice, 0)])
def test_what_a_stack_gets_is_made_there(body: Any, less: int) -> None:
    def stacked(x: Any) -> Any:
        return jnp.max(lax.scan(body, 0.0, x)[1])

    elsewhere = replace(TPU, fusion=replace(TPU.fusion, into_stacks=False))
    wide = jax.ShapeDtypeStruct((4, 8, 256), "float32")
    taken = [estimate(stacked, d, wide).temporary_bytes for d in (TPU, elsewhere)]
    assert taken[1] - taken[0] == pytest.approx(less, abs=64)  # and small ones


def layers(x: Any, w: Any) -> Any:
    """Two loops over the same weights."""

    def forward(x: Any, w: Any) -> tuple[Any, None]:
        return jnp.tanh(x @ w), None

    x, _ = lax.scan(forward, x, w)
    return lax.scan(lambda x, w: (jnp.tanh(x @ w.T), None), x, w, reverse=True)[0]


def kinds(fn: Any) -> list[str]:
    found = estimate(fn, TPU, X, STACK).compiled
    ops = (op for op in found.body.ops if hasattr(op, "nest"))
    return [op.nest.signature.kind for op in ops]


def test_weights_are_narrowed_once_before_the_loops() -> None:
    assert kinds(layers).count("stablehlo.convert") == 1
    wide = replace(TPU, fusion=replace(TPU.fusion, narrow_products=False))
    taken = [estimate(layers, d, X, STACK).temporary_bytes for d in (TPU, wide)]
    assert 4 * SIZE <= taken[0] - taken[1] + SIZE <= 5 * SIZE  # bfloat16


def test_what_a_loop_reads_wide_stays_wide() -> None:
    def summed(x: Any, w: Any) -> Any:
        def layer(x: Any, w: Any) -> tuple[Any, Any]:
            return x @ w, w.sum()

        return lax.scan(layer, x, w)

    assert "stablehlo.convert" not in kinds(summed)


@pytest.mark.parametrize(
    ("kept", "at_end", "gathered"),
    [(True, True, 3), (True, False, 1), (False, True, 3)],
)
def test_arguments_that_are_kept_are_not_copied_where_gathers_succeed_them(
    kept: bool, at_end: bool, gathered: int
) -> None:
    def step(params: Any, state: Any, x: Any) -> Any:
        new = {name: params[name] - state[name] * 0.9 for name in params}
        return new, state, jnp.sum(x @ params["a"] @ params["b"].T)

    large = jax.ShapeDtypeStruct((8192, 4096), "float32")
    params = {"a": large, "b": large, "c": large}
    whole = {"params/**": partir.REPLICATED, "state/**": 0}
    done = partir.partition(
        step,
        {"B": 2},
        [partir.ManualPartition(whole, axis="B", name="Z2")],
        args=(params, params, jax.ShapeDtypeStruct((2, 8192), "float32")),
        donate_argnums=(0, 1),
        device=replace(
            TPU,
            export=replace(TPU.export, keeps_arguments=kept),
            copies_at_end=at_end,
        ),
    )
    assert done.collectives["all_gather"] == 3
    names = [one.name for one in done.estimate.alive_at_peak]
    assert ("copy of params/a" in names) is not kept
    # A tile, and what is gathered beside the arguments, or copies of these.
    assert done.estimate.temporary_bytes / large.size / 4 == gathered + 0.5
