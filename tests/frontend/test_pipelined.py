"""`pipelined` without tactics: what the plain stack computes, and what is refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import partir
from partir.frontend.pipeline_plan import PipelinePlan
from tests.e2e.compare import QUICK, assert_same_leaf

pytestmark = pytest.mark.usefixtures("x64")


def body(layer: Any, x: Any) -> Any:
    return x + jnp.tanh(x @ layer["up"]) @ layer["down"]


def layers(*stack: int) -> Any:
    rng = np.random.default_rng(0)
    up, down = 0.3 * rng.standard_normal((2, *stack, 4, 4))
    return {"up": jnp.asarray(up), "down": jnp.asarray(down)}


def batch(size: int = 12) -> Any:
    return jnp.asarray(np.random.default_rng(1).standard_normal((size, 4)))


def plain(params: Any, x: Any) -> Any:
    for n in range(len(params["up"])):
        x = body({name: w[n] for name, w in params.items()}, x)
    return x


def assert_equal(got: Any, want: Any, *args: Any) -> None:
    """Both functions, compiled."""
    got, want = (jax.jit(f, compiler_options=QUICK)(*args) for f in (got, want))
    jax.tree.map(lambda a, b: assert_same_leaf(a, b), got, want)


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 2), (3, 1), (6, 4)])
def test_values_and_gradients_are_those_of_the_stack(
    stages: int, microbatches: int
) -> None:
    def both(fn: Any) -> Any:
        return jax.value_and_grad(lambda *args: jnp.sum(jnp.sin(fn(*args))), (0, 1))

    pipe = partir.pipelined(body, stages, microbatches)
    assert_equal(both(pipe), both(plain), layers(6), batch())


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 2), (3, 6)])
def test_going_round_is_the_stack_too(stages: int, microbatches: int) -> None:
    def joined(params: Any, x: Any) -> Any:
        return plain(jax.tree.map(lambda w: w.reshape(12, 4, 4), params), x)

    pipe = partir.pipelined(body, stages, microbatches, repeats=2)
    assert_equal(pipe, joined, layers(2, 6), batch())


def test_trees_pass_through_in_step() -> None:
    def shifted(layer: Any, x: Any) -> Any:
        return {"value": x["value"] @ layer + x["row"][:, None], "row": x["row"]}

    x = {"value": batch(8), "row": jnp.arange(8)}

    def one_by_one(weights: Any, x: Any) -> Any:
        for layer in weights:
            x = shifted(layer, x)
        return x

    assert_equal(partir.pipelined(shifted, 2, 4), one_by_one, layers(4)["up"], x)


def test_idle_stages_leave_no_nan_in_gradients() -> None:
    def unit(layer: Any, x: Any) -> Any:
        x = x @ layer
        return x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True))  # nan at zero

    weights, x = layers(4)["up"], batch(8)
    pipe = partir.pipelined(unit, 4, 2)
    found = jax.jit(jax.grad(lambda w: jnp.sum(pipe(w, x))))(weights)
    assert np.all(np.isfinite(found))


def test_ticks() -> None:
    assert PipelinePlan(4, 8).ticks == 11
    assert PipelinePlan(4, 8, repeats=2).ticks == 19


REFUSED = {
    "stages that do not divide": (
        lambda: partir.pipelined(body, 4, 2)(layers(6), batch()),
        r"4 stages do not divide the layers, of which params/down .* has 6",
    ),
    "microbatches that do not divide": (
        lambda: partir.pipelined(body, 2, 5)(layers(6), batch()),
        r"5 microbatches do not divide the batch: x is float64\[12, 4\]",
    ),
    "a layer that changes the shape": (
        lambda: partir.pipelined(lambda w, x: x[:, :2], 2, 2)(layers(6), batch()),
        r"x goes in as float64\[6, 4\] and comes out as float64\[6, 2\]",
    ),
    "a layer that changes the tree": (
        lambda: partir.pipelined(lambda w, x: (x, x), 2, 2)(layers(6), batch()),
        r"body\(layer, x\) returns what x is",
    ),
    "different stacks": (
        lambda: partir.pipelined(body, 2, 2)(layers(6) | {"up": batch(4)}, batch()),
        r"params/down has \(6,\) and params/up has \(4,\)",
    ),
    "no parameters": (
        lambda: partir.pipelined(body, 2, 2)({}, batch()),
        "no parameters, so no layers",
    ),
    "different batches": (
        lambda: partir.pipelined(body, 2, 2)(layers(6), (batch(4), batch(8))),
        "the first dimension of all of x is the batch",
    ),
    "a scalar batch": (
        lambda: partir.pipelined(body, 2, 2)(layers(6), jnp.zeros(())),
        r"2 microbatches do not divide the batch: x is float64\[\]",
    ),
    "no stages": (
        lambda: partir.pipelined(body, 0, 2),
        "stages is a whole number of at least 1, got 0",
    ),
    "repeats without groups": (
        lambda: partir.pipelined(body, 4, 6, repeats=2),
        "groups of 4, one per stage, and 6 microbatches are no multiple",
    ),
    "repeats of a plain stack": (
        lambda: partir.pipelined(body, 3, 3, repeats=2)(layers(6), batch()),
        r"w.reshape\(2, -1, \*w.shape\[1:\]\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    run, message = REFUSED[case]
    with pytest.raises(partir.PartitionError, match=message):
        run()
