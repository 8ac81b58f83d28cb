"""Preparations for XLA on CPUs: sums and gathers in loops, tiles along outer dims."""

from __future__ import annotations

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from partir.spmd.export_policy import PLAIN, XLA_CPU
from partir.spmd.preparations.loop_sums import sum_inside_loops
from partir.spmd.preparations.prepare import has_ties, prepared
from partir.spmd.program import Control, SpmdProgram
from partir.spmd.rewrites.sweep import collectives_of, run_pass
from partir.spmd.rewrites.table import rewrite
from partir.spmd.rewrites.tie_gathers import tie_gathers_in_loops
from partir.spmd.stablehlo.export import stablehlo_text
from tests.spmd.lowered import M2, Lowered, W, X, assert_same, lowered

pytestmark = pytest.mark.usefixtures("x64")

BATCH = [("M", {"xs": 1})]
XS = np.stack([X, X + 1, X * 2, X - 3])


def stacked(xs: Array) -> Array:
    """A product per iteration, written into a stack."""
    return lax.map(lambda x: jnp.einsum("bi,bo->io", x, x), xs)


def accumulated(xs: Array) -> Array:
    """A product per iteration, added up."""
    start = jnp.zeros((8, 8))
    return lax.scan(lambda a, x: (a + jnp.einsum("bi,bo->io", x, x), None), start, xs)[
        0
    ]


def inside(spmd: SpmdProgram) -> list[str]:
    """Collectives in loops."""
    loops = [op for op in spmd.body.ops if isinstance(op, Control)]
    blocks = [block for loop in loops for block in loop.blocks]
    return [op.kind for block in blocks for op in collectives_of(block.ops)]


# sum_inside_loops


def rewritten(case: Lowered) -> SpmdProgram:
    return rewrite(case.spmd)


@pytest.mark.identity("accumulated")
def test_slices_are_summed_before_they_are_written() -> None:
    case = lowered(stacked, XS, axes=M2, tactics=BATCH)
    before = rewritten(case)
    assert (before.collectives["all_reduce"], inside(before)) == (1, [])
    after = run_pass(before, sum_inside_loops)
    assert (after.collectives["all_reduce"], inside(after)) == (4, ["all_reduce"])
    assert after.bytes_communicated == before.bytes_communicated
    assert_same(after, case.args, case.expected)


@pytest.mark.identity("accumulated")
def test_what_is_added_up_is_summed_once() -> None:
    case = lowered(accumulated, XS, axes=M2, tactics=BATCH)
    before = rewritten(case)
    assert (before.collectives["all_reduce"], inside(before)) == (1, [])
    assert run_pass(before, sum_inside_loops) is before


def test_a_stack_that_does_not_start_from_zeros_is_summed_behind_the_loop() -> None:
    def onto(xs: Array) -> Array:
        def write(i: Array, stack: Array) -> Array:
            return stack.at[i].set(jnp.einsum("bi,bo->io", xs[i], xs[i]))

        return lax.fori_loop(0, 4, write, jnp.ones((4, 8, 8)))

    before = rewritten(lowered(onto, XS, axes=M2, tactics=BATCH))
    assert run_pass(before, sum_inside_loops) is before


# tie_gathers_in_loops


def layers(x: Array, ws: Array) -> Array:
    return lax.scan(lambda x, w: (jnp.tanh(x) @ w, None), x, ws)[0]


def test_gathers_in_loops_wait_for_what_they_are_needed_with() -> None:
    tactics = [
        partir.ManualPartition({"x": 0}, axis="B", name="BP"),
        partir.ManualPartition({"ws": 1}, axis="B", name="Z3"),
    ]
    done = partir.partition(layers, {"B": 4}, tactics, args=(X, XS))
    assert inside(done.spmd) == ["all_gather"]
    assert not has_ties(done.spmd)
    assert has_ties(run_pass(done.spmd, tie_gathers_in_loops))
    text = stablehlo_text(done.spmd, XLA_CPU)
    assert text.count("optimization_barrier") == 1
    np.testing.assert_allclose(done.compile()(X, XS), layers(X, XS), rtol=1e-12)


def test_a_program_without_loops_stays_as_it_is() -> None:
    case = lowered(
        lambda x, w: x @ w, X, W, axes=M2, tactics=[("M", {"w": 0})], to=None
    )
    spmd = rewritten(case)
    assert run_pass(spmd, tie_gathers_in_loops) is spmd
    assert run_pass(spmd, sum_inside_loops) is spmd


# outer_tiles


def dims(text: str) -> list[int]:
    """Dimensions along which collectives gather and scatter."""
    found = re.findall(r"(?:all_gather_dim|scatter_dimension) = (\d+)", text)
    return [int(one) for one in found]


def moved(x: Array, w: Array) -> tuple[Array, Array]:
    """One result is gathered along its columns, the other scattered along them."""
    return jnp.tanh(w), x @ w


