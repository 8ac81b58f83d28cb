"""Small values go to other devices together, in one collective."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax import Array

import partir
from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.rules.nest import nest_of
from partir.spmd.export_policy import PLAIN, XLA_CPU
from partir.spmd.preparations import joint_moves
from partir.spmd.preparations.joint_moves import joins_moves, joint_of, move_together
from partir.spmd.preparations.prepare import has_ties, prepared
from partir.spmd.program import (
    Block,
    Cause,
    Collective,
    Compute,
    Control,
    SpmdOp,
    has_barriers,
)
from partir.spmd.rewrites.sweep import Sweep, collectives_of, reads_of, run_pass
from partir.spmd.stablehlo.export import stablehlo_text

pytestmark = pytest.mark.usefixtures("x64")

B4 = {"B": 4}
SIZES = (8, 4, 8, 12)
KINDS = ("all_reduce", "reduce_scatter", "all_gather")


def weights(layers: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    pairs = list(pairwise(SIZES))
    return {
        f"{kind}{n}": rng.random((a, b) if kind == "w" else (b,))
        for n, (a, b) in enumerate(pairs[:layers])
        for kind in "wb"
    }


def loss(params: dict[str, Array], x: Array) -> Array:
    for n in range(len(params) // 2):
        x = jnp.tanh(x @ params[f"w{n}"] + params[f"b{n}"])
    return jnp.mean(x**2)


def step(params: dict[str, Array], x: Array) -> Any:
    value, grads = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


X = np.arange(64.0).reshape(8, 8) / 64
BP = partir.ManualPartition({"x": 0}, axis="B", name="BP")
Z2 = partir.ManualPartition({}, outputs={"out/0/w*": partir.REPLICATED}, axis="B")
ZERO = partir.ManualPartition({"params/w*": 0}, axis="B", name="Z3")


def done(*tactics: Any, layers: int = 3) -> Any:
    return partir.partition(step, B4, [BP, *tactics], args=(weights(layers), X))


def counts(text: str) -> dict[str, int]:
    return {kind: text.count(f'"stablehlo.{kind}"') for kind in KINDS}


def apart() -> Any:
    return replace(XLA_CPU, name="", moves_together=False)


@pytest.mark.identity("together")
@pytest.mark.parametrize(
    ("tactics", "before", "after"),
    [((), (7, 0, 0), (1, 0, 0)), ((ZERO,), (4, 3, 5), (1, 1, 2))],
)
def test_small_values_are_sent_together(
    tactics: Any, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    made = done(*tactics)
    for policy, wanted in ((apart(), before), (XLA_CPU, after)):
        text = stablehlo_text(made.spmd, policy)
        assert tuple(counts(text).values()) == wanted
        assert not made.verify(text).not_proved
    assert prepared(made.spmd, XLA_CPU).bytes_communicated == made.bytes_communicated
    got, want = made.compile()(weights(), X), jax.jit(step)(weights(), X)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), got, want)


def test_other_compilers_get_each_by_itself() -> None:
    text = stablehlo_text(done().spmd, PLAIN)
    assert (counts(text)["all_reduce"], "concatenate" in text) == (7, False)


def test_large_values_are_sent_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(joint_moves.SMALL, "all_reduce", 12 * 8)  # bytes of a bias
    text = stablehlo_text(done().spmd, XLA_CPU)
    assert counts(text)["all_reduce"] == 1 + 3


def test_no_more_than_so_much_is_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_moves, "LITTLE", 8 * 12 * 8)
    spmd = prepared(done().spmd, XLA_CPU)
    sizes = [
        sum(spmd.types[op.operand].bytes for op in collectives_of(run))
        for run in runs_of(spmd.body.ops)
    ]
    assert max(sizes) <= 8 * 12 * 8
    assert sum(size > 0 for size in sizes) == 3


@pytest.mark.parametrize(("limit", "sums"), [(1480, 1), (1400, 1), (1280, 2)])
def test_nothing_goes_alone_that_is_little_beside_the_rest(
    monkeypatch: pytest.MonkeyPatch, limit: int, sums: int
) -> None:
    """1,480 bytes in all: what differs from other layers' is compiled by itself."""
    monkeypatch.setattr(joint_moves, "LITTLE", 8)
    monkeypatch.setattr(joint_moves, "_limit", lambda sweep: limit)
    assert counts(stablehlo_text(done().spmd, XLA_CPU))["all_reduce"] == sums


