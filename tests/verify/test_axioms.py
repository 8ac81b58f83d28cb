"""The axioms in docs/semantics.md are those that the verifier uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import partir.verify.proof  # noqa: F401  (handlers register themselves)
from partir.verify.equations.registry import _EQUATIONS
from partir.verify.identities.linear import _RULES
from partir.verify.machine.machine import _CONTROL, HANDLERS, MOVERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/semantics.md").read_text()
AXIOMS = re.findall(r"^\| (A\d+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)


def cited() -> set[str]:
    return {file for *_, files in AXIOMS for file in re.findall(r"`([^`]+)`", files)}


def test_axioms_are_numbered_and_say_where_they_stand() -> None:
    assert [number for number, *_ in AXIOMS] == [
        f"A{n}" for n in range(1, len(AXIOMS) + 1)
    ]
    assert [f for f in sorted(cited()) if not (ROOT / "src/partir" / f).exists()] == []


@pytest.mark.parametrize("table", [HANDLERS, MOVERS, _CONTROL, _RULES, _EQUATIONS])
def test_whatever_says_what_an_op_means_is_an_axiom(table: dict[str, object]) -> None:
    """By the module that it stands in; a folder stands for what is in it."""
    modules = {function.__module__ for function in table.values()}
    files = [m.removeprefix("partir.").replace(".", "/") + ".py" for m in modules]
    known = cited()
    missing = [
        file
        for file in files
        if file not in known and f"{file.rpartition('/')[0]}/" not in known
    ]
    assert missing == []
