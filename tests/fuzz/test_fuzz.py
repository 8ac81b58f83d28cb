"""Programs by the number agree; a bug that is put in is found, shrunk and written."""

from __future__ import annotations

import random
from typing import Any

import pytest

import partir
from partir import fuzz
from partir.fuzz.campaign import cases
from partir.fuzz.programs.families import SHARES
from partir.fuzz.programs.generate import drawn_dtypes, generate
from partir.fuzz.programs.sketch import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    SMALL_INTEGERS,
    NoFit,
    Sketch,
)
from partir.spmd.stablehlo.export import _Exporter

PROGRAMS = 30
LOST = 3  # a program with a sum over devices


@pytest.mark.parametrize("first", [0, 1000])
def test_programs_agree(first: int) -> None:
    """A bounded run, the same one every time; `partir fuzz` does long ones."""
    report = fuzz.run(first, PROGRAMS)
    assert not report.found, "\n".join(
        fuzz.written(found.case, found.failure) for found in report.found
    )
    assert report.programs == PROGRAMS
    assert report.refused <= 2  # what XLA can't run on one device either
    assert report.schedules == 3 * (PROGRAMS - report.refused)
    assert report.results["exact"] > 3 * report.results["loose"]


@pytest.mark.quick
def test_seeds_give_the_same_programs_and_schedules() -> None:
    assert list(cases(7)) == list(cases(7))
    assert generate(7) != generate(8)


@pytest.mark.parametrize("family", SHARES, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_every_family_fits_some_program(family: Any, x64: None) -> None:
    assert any(_fits(family, seed) for seed in range(40))


def _fits(family: Any, seed: int) -> bool:
    rng = random.Random(seed)
    sketch = Sketch(rng, drawn_dtypes(rng), (4, 8, 3), SHARES)
    for _ in range(4):
        sketch.argument(sketch.shape(1), sketch.dtype())
    try:
        sketch.grow(1)
        family(sketch)
    except NoFit:
        return False
    return bool(sketch.nodes)


def test_programs_are_of_all_types() -> None:
    found = {d for seed in range(200) for d in drawn_dtypes(random.Random(seed))}
    assert found == {*INTEGERS, *SMALL_INTEGERS, *FLOATS, *COMPLEX, "bool"}


def test_a_lost_sum_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(self: Any, op: Any, operand: Any, type_: Any) -> Any:
        return operand

    monkeypatch.setattr(_Exporter, "_all_reduce", lost)
    report = fuzz.run(LOST, 1, every=0)
    (found,) = report.found
    assert found.failure.stage == "spmd"
    program = partir.load(found.case.text)
    assert len(program.ops) <= 3
    assert sum(len(actions) for _, actions in found.case.schedule) == 1
    text = fuzz.written(found.case, found.failure)
    scope: dict[str, Any] = {}
    exec(text, scope)
    test = scope[f"test_program_{LOST}"]
    with pytest.raises(AssertionError, match="spmd"):
        test()
    monkeypatch.undo()
    test()


def test_time_is_a_limit() -> None:
    report = fuzz.run(0, 1000, seconds=1e-3, every=0)
    assert report.programs == 1
