"""Figures of a compiled program, which can be kept: compiling takes minutes.

What is kept is found by what was compiled: the program's text, the devices, the options
and the compiler's version. A run that was stopped goes on where it was, and a program
that a change of partir has left as it was is not compiled again.

The compiler for TPUs counts twice, in what `memory_analysis` has for temporaries, what
is lost between them (fragmentation): with 1480 MiB it refuses a scanned MLP that needs
arguments of 768.69 and "HLO temp 708.30M (… 18.3% fragmentation (129.51M))", and with
1500 MiB `memory_analysis` has 837.8 for the same temporaries. Of TPUs they are read
from the buffers that the compiler assigned.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
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
        as_assigned: whether the size of temporaries is read from the buffers that the
            compiler says to have assigned, instead of from `memory_analysis`.
    """

    target: str
    options: dict[str, Any] | None = None
    folder: Path | None = None
    kept_only: bool = False
    as_assigned: bool = False

    def made(self, lowered: Any) -> Made | None:
        """Of a program that jax lowered; None if it had to be compiled and may not."""
        if self.folder is None:
            return self._compiled(lowered, None)
        said = "\n".join((self.target, str(self.options), lowered.as_text()))
        said += "\nas assigned" if self.as_assigned else ""
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
        with tempfile.TemporaryDirectory() as folder:
            written = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}
            options = (self.options or {}) | (written if self.as_assigned else {})
            start = time.perf_counter()
            compiled = lowered.compile(options or None)
            seconds = time.perf_counter() - start
            assigned = _assignment(Path(folder)) if self.as_assigned else ""
        final, stats = compiled.as_text(), compiled.memory_analysis()
        if place is not None:
            place.with_suffix(".stablehlo").write_text(lowered.as_text())
            place.with_suffix(".hlo").write_text(final)
            place.with_suffix(".buffers").write_text(assigned)
        temporaries = stats.temp_size_in_bytes
        if self.as_assigned:
            temporaries = assigned_temporaries(assigned)
        return Made(
            memory=fixed_bytes(stats) + temporaries,
            temporaries=temporaries,
            seconds=seconds,
            **_read(final),
        )


def _assignment(folder: Path) -> str:
    """What the compiler wrote of its buffers; the last program if there are several."""
    return sorted(folder.glob("*buffer-assignment.txt"))[-1].read_text()


def assigned_temporaries(assignment: str) -> int:
    """Bytes of temporaries in the device's memory, holes between them included.

    Other kinds of memory have a colour.

    >>> assigned_temporaries(
    ...     "allocation 66: size 306036768, preallocated-temp:\\n"
    ...     "allocation 69: size 34865152, color 1, preallocated-temp:"
    ... )
    306036768
    """
    sizes = re.findall(r"size (\d+), preallocated-temp", assignment)
    return sum(map(int, sizes))


def _read(final: str) -> dict[str, Any]:
    """Figures of a final text, read anew from one that was kept."""
    text = CompiledText(final)
    return {
        "collectives": text.collectives,
        "bytes_sent": text.bytes_sent,
        "copies": text.copies,
        "cycles": text.cycles,
    }


def fixed_bytes(stats: Any) -> int:
    """Arguments, and results that take no argument's place."""
    results = stats.output_size_in_bytes - stats.alias_size_in_bytes
    return int(stats.argument_size_in_bytes + results)