@pytest.mark.parametrize("columns", [8, 6])
def test_tiles_are_moved_along_an_outer_dimension(columns: int) -> None:
    x = np.arange(64.0).reshape(8, 8)
    w = np.arange(8.0 * columns).reshape(8, columns) / 64
    shapes = [np.float64(one) for one in (x, w)]
    whole = partir.ManualPartition(
        {"x": 1, "w": 0}, outputs={"out/1": 1}, axis="M", name="inner"
    )
    other = partir.ManualPartition({"w": 1}, axis="B", name="columns")
    gathered = partir.ManualPartition(
        {}, outputs={"out/0": partir.REPLICATED}, axis="B"
    )
    tactics = [gathered, whole, other] if columns == 8 else [whole]
    done = partir.partition(moved, {"B": 2, "M": 2}, tactics, args=shapes)
    texts = [stablehlo_text(done.spmd, policy) for policy in (PLAIN, XLA_CPU)]
    assert 1 in dims(texts[0])
    assert set(dims(texts[1])) == {0}
    assert not done.verify(texts[1]).not_proved
    for got, want in zip(done.compile()(x, w), moved(x, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0), (1, 2)])
def test_tiles_change_places_along_an_outer_dimension(before: int, after: int) -> None:
    x = np.arange(8 * 8 * 16.0).reshape(8, 8, 16) / 64
    turn = partir.ManualPartition({"x": before}, outputs={"out": after}, axis="B")
    done = partir.partition(
        lambda x: jnp.tanh(x), {"B": 4, "M": 2}, [turn], args=(np.float64(x),)
    )
    texts = [stablehlo_text(done.spmd, policy) for policy in (PLAIN, XLA_CPU)]
    found = [re.findall(r"(?:split|concat)_dimension = (\d)", t) for t in texts]
    assert [sorted(some) for some in found] == [
        sorted(map(str, (before, after))),
        ["0", "0"],
    ]
    assert not done.verify(texts[1]).not_proved
    compiled = done.compile()
    np.testing.assert_allclose(compiled(x), np.tanh(x), rtol=1e-12)
    made = compiled.lower_abstract().compile().as_text()
    assert " all-to-all(" in made
    assert " slice(" not in made  # each would be a kernel of its own


def test_the_whole_of_a_scanned_step_is_proved() -> None:
    def loss(ws: Array, x: Array) -> Array:
        return jnp.mean(layers(x, ws) ** 2)

    def step(ws: Array, x: Array) -> Array:
        return ws - 0.1 * jax.grad(loss)(ws, x)

    tactics = [
        partir.ManualPartition({"x": 0}, axis="B", name="BP"),
        partir.ManualPartition({"ws": 1}, axis="B", name="Z3"),
    ]
    for schedule in (tactics[:1], tactics):
        done = partir.partition(step, {"B": 4}, schedule, args=(XS, X))
        text = stablehlo_text(done.spmd, XLA_CPU)
        assert text != stablehlo_text(done.spmd, replace(PLAIN, reads_through=True))
        assert not done.verify(text).not_proved
        assert (
            prepared(done.spmd, XLA_CPU).bytes_communicated == done.bytes_communicated
        )


def test_what_is_written_into_itself_is_moved_as_it_is() -> None:
    """With a first dimension of size one, XLA on CPUs would write it in place."""

    def written(x: Array) -> Array:
        v = jnp.cumsum(x, 0)
        return lax.dynamic_update_slice(v, v[:13] * 7, (10, 0))

    x = np.arange(128).reshape(16, 8)
    whole = partir.ManualPartition({}, outputs={"out": partir.REPLICATED}, axis="M")
    tiled = partir.ManualPartition({"x": 1}, axis="M")
    done = partir.partition(written, {"M": 2}, [whole, tiled], args=(x,))
    assert done.collectives["all_gather"] == 1
    np.testing.assert_array_equal(done.compile()(x), jax.jit(written)(x))


# start_late


def looked_up(table: Array, rows: Array) -> Array:
    return jax.grad(lambda t: jnp.sum(jnp.tanh(t[rows]) ** 3))(table)


@pytest.mark.identity("waiting")
def test_zeros_are_made_when_there_is_something_to_scatter() -> None:
    table, rows = X, np.array([3, 1, 3, 7])
    case = lowered(looked_up, table, rows, axes=M2, tactics=[("M", {"rows": 0})])
    spmd = rewritten(case)
    plain, late = (stablehlo_text(spmd, policy) for policy in (PLAIN, XLA_CPU))
    assert "optimization_barrier" not in plain
    held = re.search(r'(%\w+):2 = "stablehlo.optimization_barrier"', late)
    assert held is not None
    number, updates = (f"{held[1]}#{place}" for place in range(2))
    zeros = re.search(rf'(%\w+) = "stablehlo.broadcast_in_dim"\({number}\)', late)
    assert zeros is not None
    assert re.search(rf'"stablehlo.scatter"\({zeros[1]}, %\w+, {updates}\)', late)


def test_zeros_wait_for_nothing_where_the_compiler_scatters_into_what_is_added() -> (
    None
):
    def added(table: Array, rows: Array) -> Array:
        return jax.grad(lambda t: jnp.sum(jnp.tanh(t[rows])) + jnp.sum(t**3))(table)

    rows = np.array([3, 1, 3, 7])
    case = lowered(added, X, rows, axes=M2, tactics=[("M", {"table": 1})])
    text = stablehlo_text(rewritten(case), XLA_CPU)
    assert "stablehlo.scatter" in text
    assert "optimization_barrier" not in text


def test_a_scatter_into_what_is_computed_waits_for_nothing() -> None:
    def added(table: Array, rows: Array) -> Array:
        return (2 * table).at[rows].add(1.0)

    case = lowered(added, X, np.array([3, 1]), axes=M2, tactics=[("M", {"table": 1})])
    assert "optimization_barrier" not in stablehlo_text(rewritten(case), XLA_CPU)
