"""`expect=`: what must hold of a partition, and the error that explains why not."""

from __future__ import annotations

from typing import Any

import pytest

import partir
from partir import ManualPartition
from tests.explain.programs import f32, product

ARGS = f32(512, 512), f32(512, 512)
MIB = 2**20


def split(expect: Any, tactic: Any = None, device: str | None = "tpu_v5e") -> Any:
    schedule = [ManualPartition({"x": 1}, axis="A", name="tiles", expect=tactic)]
    return partir.partition(
        product, {"A": 4}, schedule, ARGS, device=device, expect=expect
    )


@pytest.mark.parametrize(
    "expect",
    [
        {"all_reduce": 1, "all_gather": 0},
        {"all_reduce": "<2", "bytes_communicated": "<= 2MB"},
        {"peak_bytes": "<16GB", "work": "<1.05", "seconds": "<1ms"},
        {"bytes_communicated": f"=={int(1.5 * MIB)}B"},
        {"bytes_communicated": "==1.5MiB"},
        {},
    ],
)
def test_what_holds(expect: Any) -> None:
    assert split(expect).collectives["all_reduce"] == 1


@pytest.mark.parametrize(
    ("expect", "told"),
    [
        ({"all_reduce": 0}, "expected all_reduce == 0, but it is 1. The largest is"),
        ({"all_reduce": "<1"}, "expected all_reduce < 1, but it is 1"),
        ({"bytes_communicated": "<1.5MB"}, "expected bytes_communicated < 1.4 MiB"),
        ({"peak_bytes": "<1KB"}, "expected peak_bytes < 1000 B"),
        ({"work": "<1"}, "expected work < 1.00, but it is 1.00"),
    ],
)
def test_what_does_not(expect: Any, told: str) -> None:
    with pytest.raises(partir.PartitionError) as error:
        split(expect)
    assert told in str(error.value)


def test_the_error_explains_and_has_a_remedy() -> None:
    with pytest.raises(partir.PartitionError) as error:
        split({"all_reduce": 0})
    text = str(error.value)
    assert "it is the sum over dimension 1 of x" in text
    assert 'remedy: tile "x" on dimension 0 instead' in text


def test_on_a_tactic() -> None:
    assert split(None, tactic={"all_reduce": 1})
    with pytest.raises(partir.PartitionError, match='== 0 after tactic "tiles", but'):
        split(None, tactic={"all_reduce": 0})


@pytest.mark.parametrize(
    ("expect", "told"),
    [
        ({"all_gathers": 0}, "there is no figure 'all_gathers'; nearest: all_gather"),
        ({"peak_bytes": "<16XB"}, "and a unit (B, KB, KiB, MB"),
        ({"peak_bytes": "small"}, "got 'small'"),
        ({"work": "<2GB"}, "and a unit (none)"),
        ({"work": True}, "got True"),
        ([("work", 1)], "expect maps figures to limits"),
    ],
)
def test_what_can_not_be_read(expect: Any, told: str) -> None:
    with pytest.raises(partir.PartitionError) as error:
        split(expect)
    assert told in str(error.value)


def test_time_and_memory_need_a_device() -> None:
    with pytest.raises(partir.PartitionError, match="an estimate needs a device"):
        split({"peak_bytes": "<16GB"}, device=None)


def test_jit_expects_too() -> None:
    tactic = ManualPartition({"x": 1}, axis="A", name="tiles")
    step = partir.jit(product, {"A": 4}, [tactic], expect={"all_reduce": 0})
    with pytest.raises(partir.PartitionError, match="expected all_reduce == 0"):
        step.partitioned(*ARGS)
