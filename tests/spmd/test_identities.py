"""Every rewrite cites an identity, and every identity is tested at its edges."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import partir.frontend.load
import partir.spmd.stablehlo.export
import partir.spmd.stages  # noqa: F401  (these import whatever cites something)
from benchmarks.identities_page import PAGE, page
from partir.normal.table import FORMS, Rewrite
from partir.rules.identities import ASSUMPTIONS, IDENTITIES, citations
from partir.rules.linear import kinds
from partir.spmd.preparations.prepare import PREPARATIONS
from partir.spmd.rewrites.sweep import Pass
from partir.spmd.rewrites.table import PASSES, drop_dead

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "partir"


@pytest.mark.parametrize(
    "one", dict.fromkeys((*PASSES, drop_dead, *(one for _, _, one in PREPARATIONS)))
)
def test_a_pass_cites_an_identity(one: Pass) -> None:
    assert citations().get(f"{one.__module__}.{one.__qualname__}")


@pytest.mark.parametrize(
    "form", dict.fromkeys(form for forms in FORMS.values() for form in forms)
)
def test_a_normal_form_cites_an_identity(form: Rewrite) -> None:
    assert citations().get(f"{form.__module__}.{form.__qualname__}")


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Functions by their qualified names, inner ones within theirs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def makes_collectives(function: ast.AST) -> bool:
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(
        isinstance(c, ast.Name) and c.id in ("Collective", "ReshardStep") for c in calls
    )


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def test_whatever_makes_a_collective_cites_an_identity() -> None:
    found = {
        f"{module_name(path)}.{name}"
        for path in (SOURCE / "spmd").rglob("*.py")
        for name, function in functions(ast.parse(path.read_text(encoding="utf-8")))
        if makes_collectives(function)
    }
    assert len(found) > 5
    assert found <= citations().keys()


def test_every_identity_is_used() -> None:
    used = {identity for cited in citations().values() for identity in cited}
    assert used == set(IDENTITIES.values())
    assert {a for one in used for a in one.assumes} == set(ASSUMPTIONS.values())
    assert set(kinds().values()) <= used


def marks(tree: ast.AST) -> Iterator[str]:
    """Identities that tests of a file are marked with."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "pytest.mark.identity"
        ):
            yield from (ast.literal_eval(name) for name in node.args)


def test_every_identity_is_tested_at_its_edges() -> None:
    texts = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    found = {name for text in texts for name in marks(ast.parse(text))}
    assert found == IDENTITIES.keys()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "identities have changed: run python -m benchmarks.identities_page"
    )
