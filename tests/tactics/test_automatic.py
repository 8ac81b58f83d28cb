"""Automatic tactics: what they find, that it can be repeated, and what they refuse."""

from __future__ import annotations

import dataclasses
import functools
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import pytest

import partir
from benchmarks.models import schedules, transformer
from partir.cli.sources import load_schedule
from partir.tactics.source import schedule_source

CONFIG = transformer.Config.t32(layers=3, batch=64)
MESH = {"B": 16, "M": 4}
DEVICE = "tpu_v3"


def auto(axes: tuple[str, ...] = ("B", "M"), **given: Any) -> partir.AutomaticPartition:
    return partir.AutomaticPartition(axes, **{"evaluations": 60, **given})


def partition(*tactics: Any, step: Any = None, args: Any = None) -> partir.Partitioned:
    return partir.partition(
        step or transformer.step_for(CONFIG),
        MESH,
        tactics,
        args=args or transformer.example_args(CONFIG)[0],
        device=DEVICE,
        donate_argnums=(0, 1),
    )


@functools.cache
def found(
    evaluations: int = 160,
) -> tuple[partir.Partitioned, partir.AutomaticPartition]:
    tactic = auto(evaluations=evaluations)
    return partition(tactic), tactic


def same(one: partir.Partitioned, other: partir.Partitioned) -> bool:
    states = [p.steps[-1].state for p in (one, other)]
    return all(
        getattr(states[0], what) == getattr(states[1], what)
        for what in ("nests", "tilings", "homes", "seen")
    )


def test_as_good_as_experts() -> None:
    done, _ = found()
    experts = [partition(*one).estimate for one in schedules.SCHEDULES.values()]
    best = min(one.seconds for one in experts if one.fits)
    assert done.estimate.fits
    assert done.estimate.seconds <= best


def test_what_was_found_gives_the_same_partition_by_hand() -> None:
    done, tactic = found()
    assert same(done, partition(*tactic.found))
    assert same(done, partition(done.schedule()))


def test_the_schedule_is_short_and_gives_reasons() -> None:
    text = str(found()[0].schedule())
    assert "partir.ManualPartition(" in text
    assert "**/" in text  # groups are patterns
    assert "GB" in text  # what each tactic changes
    assert len(text.splitlines()) < 60


def test_written_as_python_and_read_again(tmp_path: Path) -> None:
    done, tactic = found()
    path = tmp_path / "found.py"
    path.write_text(schedule_source(tactic.found, "Found."))
    assert same(done, partition(*load_schedule(str(path))))


def test_saved_as_data_and_loaded_again(tmp_path: Path) -> None:
    done, _ = found()
    done.save(tmp_path / "found.json")
    assert same(done, partition(partir.load_schedule(tmp_path / "found.json")))


def test_equal_seeds_and_budgets_find_the_same() -> None:
    one, other = auto(seed=3), auto(seed=3)
    assert same(partition(one), partition(other))
    assert one.found == other.found


def test_nothing_is_undone() -> None:
    before = partition(schedules.BP)
    after = partition(schedules.BP, auto(("M",)))
    for name, spec in zip(
        (port.name for port in before.program.arguments),
        before.steps[-1].spmd.in_tilings,
        strict=True,
    ):
        later = dict(
            zip(
                (port.name for port in after.program.arguments),
                after.steps[-1].spmd.in_tilings,
                strict=True,
            )
        )[name]
        assert all(set(a) <= set(b) for a, b in zip(spec, later, strict=True)), name


def test_a_manual_tactic_may_follow() -> None:
    first = auto(("M",), evaluations=30, memory_limit=float("inf"))
    done = partition(first, schedules.BP)
    assert [step.name for step in done.steps] == ["automatic over M", "BP"]


def test_megatron_from_the_model_axis_alone() -> None:
    """Weights of the layers only: no dearer than Megatron's, each of them split.

    By rows as well: that scatters what Megatron reduces, and splits the head's product
    along the width, which Megatron repeats on every device.
    """
    weights = [f"params/*/{name}" for name in ("w1", "w2", "qkv", "out")]
    done = partition(schedules.BP, auto(("M",), memory_limit=1e12, values=weights))
    by_hand = partition(schedules.BP, schedules.MP)
    assert done.estimate.seconds <= by_hand.estimate.seconds
    assert done.work <= by_hand.work
    specs = done.in_specs[0]["layer_1"]
    assert all("M" in tuple(specs[name]) for name in ("w1", "w2", "qkv", "out"))


def test_zero_from_memory_pressure_alone() -> None:
    data = partition(schedules.BP)
    limit = 0.6 * data.estimate.peak_bytes
    done = partition(schedules.BP, auto(("B",), memory_limit=limit))
    assert done.estimate.peak_bytes <= limit
    sharded = [spec for spec in jax.tree.leaves(done.in_specs[1]["mu"]) if any(spec)]
    assert len(sharded) >= 4 * CONFIG.layers
    assert done.collectives["reduce_scatter"] > 0


def test_no_fit_says_how_near_it_came_and_what_stands_in_the_way() -> None:
    with pytest.raises(partir.PartitionError) as error:
        partition(auto(memory_limit=1e6, evaluations=40))
    text = str(error.value)
    for part in ("no partition over B, M", "least memory reached", "0.001 GB", "peak:"):
        assert part in text


def test_only_the_values_that_were_said() -> None:
    tactic = auto(values="params/**", evaluations=40, memory_limit=1e12)
    partition(tactic)
    names = [key for one in tactic.found for key in one.inputs]
    assert names
    assert not any("tokens" in name or "targets" in name for name in names)


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(partir.PartitionError, match="nearest names"):
        partition(auto(values="parms/**"))


