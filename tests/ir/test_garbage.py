"""Pausing the collector: nothing is lost, and nothing stays for good."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from partir.ir import garbage
from partir.ir.garbage import collection_paused


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@collection_paused
def cycles(count: int) -> list[weakref.ref[Cycle]]:
    assert not gc.isenabled()
    return [weakref.ref(Cycle()) for _ in range(count)]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    gc.collect()
    yield
    gc.collect()


def alive(refs: list[weakref.ref[Cycle]]) -> int:
    return sum(ref() is not None for ref in refs)


def test_what_was_made_is_old_and_collected_with_the_old() -> None:
    refs = cycles(5_000)
    assert gc.isenabled()
    assert gc.get_count()[0] < 1_000
    gc.collect(0)
    assert alive(refs) == 5_000
    gc.collect()
    assert alive(refs) == 0


def test_garbage_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the most that may grow old uncounted, the collector sees to it itself."""
    monkeypatch.setattr(garbage._Ages, "MOST", 20_000)
    refs = [ref for _ in range(40) for ref in cycles(5_000)]
    assert alive(refs) < 60_000


def test_frozen_objects_stay_frozen() -> None:
    gc.freeze()
    try:
        cycles(1_000)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_a_paused_collector_stays_paused() -> None:
    gc.disable()
    try:
        cycles(10)
        assert not gc.isenabled()
    finally:
        gc.enable()
