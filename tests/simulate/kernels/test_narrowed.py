"""Values in the type in which products read them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import partir
from partir.simulate.kernels.narrowed import narrowed

X = jax.ShapeDtypeStruct((64, 64), "float32")


def types(fn: Any, count: int = 2) -> dict[str, list[str]]:
    """Types of the results of each kind of op, as stored."""
    spmd = partir.partition(fn, {"B": 1}, [], args=(X,) * count).spmd
    made, found = narrowed(spmd), dict[str, list[str]]()
    for op, _ in made.walk():
        name = spmd.program.ops[op.node].signature.name  # type: ignore[union-attr]
        found.setdefault(name, []).extend(made.types[v].dtype for v in op.results)
    return found


def test_what_only_products_read_is_narrow() -> None:
    found = types(lambda x, w: jnp.tanh(x @ w).T @ w)
    assert found["dot_general"] == ["f32", "f32"]  # tanh reads it; a result
    assert found["tanh"] == found["transpose"] == ["bf16"]


def test_what_something_else_reads_is_wide() -> None:
    def read(x: Any, w: Any) -> Any:
        y = jnp.tanh(x)
        return y @ w + y.sum()

    assert types(read)["tanh"] == ["f32"]


def test_products_that_ask_for_precision_read_wide_values() -> None:
    def precise(x: Any, w: Any) -> Any:
        return jnp.matmul(jnp.tanh(x), w, precision=lax.Precision.HIGHEST)

    assert types(precise)["tanh"] == ["f32"]


def test_stacks_of_a_loop_are_narrow_if_their_readers_are_products() -> None:
    def layers(x: Any, w: Any) -> Any:
        def layer(x: Any, _: Any) -> tuple[Any, Any]:
            return jnp.tanh(x @ w), x

        x, kept = lax.scan(layer, x, None, length=4)
        return x, jnp.einsum("lij,jk->lik", kept, w)

    assert "bf16" in types(layers)["while"]

    def summed(x: Any, w: Any) -> Any:
        def layer(x: Any, _: Any) -> tuple[Any, Any]:
            return jnp.tanh(x @ w), x

        x, kept = lax.scan(layer, x, None, length=4)
        return x, kept.sum()

    assert "bf16" not in types(summed)["while"]


def test_gathers_are_of_what_is_stored() -> None:
    args = (X, X)
    tactics = [
        partir.ManualPartition({"x": 0}, axis="B", name="BP"),
        partir.ManualPartition({"w": 0}, axis="B", name="Z3"),
    ]
    for device, share in (("h100", 1.0), ("tpu_v5e", 0.5)):
        done = partir.partition(
            lambda x, w: x @ w, {"B": 4}, tactics, args=args, device=device
        )
        gathered = done.estimate.compiled.types[done.spmd.body.ops[0].results[0]]
        assert gathered.bytes == 64 * 64 * 4 * share
