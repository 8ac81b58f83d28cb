"""Sums that free memory come before the next product that takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir.simulate.device.spec import DeviceSpec
from partir.spmd import export_policy
from tests.explain.programs import f32
from tests.spmd.preparations.test_product_order import waiting

BP = partir.ManualPartition({"x": 0}, axis="B", name="BP")
AXES = {"B": 4, "M": 2}


def device(**changes: Any) -> DeviceSpec:
    """A GPU for which only sums are put in order."""
    spec = partir.devices["h100"]
    export = replace(spec.export, name="mine", **changes)
    return replace(spec, export=export)


def loss(head: Array, x: Array) -> Array:
    """Of logits that the gradient is made of, too."""
    logits = jax.nn.log_softmax(x @ head)
    return jnp.mean(jnp.where(logits > -2.0, logits, 0.0))


def written(fn: Any, shapes: Sequence[tuple[int, ...]], **changes: Any) -> str:
    """The text of a step, which is proved."""
    args, spec = tuple(f32(*s) for s in shapes), device(**changes)
    done = partir.partition(fn, AXES, [BP], args=args, device=spec)
    assert done.verify().proved
    text: str = done.stablehlo()
    return text


def waits(fn: Any, *shapes: tuple[int, ...]) -> list[str]:
    """What waits for sums, beside what waits for products."""
    without = waiting(written(fn, shapes, orders_sums=False))
    made = waiting(written(fn, shapes, orders_sums=True))
    return [one for one in made if one not in without]


@pytest.mark.identity("waiting")
def test_a_product_waits_for_the_loss_that_frees_logits() -> None:
    step = jax.value_and_grad(loss, argnums=(0, 1))
    (first, *others) = waits(step, (8, 64), (256, 8))
    assert first == "dot_general after reduce"
    assert not others  # the second product comes behind the first, which waits


def test_nothing_waits_for_what_its_own_operands_need() -> None:
    """Only the loss is no part of the gradient."""
    assert not waits(jax.grad(loss, argnums=(0, 1)), (8, 64), (256, 8))


def test_nothing_waits_for_a_sum_that_frees_less_than_the_product_takes() -> None:
    step = jax.value_and_grad(loss, argnums=(0, 1))
    assert not waits(step, (512, 64), (8, 512))


def test_nothing_waits_for_a_sum_of_what_is_read_later() -> None:
    def read_again(head: Array, other: Array, x: Array) -> tuple[Array, Array, Array]:
        logits = x @ head
        return jnp.sum(jnp.tanh(logits)), x @ other, logits

    assert not waits(read_again, (8, 64), (8, 2), (256, 8))


def test_nothing_waits_for_a_sum_that_needs_what_the_product_does_not() -> None:
    """It would wait for the other product as well."""

    def apart(head: Array, other: Array, x: Array) -> tuple[Array, Array]:
        return jnp.sum(jnp.tanh(x @ head)), x @ other

    assert not waits(apart, (8, 64), (8, 2), (256, 8))


def test_results_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    export = replace(device(orders_sums=True).export, reads_through=True)
    monkeypatch.setitem(export_policy._PLATFORMS, "cpu", export)
    rng = np.random.default_rng(0)
    args = tuple(rng.standard_normal(s).astype("f") for s in ((8, 64), (256, 8)))
    step = jax.value_and_grad(loss, argnums=(0, 1))
    done = partir.partition(step, AXES, [BP], args=args)
    run = done.compile()
    assert "dot_general after reduce" in waiting(run.lower(*args).as_text())
    for made, true in zip(
        jax.tree.leaves(run(*args)), jax.tree.leaves(step(*args)), strict=True
    ):
        np.testing.assert_allclose(made, true, rtol=1e-5, atol=1e-6)
