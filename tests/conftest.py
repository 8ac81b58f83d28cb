"""Set-up common to all tests: eight devices, 64-bit types, checks, goldens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import hypothesis
import pytest

# JAX reads these when it is imported: here nothing may import it before they are set.
# The processes of pytest-xdist inherit them, hence the check.
# Most of the time goes into compiling, so LLVM is told not to try hard.
FLAGS = (
    "--xla_force_host_platform_device_count=8",
    "--xla_llvm_disable_expensive_passes=true",
)
flags = os.environ.get("XLA_FLAGS", "").split()
os.environ["XLA_FLAGS"] = " ".join([*flags, *(f for f in FLAGS if f not in flags)])
os.environ.setdefault("JAX_PLATFORMS", "cpu")

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"

# Compiling takes longer than hypothesis's deadline for an example. The same examples in
# every run, so that a failure is always somebody's change; look for new ones with
# `pytest --hypothesis-profile=explore`.
hypothesis.settings.register_profile("fixed", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files from what the tests give now",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings are errors, but for right programs that are not proved yet."""
    lines = (TESTS / "not_proved.txt").read_text().splitlines()
    known = {line for line in lines if line and not line.startswith("#")}
    for item in items:
        if item.nodeid in known:
            mark = pytest.mark.filterwarnings("ignore::partir.NotProvedWarning")
            item.add_marker(mark)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`needs_jax("0.10", "why")` skips a test on earlier versions, and says why."""
    import jax

    for mark in item.iter_markers("needs_jax"):
        version, why = mark.args
        if jax.__version_info__ < tuple(map(int, version.split("."))):
            pytest.skip(f"needs jax {version}: {why}")


@pytest.fixture(scope="session", autouse=True)
def checked_partitions() -> Iterator[None]:
    """Whatever a test partitions is well-formed after every tactic."""
    from partir.partition.check import check
    from partir.tactics import apply

    def apply_and_check(partition: Any, tactic: Any) -> None:
        apply_tactic(partition, tactic)
        check(partition.state)

    apply_tactic = apply.apply_tactic
    apply.apply_tactic = apply_and_check
    yield
    apply.apply_tactic = apply_tactic


@pytest.fixture
def x64() -> Iterator[None]:
    """64-bit types for the length of this test."""
    import jax

    with jax.enable_x64(True):
        yield


class Golden(str):
    """The text of a golden file; comparing with it may fail the test or write the file.

    A `str`, so that pytest shows a difference line by line.
    """

    path: Path
    update: bool

    def __new__(cls, path: Path, update: bool) -> Golden:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        golden = super().__new__(cls, text.removesuffix("\n"))
        golden.path = path
        golden.update = update
        return golden

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            raise TypeError(f"compare str(x) with a golden, not {type(other).__name__}")
        if self.update:
            self._write(other)
            return True
        if not self.path.exists():
            shown = self.path.relative_to(TESTS.parent)
            pytest.fail(
                f"no golden file {shown}; if the text below is right, write it with "
                f"--update-golden\n\n{other}",
                pytrace=False,
            )
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(f"{text}\n", encoding="utf-8")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """What this test gave when its golden file was written: `assert str(x) == golden`.

    The test `name` in `tests/a/test_b.py` has `tests/golden/a/test_b/name.txt`.
    """
    folder = GOLDEN / request.path.relative_to(TESTS).with_suffix("")
    name = ".".join(request.node.nodeid.split("::")[1:])
    path = folder / f"{quote(name, safe='[]()=,+@ ')}.txt"
    return Golden(path, request.config.getoption("--update-golden"))
