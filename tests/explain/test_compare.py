"""`diff`: what changes between two schedules, two models, two devices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir import ManualPartition
from tests.explain.programs import f32


def model(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w)


def changed(x: jax.Array, w: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x @ w)
    return jnp.sort(hidden, 0)


def split(fn: Any = model, device: str | None = None, **inputs: int) -> Any:
    tactic = ManualPartition(inputs, axis="A", name="tiles")
    args = f32(64, 64), f32(64, 64)
    return partir.partition(fn, {"A": 4}, [tactic], args, device=device)


def test_two_schedules() -> None:
    found = partir.diff(split(x=0), split(x=1))
    assert found.lost == ()
    assert [use.id for use in found.gained] == ["all_reduce#0"]
    assert found.gained[0].source.line == model.__code__.co_firstlineno + 1
    layouts = {one.name: (one.before, one.after) for one in found.layouts}
    assert layouts["x"] == ("{A, _}", "{_, A}")
    assert layouts["w"] == ("", "{A, _}")
    assert found.figures["all_reduce"] == (0, 1)
    assert found
    assert found.to_json()["gained"][0]["cause"] == "summed"
    assert "gained: all_reduce#0" in str(found)


def test_the_same() -> None:
    found = partir.diff(split(x=0), split(x=0))
    assert not found
    assert str(found) == "no difference"


def test_two_versions_of_a_model() -> None:
    found = partir.diff(split(x=0), split(changed, x=0))
    assert {use.kind for use in found.gained} == {"all_to_all"}
    back = partir.diff(split(changed, x=0), split(x=0))
    assert [use.kind for use in back.lost] == [use.kind for use in found.gained]


def test_two_devices() -> None:
    found = partir.diff(split(device="tpu_v5e", x=1), split(device="tpu_v5p", x=1))
    before, after = found.figures["seconds"]
    assert before > after > 0
    assert not found.gained
    assert not found.lost


def test_what_it_refuses() -> None:
    with pytest.raises(partir.PartitionError, match="diff takes two Partitioned"):
        partir.diff(split(x=0), "p")  # type: ignore[arg-type]


def test_numbers_of_addresses_may_shift() -> None:
    """An op before others is no reason to call them all lost and gained."""

    def before(x: Any, w: Any, v: Any) -> Any:
        return jnp.sum(jnp.tanh(x @ w) @ v, 0)

    def after(x: Any, w: Any, v: Any) -> Any:
        return jnp.sum(jnp.tanh((x @ w) @ (x @ w).T @ x @ w) @ v, 0)

    args, rows = (f32(64, 64),) * 3, ManualPartition({"x": 0}, axis="A", name="rows")
    a, b = (partir.partition(fn, {"A": 4}, [rows], args=args) for fn in (before, after))
    found = partir.diff(a, b)
    assert found.lost == ()
    assert {use.kind for use in found.gained} == {"all_gather"}
