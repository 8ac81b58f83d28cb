"""Products between reshapes that merge and split are products of the parts."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from tests.normal.forms import normal

X = np.arange(2 * 4 * 6, dtype=np.int32).reshape(2, 4, 6) % 5 - 2
W = np.arange(6 * 8, dtype=np.int32).reshape(6, 8) % 7 - 3
Y = np.arange(2 * 4 * 8, dtype=np.int32).reshape(2, 4, 8) % 3
B = np.arange(8, dtype=np.int32)

Function = Callable[[Array, Array, Array, Array], Array]

UNMERGED: dict[str, Function] = {
    "a projection": lambda x, w, y, b: (x.reshape(8, 6) @ w).reshape(2, 4, 8),
    "with a bias": lambda x, w, y, b: (x.reshape(8, 6) @ w + b).reshape(2, 4, 8),
    "scaled, with a bias": lambda x, w, y, b: (3 * (x.reshape(8, 6) @ w) - b).reshape(
        2, 4, 8
    ),
    "on the right": lambda x, w, y, b: jnp.einsum(
        "kj,nk->jn", w, x.reshape(8, 6)
    ).reshape(8, 2, 4),
    "merged features too": lambda x, w, y, b: (
        x.reshape(2, 4, 2, 3).reshape(8, 6) @ w
    ).reshape(2, 4, 8),
    "batches": lambda x, w, y, b: jnp.einsum(
        "bij,bkj->bik", x.reshape(8, 2, 3), (x + 1).reshape(8, 2, 3)
    ).reshape(2, 4, 2, 2),
    "a weight's gradient": lambda x, w, y, b: jnp.einsum(
        "ni,nj->ij", x.reshape(8, 6), y.reshape(8, 8)
    ),
}


def shapes(program: partir.Program, name: str) -> list[tuple[int, ...]]:
    ops = (op.signature for op in program.ops)
    return [op.results[0].shape for op in ops if op.name == name]


@pytest.mark.identity("unmerged")
@pytest.mark.parametrize("name", UNMERGED)
def test_unmerged(name: str) -> None:
    program = normal(UNMERGED[name], X, W, Y, B)
    (product,) = (op for op in program.ops if op.signature.name == "dot_general")
    ranks = [
        len(t.shape) for t in (*product.signature.operands, *product.signature.results)
    ]
    assert max(ranks) > 2
    merged = [(8, 6), (8, 8), (8, 2, 3)]
    assert not set(shapes(program, "reshape")) & set(merged)


def test_heads_are_split_behind() -> None:
    """What only the reshape behind splits stays there."""

    def heads(x: Array, w: Array) -> Array:
        return (x.reshape(8, 6) @ w).reshape(2, 4, 2, 4)

    program = normal(heads, X, W)
    assert shapes(program, "dot_general") == [(2, 4, 8)]
    assert shapes(program, "reshape") == [(2, 4, 2, 4)]


AS_THEY_ARE: dict[str, Function] = {
    "split otherwise": lambda x, w, y, b: (x.reshape(8, 6) @ w).reshape(4, 2, 8),
    "one side only": lambda x, w, y, b: x.reshape(8, 6).T @ (y[0].T.reshape(8, 4)),
    "a bias of rows": lambda x, w, y, b: (x.reshape(8, 6) @ w + b[:, None]).reshape(
        2, 4, 8
    ),
    "a tag": lambda x, w, y, b: partir.tag(x.reshape(8, 6) @ w, "t").reshape(2, 4, 8),
    "read by others": lambda x, w, y, b: (
        (p := x.reshape(8, 6) @ w).reshape(2, 4, 8)[0] + p[:4]
    ),
    "transposed between": lambda x, w, y, b: (x.reshape(8, 6) @ w).T.reshape(8, 2, 4),
}


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_what_stays_as_it_is(name: str) -> None:
    program = normal(AS_THEY_ARE[name], X, W, Y, B)
    assert len(shapes(program, "dot_general")[0]) == 2


@pytest.mark.identity("unmerged")
def test_reductions() -> None:
    def function(x: Array) -> tuple[Array, ...]:
        return (
            jnp.sum(x.reshape(8, 6), 0),
            jnp.max(x.reshape(8, 1, 6), (0, 1)),
            jnp.sum(x.reshape(8, 3, 2)),
            jnp.sum(x.reshape(8, 6), 1),
            jnp.sum(x.reshape(4, 2, 6), 0),
            jnp.sum(x.reshape(8, 1, 6), 0),
        )

    program = normal(function, X)
    read = [o.signature.operands[0].shape for o in program.ops if o.signature.lambdas]
    whole = X.shape
    assert read == [whole, whole, whole, (8, 6), (4, 2, 6), (8, 1, 6)]


def test_a_step_as_pytorch_writes_it_is_tiled_along_the_sequence() -> None:
    """Forward and backward: gradients of weights are summed, nothing is gathered."""

    def step(x: Array, w: Array, b: Array) -> tuple[Array, Array]:
        def loss(w: Array, b: Array) -> Array:
            made = (x.reshape(8, 6) @ w + b).reshape(2, 4, 8)
            return jnp.sum(jnp.sin(made))

        return jax.grad(loss, (0, 1))(w, b)

    args = [a.astype(np.float32) for a in (X, W, B)]
    tactic = partir.ManualPartition({"x": 1}, axis="X")
    record = partir.partition(step, {"X": 4}, [tactic], args=args)
    assert record.collectives["all_reduce"] == sum(record.collectives.values()) == 2
    assert not record.replicated_ops
    for got, want in zip(record.compile()(*args), jax.jit(step)(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert not {(8, 6), (8, 8)} & set(shapes(record.program, "reshape"))


def test_ties_of_barriers_keep_their_owner() -> None:
    """Ops are numbered anew, and ties name the barrier that they belong to."""

    def step(x: Array, w: Array) -> Array:
        x, w = jax.lax.optimization_barrier((x, w))
        return (x.reshape(8, 6) @ w).reshape(2, 4, 8)

    program = partir.trace(step, X, W)
    owners = {tie.owner for tie in program.ties}
    assert {program.ops[owner].kind for owner in owners if owner is not None} == {
        "stablehlo.optimization_barrier"
    }


def test_a_product_stays_out_of_the_loop_that_reads_it() -> None:
    """What is reshaped in every step is computed once."""

    def function(x: Array, w: Array) -> Array:
        made = x.reshape(8, 6) @ w

        def step(carry: Array, _: None) -> tuple[Array, None]:
            return carry * 2 + made.reshape(2, 4, 8), None

        return jax.lax.scan(step, jnp.zeros((2, 4, 8), x.dtype), None, length=3)[0]

    program = normal(function, X, W)
    inside = {n for op in program.ops for region in op.regions for n in region.ops}
    products = [
        n for n, op in enumerate(program.ops) if op.signature.name == "dot_general"
    ]
    assert products
    assert inside.isdisjoint(products)
