"""Everything public is documented, and the examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

import partir
from partir.api.jit import JitOptions
from tests.versions import OutputChecker

PACKAGE = Path(partir.__file__).parent
EXPORTS = sorted(name for name in partir.__all__ if not name.startswith("__"))


def _modules() -> list[str]:
    """Names of all modules of the package, without importing them."""
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[-1] != "__main__":
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


def _own_docstring(thing: object) -> str | None:
    """The docstring that somebody wrote for this, if any.

    A constant is described by its type, which then has to be one of ours. What Python
    itself puts there (a dataclass's signature, the text of `int`) does not count.
    """
    if inspect.ismodule(thing) or inspect.isroutine(thing):
        return inspect.getdoc(thing)
    owner = thing if isinstance(thing, type) else type(thing)
    if not owner.__module__.startswith("partir"):
        return None
    text = owner.__dict__.get("__doc__")
    return None if not text or text.startswith(f"{owner.__name__}(") else text


def _public_members(owner: type) -> Iterator[tuple[str, object]]:
    """Methods and properties that the class itself defines."""
    for name, member in vars(owner).items():
        if name.startswith("_"):
            continue
        if isinstance(member, staticmethod | classmethod):
            yield name, member.__func__
        elif inspect.isroutine(member) or isinstance(member, property):
            yield name, member


def test_exports_are_listed_once() -> None:
    assert len(partir.__all__) == len(set(partir.__all__))


@pytest.mark.parametrize("name", EXPORTS)
def test_export_has_docstring(name: str) -> None:
    assert _own_docstring(getattr(partir, name)), f"partir.{name} has no docstring"


@pytest.mark.parametrize("name", EXPORTS)
def test_public_members_have_docstrings(name: str) -> None:
    thing = getattr(partir, name)
    if not isinstance(thing, type):
        return
    missing = [
        f"partir.{name}.{member}"
        for member, value in _public_members(thing)
        if not inspect.getdoc(value)
    ]
    assert not missing, f"no docstring: {', '.join(missing)}"


@pytest.mark.parametrize("name", _modules())
def test_docstring_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    output: list[str] = []
    runner = doctest.DocTestRunner(
        OutputChecker(), verbose=False, optionflags=doctest.ELLIPSIS
    )
    for example in doctest.DocTestFinder().find(module):
        runner.run(example, out=output.append)
    if output:
        pytest.fail("".join(output), pytrace=False)


def test_what_jit_returns_is_known_to_editors() -> None:
    called, decorated = typing.get_overloads(partir.jit)
    assert called.__annotations__["return"] == "Jitted"
    assert decorated.__annotations__["return"].endswith("], Jitted]")
    own = set(inspect.signature(partir.jit).parameters) - {"fn", "mesh", "schedule"}
    assert own == set(JitOptions.__annotations__)
