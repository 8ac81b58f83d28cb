"""Programs that were compiled and kept are not compiled again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import pytest

from benchmarks.compiled import Compiler
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
