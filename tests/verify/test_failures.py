"""A failure says where, what and what it should be, and prints the part that shows it.

And what a proof does not look at: names, places, the order of ops.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

import partir
from benchmarks.models import mlp, suite
from partir.frontend.device_local import read_device_local
from partir.ir.core import Program
from partir.verify import ReadSource, compare
from partir.verify.failures.excerpt import program_text

pytestmark = pytest.mark.quick

MESH = {"B": 4, "M": 2}


def layer(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.exp(x @ w) + 1


def split() -> partir.Partitioned:
    x, w = (jax.ShapeDtypeStruct((8, 8), "float32") for _ in "xw")
    tactic = partir.ManualPartition({"x": 1}, axis="M")
    return partir.partition(layer, {"M": 2}, [tactic], args=(x, w))


def without_sum(text: str) -> str:
    """All that reads the sum over devices reads what it adds up."""
    made = re.search(r'(%\d+) = "stablehlo.all_reduce"\((%\d+)\)', text)
    assert made is not None
    head, tail = text[: made.end()], text[made.end() :]
    return head + re.sub(rf"{made[1]}\b(?! =)", made[2], tail)


def test_a_failure_says_where_and_what() -> None:
    p = split()
    found = p.proof(without_sum(p.stablehlo())).not_proved[0]
    assert found.op == "exponential(f32[8,8]) -> f32[8,8]"
    assert found.reason == (
        "exponential reads a partial sum over M of dot_general f32[8,8], "
        "should be the whole"
    )
    assert re.search(r"test_failures\.py:\d+ \(layer\)", found.where)


def test_the_part_that_shows_it_is_a_module() -> None:
    p = split()
    found = p.proof(without_sum(p.stablehlo())).not_proved[0]
    ops = re.findall(r'"stablehlo\.(\w+)"', found.module)
    assert ops == ["dot_general", "exponential"]  # neither what comes before nor after
    assert "a tile over M of argument f32[8,8]" in found.module
    program = partir.load(found.module)
    assert [port.name for port in program.results] == ["out"]
    with pytest.raises(partir.VerificationError, match="The part that shows it"):
        p.verify(without_sum(p.stablehlo()))


def test_a_result_that_is_a_part_is_disproved() -> None:
    x = jax.ShapeDtypeStruct((8,), "float32")
    tactic = partir.ManualPartition({"x": 0}, axis="M")
    p = partir.partition(lambda x: jnp.sum(x), {"M": 2}, [tactic], args=(x,))
    (found,) = p.proof(without_sum(p.stablehlo())).disproved
    assert "is a partial sum over M of sum over 8 f32[], should be" in found.reason
    assert found.op.startswith("reduce(")


def step() -> tuple[partir.Partitioned, Program]:
    config = mlp.Config(blocks=1, width=8, hidden=16, batch=32)
    args = mlp.example_args(config)[0]
    model = suite.Model("mlp", mlp.train_step, args, mlp.BATCH, mlp.MODEL)
    p = suite.partitioned(model, model.schedules()["BP+MP+Z3"], MESH)
    return p, read_device_local(p.stablehlo())


def shuffled(program: Program, rng: random.Random) -> Program:
    """Ops of the main block in another order that respects what they read."""
    left, made = list(program.body.ops), set(program.body.arguments)
    order: list[int] = []
    while left:
        ready = [n for n in left if made.issuperset(program.ops[n].operands)]
        chosen = rng.choice(ready)
        left.remove(chosen)
        order.append(chosen)
        made.update(program.ops[chosen].results)
    return replace(program, body=replace(program.body, ops=tuple(order)))


def renamed(text: str) -> str:
    """Without locations, all values by other names."""
    text = re.sub(r" loc\(.*\)$", "", text, flags=re.M)
    text = re.sub(r"^#loc.*\n", "", text, flags=re.M)
    assert "loc(" not in text
    return re.sub(r"%(\d+)", r"%v\1x", text)


@pytest.mark.parametrize("seed", range(3))
def test_neither_order_nor_names_nor_places_matter(seed: int) -> None:
    p, local = step()
    order = shuffled(local, random.Random(seed))
    assert order.body.ops != local.body.ops
    assert not p.proof(renamed(program_text(order))).not_proved


def test_one_source_is_held_against_many() -> None:
    p, local = step()
    source, spmd = ReadSource(p.program), p.spmd
    right = (local, p.mesh, spmd.in_tilings, spmd.out_tilings)
    wrong = read_device_local(without_sum(p.stablehlo()))
    verdicts = [
        bool(compare(source, each, *right[1:]).not_proved)
        for each in (local, wrong, local)
    ]
    assert verdicts == [False, True, False]


def test_programs_are_printed_as_they_are() -> None:
    _, local = step()
    again = read_device_local(program_text(local))
    assert [op.signature for op in again.ops] == [op.signature for op in local.ops]
