"""Sequence, context, Ulysses and expert parallelism: one or two tactics, by counts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from benchmarks.models import moe
from benchmarks.models.layers import attend, rms_norm
from partir import REPLICATED, ManualPartition
from tests.e2e.compare import QUICK, assert_same

LAYERS, BATCH, LENGTH, WIDTH, HEADS, SIZE, HIDDEN = 2, 2, 16, 8, 4, 2, 16
MESH = {"S": 4}
CARRY = {"out/0": "params"}

pytestmark = pytest.mark.usefixtures("double")

MEGATRON = ManualPartition(
    {**{f"params/*/{name}": 1 for name in ("wq", "wk", "wv")}, "params/*/up": 1},
    axis="S",
    name="MP",
)
SEQUENCE = ManualPartition(
    {"x": 1, "y": 1, "residual": 1, "residual/grad": 1}, axis="S", name="SP"
)
CONTEXT = ManualPartition({"x": 1, "y": 1}, axis="S", name="CP")
ULYSSES = ManualPartition(
    {
        **{"x": 1, "y": 1, "params/**": REPLICATED},
        **{"heads": 2, "heads/grad": 1, "mixed": 1, "mixed/grad": 1},
    },
    axis="S",
    name="Ulysses",
)
EXPERTS = ManualPartition(
    {"batch/*": 0, "params/*/w1": 0, "params/*/w2": 0}, axis="B", name="EP"
)


def layer(params: dict[str, Array], x: Array) -> Array:
    y = rms_norm(x, params["norm1"])
    heads = (jnp.einsum("bsd,dhk->bshk", y, params[n]) for n in ("wq", "wk", "wv"))
    mixed = attend(*(partir.tag(each, "heads") for each in heads))
    out = jnp.einsum("bshk,hkd->bsd", partir.tag(mixed, "mixed"), params["out"])
    x = partir.tag(x + out, "residual")
    hidden = jax.nn.gelu(rms_norm(x, params["norm2"]) @ params["up"])
    return partir.tag(x + hidden @ params["down"], "residual")


def train(params: Any, x: Array, y: Array) -> Any:
    def loss(params: Any) -> Array:
        out = x
        for each in params:
            out = layer(each, out)
        return jnp.mean((out - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


SHAPES = {
    **dict.fromkeys(("norm1", "norm2"), (WIDTH,)),
    **dict.fromkeys(("wq", "wk", "wv"), (WIDTH, HEADS, SIZE)),
    "out": (HEADS, SIZE, WIDTH),
    "up": (WIDTH, HIDDEN),
    "down": (HIDDEN, WIDTH),
}


def example() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    params = [
        {name: 0.3 * rng.standard_normal(shape) for name, shape in SHAPES.items()}
        for _ in range(LAYERS)
    ]
    return params, *rng.standard_normal((2, BATCH, LENGTH, WIDTH))


@pytest.fixture(scope="module")
def expected(double: None) -> Any:
    return jax.jit(train, compiler_options=QUICK)(*example())


def run(schedule: list[Any], expected: Any) -> dict[str, int]:
    """Counts of a training step, which computes what one device does."""
    args = example()
    done = partir.partition(
        train, MESH, schedule, args=args, carry=CARRY, compiler_options=QUICK
    )
    assert done.work == pytest.approx(1, abs=0.05)
    assert not done.replicated_ops
    assert_same(done.compile()(*args), expected, 1e-12)
    return {kind: count for kind, count in done.collectives.items() if count}


def test_sequence_parallelism(expected: Any) -> None:
    """Gathers and scatters where Megatron has all-reduces.

    A layer gathers before both of its products and scatters behind them, forward and
    backward. What stands there is gathered again, once, for the weights' gradients.
    Only norms and the loss are summed.
    """
    assert run([MEGATRON, SEQUENCE], expected) == {
        "all_gather": 6 * LAYERS,
        "all_reduce": 2 * LAYERS + 1,
        "reduce_scatter": 4 * LAYERS,
    }


def test_context_parallelism(expected: Any) -> None:
    """Keys and values are gathered, again in the backward pass; gradients scattered."""
    assert run([CONTEXT], expected) == {
        "all_gather": 4 * LAYERS,
        "all_reduce": len(SHAPES) * LAYERS + 1,
        "reduce_scatter": 2 * LAYERS,
    }


def test_ulysses(expected: Any) -> None:
    """Queries, keys, values and what they mix change from sequence to heads."""
    assert run([ULYSSES], expected) == {
        "all_reduce": len(SHAPES) * LAYERS + 1,
        "all_to_all": 2 * 4 * LAYERS,
    }


def test_experts() -> None:
    """Tokens go to their experts and come back: the counts of a tactic by hand."""
    config = moe.Config(layers=2)
    step, (args, _) = moe.step_for(config), moe.example_args(config)
    carry = {"out/0": "params", "out/1": "opt_state"}

    def counts(tactic: Any) -> dict[str, int]:
        done = partir.partition(step, {"B": 4}, [tactic], args=args, carry=carry)
        assert done.in_specs[0]["layer_0"]["w1"] == jax.P("B")
        return done.collectives

    found = counts(EXPERTS)
    assert found == counts(moe.EP)
    assert found["all_to_all"] == 4 * config.layers
    assert not found["all_gather"]
