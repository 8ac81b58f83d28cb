"""Figures of a compiled program, which can be kept: compiling takes minutes.

What is kept is found by what was compiled: the program's text, the devices, the options
and the compiler's version. A run that was stopped goes on where it was, and a program
that a change of partir has left as it was is not compiled again.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.compiled_text import CompiledText


@dataclass(frozen=True)
class Made:
    """Figures of one compiled program."""

    memory: int
    temporaries: int
    collectives: dict[str, int]
    bytes_sent: float
    copies: int
    cycles: int
    seconds: float


@dataclass(frozen=True)
class Compiler:
    """Compiles programs, and keeps what came of them.

    Args:
        target: what is compiled for and by what, in words.
        options: the compiler's options.
        folder: where figures and final texts are kept; nowhere if None.
        kept_only: whether to compile nothing that was not kept.
    """

    target: str
    options: dict[str, Any] | None = None
    folder: Path | None = None
    kept_only: bool = False

    def made(self, lowered: Any) -> Made | None:
        """Of a program that jax lowered; None if it had to be compiled and may not."""
        if self.folder is None:
            return self._compiled(lowered, None)
        said = "\n".join((self.target, str(self.options), lowered.as_text()))
        name = hashlib.sha256(said.encode()).hexdigest()[:16]
        kept = self.folder / f"{name}.json"
        if kept.exists():
            known = json.loads(kept.read_text())
            return Made(**known | _read(kept.with_suffix(".hlo").read_text()))
        if self.kept_only:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        made = self._compiled(lowered, self.folder / name)
        kept.write_text(json.dumps(asdict(made)))
        return made

    def _compiled(self, lowered: Any, place: Path | None) -> Made:
        """Compile, and read what came of it."""
        start = time.perf_counter()
        compiled = lowered.compile(self.options)
        seconds = time.perf_counter() - start
        final = compiled.as_text()
        if place is not None:
            place.with_suffix(".stablehlo").write_text(lowered.as_text())
            place.with_suffix(".hlo").write_text(final)
        return Made(
            memory=memory_bytes(compiled),
            temporaries=compiled.memory_analysis().temp_size_in_bytes,
            seconds=seconds,
            **_read(final),
        )


def _read(final: str) -> dict[str, Any]:
    """Figures of a final text, read anew from one that was kept."""
    text = CompiledText(final)
    return {
        "collectives": text.collectives,
        "bytes_sent": text.bytes_sent,
        "copies": text.copies,
        "cycles": text.cycles,
    }


def memory_bytes(compiled: Any) -> int:
    """Arguments, temporaries, and results that take no argument's place."""
    stats = compiled.memory_analysis()
    results = stats.output_size_in_bytes - stats.alias_size_in_bytes
    return int(stats.argument_size_in_bytes + results + stats.temp_size_in_bytes)
