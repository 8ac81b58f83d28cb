"""Programs that were compiled and kept are not compiled again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import pytest

from benchmarks.compiled import Compiler, assigned_temporaries
from tests.explain.programs import f32


class Counted:
    """A lowered program that counts how often it is compiled."""

    def __init__(self, constant: float) -> None:
        self.lowered = jax.jit(lambda x: x * constant).lower(f32(4))
        self.times = 0

    def as_text(self) -> str:
        text: str = self.lowered.as_text()
        return text

    def compile(self, options: Any) -> Any:
        self.times += 1
        return self.lowered.compile(options)


@pytest.fixture
def program() -> Counted:
    return Counted(2.0)


def test_kept_figures_are_those_of_the_same_program(
    program: Counted, tmp_path: Path
) -> None:
    made = [Compiler("here", None, tmp_path).made(program) for _ in range(2)]
    assert made[0] == made[1]
    assert program.times == 1
    other = Counted(3.0)
    Compiler("here", None, tmp_path).made(other)
    Compiler("there", None, tmp_path).made(program)
    assert (program.times, other.times) == (2, 1)


def test_nothing_is_compiled_if_only_what_was_kept_is_wanted(
    program: Counted, tmp_path: Path
) -> None:
    assert Compiler("here", None, tmp_path, kept_only=True).made(program) is None
    kept = Compiler("here", None, tmp_path).made(program)
    assert Compiler("here", None, tmp_path, kept_only=True).made(program) == kept
    assert program.times == 1


def test_temporaries_are_those_that_buffers_were_assigned_to(tmp_path: Path) -> None:
    lowered = jax.jit(lambda x: (x @ x) @ (x @ x + 1.0)).lower(f32(64, 64))
    said = Compiler("here", None, tmp_path).made(lowered)
    read = Compiler("here", None, tmp_path, as_assigned=True).made(lowered)
    assert said is not None
    assert read is not None
    assert 2 * 64 * 64 * 4 <= read.temporaries == said.temporaries
    assert read.memory == said.memory


def test_only_the_devices_own_memory_counts() -> None:
    assignment = """
allocation 31: size 512, constant:
allocation 66: size 306036768, preallocated-temp:
 value: <254 fusion.8 @0> (size=134217728,offset=2228224): f32[8192,4096]{1,0}
allocation 69: size 34865152, color 1, preallocated-temp:
"""
    assert assigned_temporaries(assignment) == 306036768
