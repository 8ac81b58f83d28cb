"""What loops carry, where it leaves a choice how it is tiled."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import partir
from partir.verify import prove
from partir.verify.machine.carried import turn

pytestmark = pytest.mark.quick

MESH = {"A": 2, "B": 2}


def rows_of_numbers(row: jax.Array) -> jax.Array:
    """Each row is written in its turn; the columns of zeros are all alike."""
    return lax.fori_loop(0, 6, lambda i, y: y.at[i].set(row), jnp.zeros((6, 6)))


def constant(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return rows_of_numbers(jnp.full(6, 4.0)), x


def given(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return rows_of_numbers(x), x


def tiled(fn: Any, axis: str) -> partir.Partitioned:
    x = jax.ShapeDtypeStruct((6,), "float32")
    tactic = partir.ManualPartition({}, axis=axis, outputs={"out/0": 1})
    return partir.partition(fn, MESH, [tactic], args=(x,))


@pytest.mark.parametrize("axis", MESH)
@pytest.mark.parametrize("fn", [constant, given])
def test_columns_are_tiled_by_any_axis(fn: Any, axis: str) -> None:
    p = tiled(fn, axis)
    assert p.out_specs[0] == jax.P(None, axis)
    assert not p.proof().not_proved


@pytest.mark.parametrize("fn", [constant, given])
def test_only_equal_columns_are_tiles_of_another_axis(fn: Any) -> None:
    p = tiled(fn, "B")
    ins, outs = p.spmd.in_tilings, p.spmd.out_tilings
    other = (((), ("A",)), *outs[1:])
    proof = prove(p.program, p.stablehlo(), p.mesh, ins, other)
    assert ("out/0" in proof.proved) == (fn is constant)


def accumulated(a: jax.Array, b: jax.Array) -> jax.Array:
    """Columns are tiles by one axis, and each of them a part of a sum over another."""

    def step(turn: Any, total: jax.Array) -> jax.Array:
        return total + jnp.sin(a + turn).sum(1) @ b

    return lax.fori_loop(0, 3, step, jnp.zeros(8))


def test_a_loop_carries_tiles_of_parts() -> None:
    args = [jax.ShapeDtypeStruct((8, 8), "float32")] * 2
    tactics = [
        partir.ManualPartition({"a": 0}, axis="A", name="parts"),
        partir.ManualPartition({"b": 1}, axis="B", name="tiles"),
    ]
    p = partir.partition(accumulated, MESH, tactics, args=args)
    text = p.stablehlo()
    assert text.index("all_reduce") > text.index("stablehlo.while")
    assert not p.proof().not_proved
    over_a, over_b = "[[0, 2], [1, 3]]", "[[0, 1], [2, 3]]"
    groups = (
        'dense<"0x0000000000000000020000000000000001000000000000000300000000000000">'
    )
    assert groups in text
    other = text.replace(groups, f"dense<{over_b}>")
    assert p.proof(text.replace(groups, f"dense<{over_a}>")).proved
    assert not p.proof(other).proved


def nested(row: jax.Array) -> jax.Array:
    """Around a loop that leaves a choice is one that does so too."""

    def step(turn: Any, total: jax.Array) -> jax.Array:
        return total + jnp.sin(rows_of_numbers(row + turn))

    return lax.fori_loop(0, 3, step, jnp.zeros((6, 6)))


def test_a_loop_in_a_loop_starts_from_what_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the outer one is run again, the inner one is run once."""
    x = jax.ShapeDtypeStruct((6,), "float32")
    tactic = partir.ManualPartition({}, axis="B", outputs={"out": 1})
    p = partir.partition(nested, MESH, [tactic], args=(x,))
    runs: Counter[tuple[int, ...]] = Counter()

    def counted(machine: Any, op: Any, carried: Any, loop: int) -> Any:
        runs[op.results] += bool(machine.sizes)
        return turn(machine, op, carried, loop)

    monkeypatch.setattr("partir.verify.devices.loops.turn", counted)
    assert not p.proof().not_proved
    outer, inner = sorted(filter(None, runs.values()))
    assert outer == 2  # the columns are by the other axis
    assert inner <= 6 + 1
