"""Programs by the number agree; a bug that is put in is found, shrunk and written."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import partir
from partir import fuzz
from partir.fuzz.campaign import cases
from partir.fuzz.programs.generate import generate
from partir.spmd.export import _Exporter

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
    assert report.schedules == 3 * PROGRAMS
    assert report.results["exact"] > 3 * report.results["loose"]


def test_seeds_give_the_same_programs_and_schedules() -> None:
    assert list(cases(7)) == list(cases(7))
    assert generate(7) != generate(8)


def test_programs_are_of_all_families() -> None:
    kinds: Counter[str] = Counter()
    dtypes = set()
    for seed in range(40):
        program = partir.load(generate(seed).text)
        kinds.update({op.signature.name for op in program.ops})
        dtypes |= {type_.dtype for type_ in program.types}
    wanted = (
        "dot_general convolution reduce reduce_window gather scatter dynamic_slice "
        "dynamic_update_slice pad concatenate reverse sort while case select"
    )
    assert not set(wanted.split()) - set(kinds)
    assert {"i1", "i4", "i8", "ui8", "i64", "bf16", "f16", "f64"} <= dtypes


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
