"""A pytest plugin: snapshots of partitions, which fail a test when they move.

It is a package of its own so that pytest loads it without jax: `partir` is imported
when a test takes a snapshot.

    def test_step(partir_snapshot):
        partir_snapshot(partir.partition(train_step, mesh, schedule, args=shapes))

`pytest --partir-update` takes the snapshots again. They are files beside the test, in
``partir_snapshots``: commit them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FOLDER = "partir_snapshots"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that takes snapshots again."""
    group = parser.getgroup("partir")
    group.addoption(
        "--partir-update",
        action="store_true",
        help="write the snapshots of partitions from what they are now",
    )


@dataclass(frozen=True)
class Snapshot:
    """Holds partitions against the files of one test."""

    folder: Path
    test: str
    update: bool

    def __call__(self, partitioned: Any, name: str = "") -> None:
        """Fail if the partition is not what it was; `name` tells several apart."""
        from partir.explain.snapshot import moved_since, write_snapshot

        path = self.folder / f"{self._stem(name)}.json"
        if self.update:
            write_snapshot(partitioned.steps, path)
            return
        if not path.exists():
            pytest.fail(
                f"there is no snapshot {path}: run pytest --partir-update, and commit "
                "it",
                pytrace=False,
            )
        moved = moved_since(partitioned.steps, path)
        if moved is not None:
            pytest.fail(
                f"the partition is not what {path.name} says:\n{moved}\nIf that is "
                "meant, run pytest --partir-update",
                pytrace=False,
            )

    def _stem(self, name: str) -> str:
        parts = [self.test, name] if name else [self.test]
        return re.sub(r"[^\w.-]+", "_", "-".join(parts)).strip("_")


@pytest.fixture
def partir_snapshot(request: pytest.FixtureRequest) -> Snapshot:
    """Holds a `Partitioned` against what it was when the snapshot was taken."""
    update = bool(request.config.getoption("--partir-update"))
    test = f"{request.path.stem}-{request.node.name}"
    return Snapshot(request.path.parent / FOLDER, test, update)
