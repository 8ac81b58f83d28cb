"""Tallies by line and by module add up to the program's own figures."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import partir
from tests.explain import programs
from tests.explain.questions import BP, MP, Z3
from tests.explain.test_questions import DEVICE


@pytest.fixture(scope="module")
def step() -> partir.Partitioned:
    carry = {"out/0": "params", "out/1": "opt"}
    mesh, args = {"B": 4, "M": 2}, programs.TRAINING
    schedule = [BP, MP, Z3]
    fn = programs.train_step
    return partir.partition(fn, mesh, schedule, args, device=DEVICE, carry=carry)


@pytest.mark.parametrize("member", ["by_source", "by_scope"])
def test_they_add_up(step: partir.Partitioned, member: str) -> None:
    found = getattr(step, member)()
    assert sum(one.bytes for one in found) == step.bytes_communicated
    counts = dict.fromkeys(step.collectives, 0)
    for one in found:
        for kind, count in one.collectives.items():
            counts[kind] += count
    assert counts == step.collectives
    estimate = step.estimate
    seconds = sum(one.communication_seconds or 0 for one in found)
    assert seconds == pytest.approx(estimate.communication_seconds)
    whole = estimate.communication_seconds + estimate.compute_seconds
    assert sum(one.seconds or 0 for one in found) == pytest.approx(whole)
    assert sum(one.memory or 0 for one in found) == sum(
        one.bytes for one in estimate.alive_at_peak
    )


def test_lines_and_orders(step: partir.Partitioned) -> None:
    found = step.by_source("flops")
    assert [one.flops for one in found] == sorted(
        (o.flops for o in found), reverse=True
    )
    assert found[0].where.endswith(("programs.py:139", "programs.py:140"))
    bytes_sent = [one.bytes for one in found.by("bytes")]
    assert bytes_sent == [one.bytes for one in step.by_source()]
    assert str(found).splitlines()[0].startswith("where")
    with pytest.raises(partir.PartitionError, match="ordered by"):
        found.by("colour")


def test_scopes_and_no_device() -> None:
    def model(x: jax.Array, w: jax.Array) -> jax.Array:
        with jax.named_scope("mlp"):
            return jnp.sum(x @ w)

    tiles = partir.ManualPartition({"x": 0}, axis="A", name="tiles")
    args = programs.f32(8, 8), programs.f32(8, 8)
    found = partir.partition(model, {"A": 4}, [tiles], args).by_scope()
    assert [one.where for one in found] == ["mlp"]
    assert (found[0].seconds, found[0].memory) == (None, None)
    assert found[0].collectives == {"all_reduce": 1}
