"""The pytest plugin, in a project of its own: takes snapshots, sees what moves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import partir
import partir_pytest
from partir.explain.snapshot import moved_since, write_snapshot
from tests.explain.programs import f32, product

MODEL = """
import jax, jax.numpy as jnp
import partir

def step(x, w):
    return jnp.tanh(x @ w)

def partitioned():
    x = jax.ShapeDtypeStruct((64, 64), "float32")
    tiles = partir.ManualPartition({"x": 0}, axis="A", name="tiles")
    return partir.partition(step, {"A": 4}, [tiles], args=(x, x))
"""
CHANGED = MODEL.replace("return jnp", "x = x @ x.T\n    return jnp")
TEST = """
from model import partitioned

def test_step(partir_snapshot):
    partir_snapshot(partitioned())
"""
UNUSED = """
import sys

def test_nothing():
    assert "jax" not in sys.modules
    assert "partir" not in sys.modules
"""


def run(folder: Path, *flags: str) -> tuple[int, str]:
    paths = {str(Path(package.__file__).parents[1]) for package in (partir_pytest,)}
    env = os.environ | {"PYTHONPATH": os.pathsep.join([*paths, str(folder)])}
    command = [sys.executable, "-m", "pytest", "-q", *flags]
    command += ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_a_project_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "test_model.py").write_text(TEST)
    (tmp_path / "test_unused.py").write_text(UNUSED)
    code, told = run(tmp_path, "test_model.py")
    assert code == 1
    assert "run pytest --partir-update, and commit it" in told
    assert run(tmp_path, "--partir-update", "test_model.py")[0] == 0
    kept = tmp_path / "partir_snapshots" / "test_model-test_step.json"
    assert kept.exists()
    assert run(tmp_path, "test_unused.py")[0] == 0
    assert run(tmp_path, "test_model.py")[0] == 0
    (tmp_path / "model.py").write_text(CHANGED)
    code, told = run(tmp_path, "test_model.py")
    assert code == 1
    assert "gained: all_gather#0" in told
    assert "model.py:6" in told
    assert "conflict" in told
    assert "remedy: " in told
    assert "remedy: none" not in told
    assert "Traceback" not in told


def split(dim: int) -> partir.Partitioned:
    tactic = partir.ManualPartition({"x": dim}, axis="A", name="tiles")
    return partir.partition(product, {"A": 4}, [tactic], (f32(64, 64), f32(64, 64)))


def test_what_moves(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "one.json"
    write_snapshot(split(0).steps, path)
    assert moved_since(split(0).steps, path) is None
    moved = moved_since(split(1).steps, path)
    assert moved is not None
    assert "all_reduce: 0 -> 1" in moved.lines
    assert "layout: x: {A, _} -> {_, A}" in moved.lines
    assert any(line.startswith("gained: all_reduce#0") for line in moved.lines)
    write_snapshot(split(1).steps, path)
    back = moved_since(split(0).steps, path)
    assert back is not None
    assert any(line.startswith("lost: all_reduce of ") for line in back.lines)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "other"}'])
def test_a_file_that_is_no_snapshot(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(partir.PartitionError, match="take it again with"):
        moved_since(split(0).steps, path)