def test_where_values_begin_is_hidden_so_that_kernels_of_layers_are_one() -> None:
    text = stablehlo_text(done().spmd, XLA_CPU)
    (held,) = re.findall(r'(%\w+):7 = "stablehlo.optimization_barrier"', text)
    starts = re.findall(r'"stablehlo.dynamic_slice"\(%\w+, (%\w+#\d)', text)
    assert starts == [f"{held}#{number}" for number in range(7)]


def test_gathers_wait_for_what_the_first_of_them_is_needed_with() -> None:
    spmd = prepared(done(ZERO).spmd, XLA_CPU)
    gathers = [op for op in collectives_of(spmd.body.ops) if op.kind == "all_gather"]
    numbers = {
        op.joint: {one.after for one in gathers if one.joint == op.joint}
        for op in gathers
    }
    assert [len(afters) for afters in numbers.values()] == [1] * len(numbers)


def test_a_program_with_one_of_a_kind_stays_as_it_is() -> None:
    def one(x: Array) -> Array:
        return jnp.sum(x)

    spmd = partir.partition(one, B4, [BP], args=(X,)).spmd
    assert run_pass(spmd, move_together) is spmd
    assert not joins_moves(spmd)


def recomputed(*tactics: Any) -> Any:
    def again(params: dict[str, Array], x: Array) -> Any:
        return jax.grad(jax.checkpoint(loss))(params, x)

    return partir.partition(again, B4, [BP, *tactics], args=(weights(), X))


def test_the_authors_barriers_go_so_that_those_of_joint_moves_can_stay() -> None:
    written = recomputed()
    assert has_barriers(written.spmd, written=True)
    assert joins_moves(written.spmd)
    assert not has_barriers(prepared(written.spmd, XLA_CPU), written=True)
    kept = prepared(written.spmd, replace(XLA_CPU, drops_barriers=False))
    assert has_barriers(kept, written=True)
    assert not written.proof(stablehlo_text(written.spmd, XLA_CPU)).not_proved


def test_the_authors_barriers_stay_where_gathers_wait() -> None:
    """XLA is told to keep all of them there, and recomputes as the author wished."""
    tied = prepared(recomputed(ZERO).spmd, XLA_CPU)
    assert has_ties(tied)
    assert has_barriers(tied, written=True)


def test_maxima_and_sums_of_several_types_are_kept_apart() -> None:
    def mixed(x: Array, n: Array) -> Any:
        return x.sum(0), (x**2).sum(0), x.max(0), (-x).max(0), n.sum(0), (n * n).sum(0)

    x, n = X.copy(), np.arange(16, dtype=np.int32).reshape(8, 2)
    x[3, 2] = np.nan
    batch = partir.ManualPartition({"x": 0, "n": 0}, axis="B")
    made = partir.partition(mixed, B4, [batch], args=(x, n))
    text = stablehlo_text(made.spmd, XLA_CPU)
    assert counts(text)["all_reduce"] == 3
    assert not made.verify(text).not_proved
    for got, want in zip(made.compile()(x, n), jax.jit(mixed)(x, n), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_scatters_in_loops_are_held_if_the_policy_says_so() -> None:
    def layers(params: dict[str, Array], x: Array) -> Array:
        def one(x: Array, p: dict[str, Array]) -> tuple[Array, None]:
            return jnp.tanh(jnp.tanh(x @ p["w0"]) @ p["w1"]), None

        return jnp.mean(jax.lax.scan(one, x, params)[0] ** 2)

    params = {name: np.ones((3, 8, 8)) for name in ("w0", "w1")}
    shard = partir.ManualPartition({"params/w*": 1}, outputs={"out/w*": 1}, axis="B")
    spmd = partir.partition(jax.grad(layers), B4, [BP, shard], args=(params, X)).spmd
    text, held = (
        stablehlo_text(spmd, replace(XLA_CPU, name="", holds_scatters=answer))
        for answer in (False, True)
    )
    assert counts(text)["reduce_scatter"] == 1
    barrier = '"stablehlo.optimization_barrier"'
    assert held.count(barrier) == text.count(barrier) + 2


# Properties


@settings(max_examples=20, deadline=None)
@given(
    zero=st.booleans(),
    layers=st.integers(1, 3),
    small=st.sampled_from([1, 64, 512, 1 << 18]),
    bundle=st.sampled_from([1, 600, 1 << 20]),
)
def test_ops_are_the_same_and_in_an_order_that_can_be_run(
    zero: bool, layers: int, small: int, bundle: int
) -> None:
    spmd = done(*[ZERO] * zero, layers=layers).spmd
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint_moves, "SMALL", dict.fromkeys(KINDS, small))
        patch.setattr(joint_moves, "LITTLE", bundle)
        made = run_pass(spmd, move_together)
    plain = [_alone(op) for op in made.body.ops]
    assert sorted(plain, key=str) == sorted(map(_alone, spmd.body.ops), key=str)
    assert_in_order(made.body)
    for run in runs_of(made.body.ops):
        keys = {(op.kind, op.axes, op.monoid) for op in collectives_of(run)}
        assert len(keys) <= 1


