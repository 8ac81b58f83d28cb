"""Files and functions stay short enough to be read in one go."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick


ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "partir").rglob("*.py"))

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 50


def test_sources_are_found() -> None:
    assert SOURCES


def test_files_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)} has {lines} lines"
        for path in SOURCES
        if (lines := len(_text(path).splitlines())) > MAX_FILE_LINES
    ]
    assert not long, _message(
        long, f"files over {MAX_FILE_LINES} lines: split by topic"
    )


def test_functions_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name} has {lines} lines"
        for path in SOURCES
        for function in _functions(path)
        if (lines := _length(function)) > MAX_FUNCTION_LINES
    ]
    assert not long, _message(
        long, f"functions over {MAX_FUNCTION_LINES} lines: give the parts names"
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(_text(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without decorators and docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        first = function.body[0]
        assert first.end_lineno is not None
        lines -= first.end_lineno - first.lineno + 1
    return lines


def _message(offenders: list[str], heading: str) -> str:
    return "\n  ".join([heading, *offenders])


def test_no_class_name_stands_for_two_things() -> None:
    found = [
        (node.name, str(path.relative_to(ROOT)))
        for path in SOURCES
        for node in ast.parse(_text(path)).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    names = Counter(name for name, _ in found)
    assert [one for one in found if names[one[0]] > 1] == []
