"""Pages in ``benchmarks/results``: how they came about, and tables."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("jax", "jaxlib", "numpy")


def head(title: str, module: str, machine: str = "any") -> str:
    """The title, and command, date, versions and machine."""
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in _PACKAGES)
    command = " ".join((f"python -m benchmarks.{module}", *sys.argv[1:]))
    return f"""\
# {title}

| | |
|---|---|
| command | `{command}` |
| date | {datetime.date.today()} |
| versions | {versions}, Python {platform.python_version()} |
| machine | {machine} |"""


def virtual_devices() -> str:
    """The machine that eight virtual devices are on."""
    return f"eight virtual devices on {os.cpu_count()} cores"


def markdown(header: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)
