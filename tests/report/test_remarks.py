"""Printing a partition shows the table and, shortened, what deserves a look."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir import ManualPartition

pytestmark = pytest.mark.quick


def shape(*sizes: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def below_table(p: partir.Partitioned) -> list[str]:
    assert repr(p) == str(p)  # what a notebook shows
    lines = str(p).splitlines()
    return lines[3 + len(p.steps) :]


def test_nothing_to_remark() -> None:
    rows = ManualPartition({"x": 0}, axis="A", name="rows")
    p = partir.partition(lambda x: x + 1, {"A": 4}, [rows], args=(shape(8),))
    assert below_table(p) == []


def test_whole_is_one_line_for_each_stop() -> None:
    """Five sorts with something behind them; the costliest come first."""

    def fn(xs: Any) -> Any:
        return [jnp.exp(jnp.sort(x)) for x in xs]

    args = ([shape(8 * (number + 1)) for number in range(5)],)
    rows = ManualPartition({"xs/*": 0}, axis="A", name="rows")
    p = partir.partition(fn, {"A": 4}, [rows], args=args)
    first, why, remedy, *others, last = below_table(p)
    assert first.startswith(
        'whole: 2 ops on "A", 38% of what a device computes, from %'
    )
    assert "/sort/4 (" in first
    assert first.endswith(") on:")
    assert why.startswith("  its rule has no loop along the dimension that is tiled")
    assert remedy == '  no other dimension of it can be tiled here over "A" of size 4'
    assert len(others) == 6
    assert last == "whole: … and 2 more: p.replicated_ops"
    assert len(p.replicated_ops) == 10


def test_skipped_with_a_reason() -> None:
    def fn(x: Any, params: Any) -> Any:
        stack, bias, count = params["stack"], params["bias"], params["count"]
        y, _ = jax.lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, stack)
        return y + bias * count

    schedule = [
        ManualPartition({"x": 0}, axis="A", name="BP"),
        ManualPartition({"**": partir.FIRST_DIVISIBLE_DIM}, axis="A", name="Z3"),
    ]
    params = {"stack": shape(4, 6, 6), "bias": shape(6), "count": shape()}
    p = partir.partition(fn, {"A": 4}, schedule, args=(shape(8, 6), params))
    size = "divides over an axis of size 4"
    assert below_table(p) == [
        'skipped: x on "A" by "Z3": already tiled on dimension 0 (by tactic "BP")',
        f'skipped: params/bias on "A" by "Z3": no dimension of 6 {size}',
        f'skipped: params/stack on "A" by "Z3": no dimension of 4x6x6 {size}, but for '
        "dimension 0, which a loop steps through",
    ]
    actions = [str(action) for action in p.steps[1].actions]
    assert "skip('params/count', 'A')" in actions
    assert f"skip('params/bias', 'A')  # no dimension of 6 {size}" in actions


def test_loops_of_unknown_length() -> None:
    def fn(x: Any, n: Any) -> Any:
        return jax.lax.fori_loop(0, n, lambda _, c: jnp.tanh(c), x)

    p = partir.partition(fn, {"A": 4}, [], args=(shape(8), shape(dtype="int32")))
    (line,) = below_table(p)
    assert line.startswith("loop of unknown length, counted once: ")
    assert "test_remarks.py" in line
    assert line.endswith("; estimate_on(device, trip_count=n) counts it n times")


def test_ops_without_a_rule_that_read_nothing_tiled() -> None:
    call = "stablehlo.custom_call @unheard_of"
    text = f"""
    module {{
      func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
        %0 = {call}(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %1 = {call}(%0) : (tensor<8xf32>) -> tensor<8xf32>
        return %1 : tensor<8xf32>
      }}
    }}"""
    program = partir.load(text)
    line = (
        'no rule: custom_call "unheard_of" (line 4 and 1 more) can\'t be tiled; '
        'partir.rule("unheard_of", "…") gives it one'
    )
    assert below_table(partir.partition(program, {"A": 4}, [])) == [line]
    rows = ManualPartition({"arg0": 0}, axis="A", name="rows")
    assert below_table(partir.partition(program, {"A": 4}, [rows])) == [
        'whole: %main/custom_call/0 (line 4) on "A":',
        "  it has no rule;",
        '  partir.rule("unheard_of", "…") gives it one',
    ]
