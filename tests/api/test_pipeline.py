"""The pipeline's stages: each is made when it is read, once."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import pytest

import partir
from partir.api import pipeline as module
from partir.api.later import Later, later

STAGES = ("complete", "lower", "rewrite", "export")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each stage was made."""
    counts: Counter[str] = Counter()

    def counting(name: str, stage: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            counts[name] += 1
            return stage(*args)

        return run

    for name in STAGES:
        monkeypatch.setattr(module, name, counting(name, getattr(module, name)))
    return counts


def three_steps() -> partir.Partitioned:
    x = jax.ShapeDtypeStruct((8, 8, 8), "float32")
    schedule = [partir.ManualPartition({"x": n}, axis=a) for n, a in enumerate("ABC")]
    mesh = dict.fromkeys("ABC", 2)
    return partir.partition(lambda x: x.sum(), mesh, schedule, args=(x,))


@pytest.mark.quick
def test_a_stage_is_made_when_it_is_read(made: Counter[str]) -> None:
    partitioned = three_steps()
    assert len(partitioned.steps) == 3
    assert not made
    assert partitioned.collectives["all_reduce"] == 1
    assert made == {"complete": 1, "lower": 1, "rewrite": 1}
    assert "all_reduce" in partitioned.stablehlo()
    assert "loop" in partitioned.core_text()
    assert made == dict.fromkeys(STAGES, 1)
    assert str(partitioned)  # the table has figures of every step
    assert made == {"complete": 3, "lower": 3, "rewrite": 3, "export": 1}


def test_jit_goes_the_same_way(made: Counter[str]) -> None:
    rows = partir.ManualPartition({"x": 0}, axis="B")
    double = partir.jit(lambda x: 2 * x, {"B": 2}, [rows])
    x = jax.numpy.arange(4.0)
    assert double(x).tolist() == double(x).tolist() == [0, 2, 4, 6]
    assert made == dict.fromkeys(STAGES, 1)


class Large:
    """Something that is not to be held longer than needed."""


def test_what_a_stage_was_made_of_is_let_go() -> None:
    first = later(lambda _: Large(), 0)
    second = later(id, first)
    gone = weakref.ref(first())
    del first
    assert gone() is not None
    assert second() == second()
    gc.collect()
    assert gone() is None


def test_a_stage_that_raises_raises_again() -> None:
    failing: Later[float] = later(lambda n: 1 / n, 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            failing()