def runs_of(ops: Sequence[SpmdOp]) -> Iterator[list[SpmdOp]]:
    """Ops in their order, those that are done as one in one list."""
    for joint, run in groupby(ops, joint_of):
        ops_of_run = list(run)
        yield from ([op] for op in ops_of_run) if joint < 0 else (ops_of_run,)


def _alone(op: Any) -> Any:
    return op._replace(joint=-1, after=-1) if isinstance(op, Collective) else op


def assert_in_order(block: Block) -> None:
    there = set(block.arguments)
    for run in runs_of(block.ops):
        for op in run:  # those of one run are done at once: none reads another's
            assert there.issuperset(reads_of(op))
        there.update(value for op in run for value in op.results)
    assert there.issuperset(block.results)


# Blocks of any kind of op

ONE = TensorType((), "f32")
NONE = Cause(0, None, None)


def op_of(kind: str, operands: tuple[int, ...], result: int) -> SpmdOp:
    """An op; a collective waits for its second operand, if it has one."""
    if kind in ("add", "sort"):
        attrs = {} if kind == "add" else {"dimension": "0 : i64"}
        types = (ONE,) * len(operands)
        signature = Signature.of(f"stablehlo.{kind}", attrs, types, (ONE,))
        return Compute(0, nest_of(signature), operands, (result,))
    if kind == "while":
        inner = Block((), (op_of("add", operands, -1 - result),), operands)
        return Control(0, operands[:1], (result,), (inner,))
    name, axis = kind.split()
    after = operands[1] if operands[1] % 3 == 0 else -1
    return Collective(name, operands[0], result, (axis,), NONE, 0, after=after)


def of_block(ops: list[SpmdOp], given: int) -> Any:
    """A program of one block; its values are numbers."""
    block = Block(tuple(range(given)), tuple(ops), ())
    types = (ONE,) * (given + len(ops))
    walk = [(op, 1) for op in ops]
    return SimpleNamespace(
        types=types,
        body=block,
        splats={},
        repeats=None,
        walk=lambda: walk,
        blocks=(block,),
        moves=collectives_of(ops),
    )


MOVES = [f"{kind} {axis}" for kind in (*KINDS, "all_to_all") for axis in "BM"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_block_is_in_an_order_that_can_be_run(data: st.DataObject) -> None:
    ops: list[SpmdOp] = []
    for place in range(data.draw(st.integers(2, 30))):
        kind = data.draw(st.sampled_from(["add", "add", "sort", "while", *MOVES]))
        near = st.integers(max(0, place - 4), 1 + place)
        ops.append(op_of(kind, (data.draw(near), data.draw(near)), 2 + place))
    program = of_block(ops, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint_moves, "LITTLE", data.draw(st.sampled_from([4, 12, 999])))
        made = move_together(Sweep(program), ops)
    assert sorted(map(str, map(_alone, made))) == sorted(map(str, map(_alone, ops)))
    assert_in_order(replace(program.body, ops=tuple(made)))
    opaque = [op for op in ops if isinstance(op, Control) or "sort" in str(op)]
    assert [op for op in made if op in opaque] == opaque


@pytest.mark.parametrize("kind", ["wide", "behind"])
def test_time_grows_with_the_number_of_ops_alone(kind: str) -> None:
    def seconds(count: int) -> float:
        program = of_block(many(kind, count), count)
        start = time.process_time()
        move_together(Sweep(program), program.body.ops)
        return time.process_time() - start

    short = min(seconds(250) for _ in range(3))
    assert seconds(2000) < 8 * 4 * short + 0.05


def many(kind: str, count: int) -> list[SpmdOp]:
    """Sums that nobody reads, or that ops read that wait as well, and other sums."""
    ops: list[SpmdOp] = []

    def done(kind: str, *operands: int) -> int:
        ops.append(op_of(kind, operands, count + len(ops)))
        return count + len(ops) - 1

    last = 0
    for number in range(count):
        found = done("all_reduce B", number, 1)
        if kind == "behind":
            done("add", found, found)
            last = done("sort", done("all_reduce M", last, 1))
    return ops
