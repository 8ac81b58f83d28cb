"""Loops: scan over layers is no dearer than unrolled; gradients accumulate unsummed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import partir
from benchmarks.models import transformer
from benchmarks.models.layers import apply_layer

LAYERS = 3
MESH = {"B": 4, "M": 2}
Tree = Any

BP = partir.ManualPartition({"tokens": 0, "targets": 0}, axis="B", name="BP")
MEGATRON = {
    False: partir.ManualPartition(
        {"params/*/qkv": 2, "params/*/w1": 1}, axis="M", name="MP"
    ),
    True: partir.ManualPartition(
        {"params/layers/qkv": 3, "params/layers/w1": 2}, axis="M", name="MP"
    ),
}


def matrices(name: str, shape: tuple[int, ...], dtype: str) -> Any:
    stacked = "/layers/" in name
    return partir.FIRST_DIVISIBLE_DIM if len(shape) > 1 + stacked else partir.UNKNOWN


ZERO = {
    "": [],
    "Z2": [
        partir.ManualPartition(
            {"params/**": partir.REPLICATED, "opt_state/**": matrices},
            axis="B",
            name="Z2",
        )
    ],
    "Z3": [
        partir.ManualPartition(
            {"params/**": matrices, "opt_state/**": matrices}, axis="B", name="Z3"
        )
    ],
}


def config() -> transformer.Config:
    return transformer.Config.small(
        layers=LAYERS,
        dtype="float64",
        batch=16,
        sequence=8,
        width=16,
        heads=4,
        head_dim=4,
        hidden=32,
        vocab=32,
    )


def stacked(params: Tree) -> Tree:
    layers = [params[f"layer_{number}"] for number in range(LAYERS)]
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
    return {"embedding": params["embedding"], "layers": stack}


def loss_of(params: Tree, tokens: jax.Array, targets: jax.Array) -> jax.Array:
    x = params["embedding"][tokens]
    if "layers" in params:
        x, _ = jax.lax.scan(
            lambda x, layer: (apply_layer(layer, x), None),
            x,
            params["layers"],
        )
    else:
        for number in range(LAYERS):
            x = apply_layer(params[f"layer_{number}"], x)
    logits = jnp.einsum("bsd,vd->bsv", x, params["embedding"])
    chosen = jax.nn.one_hot(targets, logits.shape[-1], dtype=logits.dtype)
    return -jnp.mean(jnp.sum(chosen * jax.nn.log_softmax(logits), -1))


def train(params: Tree, opt_state: Tree, tokens: Any, targets: Any) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, tokens, targets)
    return *transformer.adam(params, grads, opt_state), loss


def accumulating(parts: int) -> Callable[..., Any]:
    """A step that adds up the gradients of `parts` microbatches."""

    def train_accumulated(
        params: Tree, opt_state: Tree, tokens: Any, targets: Any
    ) -> Any:
        def add(total: Any, batch: Any) -> Any:
            one = jax.value_and_grad(loss_of)(params, *batch)
            return jax.tree.map(lambda t, o: t + o / parts, total, one), None

        start = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
        batches = [x.reshape(parts, -1, x.shape[-1]) for x in (tokens, targets)]
        (loss, grads), _ = jax.lax.scan(add, start, tuple(batches))
        return *transformer.adam(params, grads, opt_state), loss

    return train_accumulated


@pytest.fixture
def arguments(x64: None) -> Any:
    key = jax.random.key(0)
    params, opt_state = transformer.init(config(), key)
    return params, opt_state, *transformer.example_batch(config(), key)


def partitioned(step: Any, args: Any, schedule: Any) -> partir.Partitioned:
    return partir.partition(step, MESH, schedule, args=args, donate_argnums=(0, 1))


def assert_runs_as_on_one_device(
    record: partir.Partitioned, step: Any, args: Any
) -> None:
    expected = jax.jit(step)(*args)
    made = record.compile()(*jax.tree.map(np.asarray, args))
    for have, want in zip(
        jax.tree.leaves(made), jax.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("zero", list(ZERO))
def test_scanned_layers_move_no_more_than_unrolled(arguments: Any, zero: str) -> None:
    params, opt_state, tokens, targets = arguments
    unrolled = partitioned(train, arguments, [BP, MEGATRON[False], *ZERO[zero]])
    state = {name: stacked(opt_state[name]) for name in ("mu", "nu")}
    args = (
        stacked(params),
        {**state, "count": opt_state["count"]},
        tokens,
        targets,
    )
    scanned = partitioned(train, args, [BP, MEGATRON[True], *ZERO[zero]])
    assert scanned.bytes_communicated <= unrolled.bytes_communicated
    counts = zip(
        scanned.collectives.values(), unrolled.collectives.values(), strict=True
    )
    assert all(ours <= theirs for ours, theirs in counts)
    assert not scanned.replicated_ops
    assert not scanned.unknown_trip_counts
    for name, spec in scanned.in_specs[0]["layers"].items():
        plain = tuple(unrolled.in_specs[0]["layer_0"][name])
        assert tuple(spec) == ((None, *plain) if plain else ())
    assert_runs_as_on_one_device(scanned, train, args)


@pytest.mark.parametrize(("parts", "zero"), [(2, ""), (4, "Z2"), (8, "Z2")])
def test_one_reduction_per_parameter_and_step(
    arguments: Any, parts: int, zero: str
) -> None:
    step = accumulating(parts)
    args = (*arguments[:2], *(jnp.tile(x, (2, 1)) for x in arguments[2:]))
    record = partitioned(step, args, [BP, *ZERO[zero]])
    tensors, matrices = 9 * LAYERS + 1, 4 * LAYERS + 1
    scattered = matrices if zero else 0
    assert record.collectives["reduce_scatter"] == scattered
    assert record.collectives["all_reduce"] == tensors + 1 - scattered
    # The axis goes to the microbatch, not to the number of microbatches.
    batches = [
        value
        for value in record._partition.values("%**/reshape/*")
        if len(value.shape) == 3 and value.shape[0] == parts
    ]
    assert {value.tiling for value in batches} >= {((), ("B",), ())}
    assert_runs_as_on_one_device(record, step, args)


def narrow_step(parts: int) -> Any:
    """Layers in a loop, computed in bfloat16; gradients of parts add up in float32."""

    def loss(weights: Any, x: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            return jnp.tanh(x @ w.astype(jnp.bfloat16)), None

        return jnp.mean(jax.lax.scan(layer, x, weights)[0].astype(jnp.float32) ** 2)

    def step(weights: Any, x: Any) -> Any:
        if parts == 1:
            return jax.grad(loss)(weights, x)

        def add(total: Any, part: Any) -> Any:
            return total + jax.grad(loss)(weights, part), None

        split = x.reshape(parts, -1, x.shape[-1])
        return jax.lax.scan(add, jnp.zeros_like(weights), split)[0]

    return step


@pytest.mark.parametrize(("parts", "sums"), [(1, 3), (2, 1), (4, 1)])
def test_sums_wait_in_wider_floats_where_fewer_bytes_are_summed(
    parts: int, sums: int
) -> None:
    rng = np.random.default_rng(0)
    weights = jnp.asarray(rng.normal(size=(3, 16, 16)) / 4, jnp.float32)
    x = jnp.asarray(rng.normal(size=(32, 16)), jnp.bfloat16)
    tiled = partir.ManualPartition({"x": 0}, axis="B")
    mesh = partir.Mesh({"B": 4})
    record = partir.partition(narrow_step(parts), mesh, [tiled], args=(weights, x))
    assert record.collectives["all_reduce"] == sums
    expected = jax.jit(narrow_step(parts))(weights, x)
    made = record.compile()(np.asarray(weights), np.asarray(x))
    np.testing.assert_allclose(made, expected, rtol=0.05, atol=2e-4)
