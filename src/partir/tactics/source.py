"""Tactics as Python source that a person can read, commit and edit."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from partir.errors import PartitionError
from partir.tactics.choose import Choose
from partir.tactics.gathered import Gathered
from partir.tactics.manual import ManualPartition


def schedule_source(tactics: Sequence[Any], title: str) -> str:
    """A Python file with ``schedule = [...]``; `title` becomes its docstring."""
    lines = [f'"""{title}"""', "", "import partir", "", "schedule = ["]
    for tactic in tactics:
        lines.append(textwrap.indent(tactic_source(tactic), "    "))
    return "\n".join([*lines, "]", ""])


def tactic_source(tactic: Any) -> str:
    """One tactic, with its reason as a comment before it.

    Example:
        >>> print(tactic_source(ManualPartition({"x": 0}, axis="B", name="BP")))
        partir.ManualPartition(
            {"x": 0},
            axis="B",
            name="BP",
        ),
    """
    if isinstance(tactic, ManualPartition):
        return _call("ManualPartition", tactic.inputs, tactic)
    if isinstance(tactic, Choose):
        return _call("Choose", tactic.ops, tactic)
    if isinstance(tactic, Gathered):
        return _call("Gathered", tactic.values, tactic)
    raise PartitionError(
        f"{tactic!r} can't be written as Python: only manual tactics and choices can"
    )


def _call(kind: str, wishes: Mapping[Any, Any], tactic: Any) -> str:
    also = []
    if isinstance(tactic, Choose) and tactic.inputs:
        also = _mapping("inputs=", tactic.inputs)
    if isinstance(tactic, ManualPartition) and tactic.outputs:
        also = _mapping("outputs=", tactic.outputs)
    comment = textwrap.wrap(
        tactic.reason, 84, initial_indent="# ", subsequent_indent="# "
    )
    return "\n".join(
        [
            *comment,
            f"partir.{kind}(",
            *_mapping("", wishes),
            f"    axis={_quoted(tactic.axis)},",
            f"    name={_quoted(tactic.name)},",
            *also,
            *(_mapping("expect=", tactic.expect) if tactic.expect else ()),
            "),",
        ]
    )


def _mapping(before: str, wishes: Mapping[Any, Any]) -> list[str]:
    """A dictionary, on one line if it is short."""
    entries = [f"{_quoted(str(key))}: {wish!r}" for key, wish in wishes.items()]
    short = f"{before}{{{', '.join(entries)}}}"
    if len(short) <= 76:
        return [f"    {short},"]
    return [f"    {before}{{", *(f"        {entry}," for entry in entries), "    },"]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