def test_goals() -> None:
    fast, small = auto(evaluations=40), auto(evaluations=40, goal="memory")
    quick, little = partition(fast).estimate, partition(small).estimate
    assert little.peak_bytes <= quick.peak_bytes
    asked: list[Any] = []

    def goal(estimate: Any) -> float:
        asked.append(estimate)
        return float(estimate.peak_bytes)

    partition(auto(evaluations=20, goal=goal))
    assert asked


def test_interrupted_it_returns_the_best_so_far() -> None:
    def interrupt(progress: Any) -> None:
        if progress.evaluations >= 25:
            raise KeyboardInterrupt

    tactic = auto(evaluations=10_000, listener=interrupt, memory_limit=1e13)
    partition(tactic)
    assert tactic.found
    assert tactic.result is not None
    assert 25 <= tactic.result.evaluations < 100


@pytest.mark.parametrize(
    ("figures", "cause"),
    [
        (
            {"kernel_seconds": 1e-3},
            "Starting its kernel takes 1 ms of it, however small they are: larger "
            "arguments are worth dividing",
        ),
        (
            {"kernel_seconds": 0.0, "collective_seconds": 1.0},
            "It spends more on communication than it saves in computing",
        ),
    ],
    ids=["start-up", "communication"],
)
def test_it_says_why_nothing_is_better(figures: dict[str, float], cause: str) -> None:
    device = dataclasses.replace(partir.devices["a100"], **figures)
    tactic = partir.AutomaticPartition("B", evaluations=20)
    x = jax.ShapeDtypeStruct((16, 64), "float32")
    for _ in ("searched", "taken again"):
        done = partir.partition(
            lambda x: (x * x).sum(), {"B": 4}, [tactic], args=(x,), device=device
        )
        assert not tactic.found
        (note,) = done.steps[-1].notes
        assert note.startswith(
            "no decision over B makes it better. The best first one (inputs along the "
            "dimension of 16 (x[0])) takes "
        )
        assert note.endswith(cause)


def test_another_signature_takes_what_was_found_again() -> None:
    tactic = auto(evaluations=40)
    partition(tactic)
    result = tactic.result
    longer = transformer.Config.t32(layers=3, batch=128)
    done = partition(tactic, args=transformer.example_args(longer)[0])
    assert tactic.result is result  # no second search
    assert done.bytes_communicated > 0


def test_several_workers_are_at_least_as_good() -> None:
    alone, several = auto(evaluations=30), auto(evaluations=30, workers=2)
    partition(alone)
    partition(several)
    assert alone.result is not None
    assert several.result is not None
    assert several.result.folded.score >= alone.result.folded.score
    assert several.result.evaluations > alone.result.evaluations


def test_an_executor_of_the_users_own() -> None:
    with ThreadPoolExecutor(1) as executor:
        tactic = auto(evaluations=20, workers=2, executor=executor)
        partition(tactic)
    assert tactic.found


def test_names_and_order_do_not_matter() -> None:
    """Arguments renamed and shuffled: the same cost."""
    args = transformer.example_args(CONFIG)[0]
    leaves, tree = jax.tree.flatten(args)
    order = list(range(len(leaves)))
    random.Random(7).shuffle(order)
    plain = transformer.step_for(CONFIG)

    def shuffled(values: list[Any]) -> Any:
        given: list[Any] = [None] * len(leaves)
        for value, place in zip(values, order, strict=True):
            given[place] = value
        params, state, loss = plain(*jax.tree.unflatten(tree, given))
        flat = jax.tree.leaves((params, state))
        places = [place for place in order if place < len(flat)]
        return [flat[place] for place in places], loss

    kept = len(jax.tree.leaves(args[:2]))
    carried = [place for place in order if place < kept]
    carry = {
        f"out/0/{number}": f"values/{order.index(place)}"
        for number, place in enumerate(carried)
    }
    plainly, tactic = found()
    tactic = auto(evaluations=tactic.evaluations)
    done = partir.partition(
        shuffled,
        MESH,
        [tactic],
        args=([leaves[place] for place in order],),
        device=DEVICE,
        donate_argnums=(0,),
        carry=carry,
    )
    assert done.estimate.seconds == pytest.approx(plainly.estimate.seconds, rel=1e-9)


def test_suggestions_come_with_their_effect() -> None:
    done = partition()
    best, *others = partir.suggest(done, "B", 3, memory_limit=1e12)
    assert best.tactic.inputs == {"tokens": 0, "targets": 0}
    assert len(others) == 2
    then = partition(best.tactic).estimate
    assert then.seconds == pytest.approx(best.seconds, rel=0.05)
    assert "->" in str(best)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"axes": ()}, "at least one mesh axis"),
        ({"axes": ("B", "B")}, "each once"),
        ({"axes": ("B",), "evaluations": 0}, "more than 0"),
        ({"axes": ("B",), "seconds": -1}, "more than 0"),
        ({"axes": ("B",), "goal": "speed"}, "goal is"),
    ],
)
def test_bad_input(given: dict[str, Any], text: str) -> None:
    with pytest.raises(partir.PartitionError, match=text):
        partir.AutomaticPartition(**given)


def test_unknown_axes_and_methods_are_refused() -> None:
    with pytest.raises(partir.PartitionError, match='"X"'):
        partition(auto(("X",)))
    with pytest.raises(partir.PartitionError, match="method"):
        partition(auto(method="guess"))
