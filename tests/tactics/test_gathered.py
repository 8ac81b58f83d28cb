"""`Gathered`: what is gathered is kept, or gathered again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from benchmarks.models import mlp, transformer
from benchmarks.models.schedules import schedules_for
from partir.search.problem import Problem
from partir.simulate.device.catalogue import devices
from tests.e2e.compare import TINY

SCHEDULE = schedules_for(separate=False)["BP+MP+Z3"]
MESH = {"B": 4, "M": 2}
LAYERS = 3


def kept(how: str, pattern: str = "**") -> partir.Gathered:
    return partir.Gathered({pattern: how}, axis="B", name=how)


@pytest.fixture(scope="module")
def step() -> partir.Program:
    """A training step with as many tensors per layer as the published one."""
    config = transformer.Config(**{**vars(TINY), "layers": LAYERS, "dtype": "float32"})
    args = jax.eval_shape(
        lambda key: (
            *transformer.init(config, key),
            *transformer.example_batch(config, key),
        ),
        jax.random.key(0),
    )
    return partir.trace(transformer.train_step, *args)


def run(step: partir.Program, *more: Any) -> partir.Partitioned:
    return partir.partition(step, MESH, [*SCHEDULE, *more], device="tpu_v4")


def test_keeping_gathers_once_and_takes_memory(step: partir.Program) -> None:
    """Four matrices per layer and the embedding, instead of twice and thrice."""
    again, keep = run(step), run(step, kept("keep"))
    assert again.collectives["all_gather"] == 2 * 4 * LAYERS + 3
    assert keep.collectives["all_gather"] == 4 * LAYERS + 1
    counts = again.collectives, keep.collectives
    assert len({tuple(c[k] for k in c if k != "all_gather") for c in counts}) == 1
    before, after = keep.steps[-2:]
    assert after.bytes_communicated < before.bytes_communicated
    assert after.estimate.peak_bytes > before.estimate.peak_bytes
    assert keep.in_specs == again.in_specs


def test_some_are_kept(step: partir.Program) -> None:
    both = partir.Gathered({"**": "keep", "**/w1": "again"}, axis="B")
    assert run(step, both).collectives["all_gather"] == 5 * LAYERS + 1


W = jax.ShapeDtypeStruct((8, 8), "float32")
ROWS = partir.ManualPartition({"w": 0}, axis="B", name="Z3")
BATCH = partir.ManualPartition({"x": 0}, axis="B", name="BP")


def chain(x: Array, w: Array) -> Array:
    return jnp.tanh(x @ w) @ w.T


def siblings(x: Array, w: Array) -> tuple[Array, Array]:
    return x @ w, (x + 1) @ w


def gathers(fn: Any, *tactics: Any) -> int:
    done = partir.partition(fn, {"B": 4}, [BATCH, ROWS, *tactics], args=(W, W))
    return done.collectives["all_gather"]


def test_another_form_of_what_is_kept_is_made_of_it() -> None:
    assert gathers(chain) == 2
    assert gathers(chain, kept("keep", "w")) == 1


def test_again_is_once_for_each_reader() -> None:
    assert gathers(siblings) == 1
    assert gathers(siblings, kept("again", "w")) == 2


def test_a_kept_value_gives_the_same() -> None:
    x, w = np.random.default_rng(0).normal(size=(2, 8, 8)).astype(np.float32)
    tactics = [BATCH, ROWS, kept("keep", "w")]
    done = partir.partition(chain, {"B": 4}, tactics, args=(W, W))
    np.testing.assert_allclose(done.compile()(x, w), jax.jit(chain)(x, w), rtol=1e-5)


def test_it_is_on_record(tmp_path: Path) -> None:
    tactics = [BATCH, ROWS, kept("keep", "w")]
    done = partir.partition(chain, {"B": 4}, tactics, args=(W, W))
    assert str(done.steps[-1].actions[0]) == "gathered('w', 'B', 'keep')"
    done.save(tmp_path / "kept.json")
    for schedule in (done.schedule(), partir.load_schedule(tmp_path / "kept.json")):
        again = partir.partition(chain, {"B": 4}, schedule, args=(W, W))
        assert again.spmd_text() == done.spmd_text()
    assert "partir.Gathered(\n    {\"w\": 'keep'}," in str(partir.Schedule(tactics))


def test_what_the_axis_does_not_tile_is_left() -> None:
    done = partir.partition(chain, {"B": 4}, [BATCH, kept("keep", "w")], args=(W, W))
    (action,) = done.steps[-1].actions
    assert action.kind == "skip"
    assert "never gathered" in action.reason


# Search


def searched(room: float) -> tuple[partir.AutomaticPartition, partir.Partitioned]:
    args = mlp.example_args(mlp.Config(blocks=4, width=512, hidden=2048))[0]
    whole = dict.fromkeys(("params/**", "opt_state/**"), partir.FIRST_DIVISIBLE_DIM)
    auto = partir.AutomaticPartition("B", evaluations=30, memory_limit=room)
    tactics = [
        partir.ManualPartition({"batch/*": 0}, axis="B", name="BP"),
        partir.ManualPartition(whole, axis="B", name="Z3"),
        auto,
    ]
    mesh = {"B": 8}
    step, device = mlp.train_step, "tpu_v3"
    return auto, partir.partition(step, mesh, tactics, args=args, device=device)


def test_search_keeps_what_there_is_room_for() -> None:
    """Of eight matrices one is gathered once anyway, two more cost no memory at all."""
    gathers = {}
    for room in (34e6, 58e6, 60e6):
        auto, done = searched(room)
        assert done.estimate.peak_bytes <= room
        assert all(isinstance(tactic, partir.Gathered) for tactic in auto.found)
        assert done.steps[-2].collectives["all_gather"] == 19
        gathers[room] = done.collectives["all_gather"]
    assert gathers[34e6] == 17
    assert gathers[60e6] == 12


def test_search_sees_what_was_said_before(step: partir.Program) -> None:
    def folded(*more: Any) -> Problem:
        state = run(step, *more).steps[-1].state
        donated = [False] * len(step.arguments)
        return Problem(state, ("B",), devices["tpu_v4"], donated)

    open_, said = folded(), folded(kept("keep"))
    assert any(open_.kept_moves(()))
    assert not any(said.kept_moves(()))
    peaks = [one.estimate(one.start).peak_bytes for one in (open_, said)]
    assert peaks[0] < peaks[1]


# Loops


def shared(x: Array, w: Array) -> Array:
    def loss(w: Array) -> Array:
        steps = lax.scan(lambda h, _: (jnp.tanh(h @ w[0]), None), x, None, length=6)
        return jnp.sum(steps[0])

    return jax.grad(loss)(w)


def stacked(x: Array, w: Array) -> Array:
    def loss(w: Array) -> Array:
        return jnp.sum(lax.scan(lambda h, one: (jnp.tanh(h @ one), None), x, w)[0])

    return jax.grad(loss)(w)


def nested(x: Array, w: Array) -> Array:
    def step(h: Array, _: None) -> tuple[Array, None]:
        return lax.scan(lambda h, one: (jnp.tanh(h @ one), None), h, w)

    return lax.scan(step, x, None, length=3)[0]


def branches(x: Array, w: Array) -> Array:
    def layer(h: Array, one: Array) -> tuple[Array, None]:
        way = h.sum() > 0
        return lax.cond(way, lambda: jnp.tanh(h @ one), lambda: h), None

    return lax.scan(layer, x, w)[0]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("fn", "again", "once"),
    [(shared, 12, 1), (stacked, 12, 1), (nested, 18, 1), (branches, 6, 1)],
)
def test_what_loops_read_is_gathered_before_them(
    fn: Any, again: int, once: int
) -> None:
    """A whole stack, or what all iterations share: once, for all loops."""
    rng, counts = np.random.default_rng(0), {}
    args = rng.normal(size=(8, 8)), rng.normal(size=(6, 8, 8))
    shards = partir.ManualPartition({"w": 1}, axis="B", name="Z3")
    for how in ("again", "keep"):
        schedule = [BATCH, shards, kept(how, "w")]
        done = partir.partition(fn, {"B": 4}, schedule, args=args)
        counts[how] = done.collectives["all_gather"]
    assert counts == {"again": again, "keep": once}
    np.testing.assert_allclose(done.compile()(*args), jax.jit(fn)(*args), rtol=1e-9)
