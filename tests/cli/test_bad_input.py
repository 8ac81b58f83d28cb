"""One clear line with exit code 2 on bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.workspace import MODEL, PARTITION, refusal, run

pytestmark = pytest.mark.usefixtures("folder")

SHOW = ("show", "model.py:train_step", "--mesh", "B=4,M=2")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "none.mlir", "--mesh", "B=4"), "partir: none.mlir: can't be read"),
        (("show", "none.py:f", "--mesh", "B=4"), "partir: can't read none.py: no such"),
        (("show", "model.py", "--mesh", "B=4"), "say which function, as model.py:"),
        (("show", "model.py:", "--mesh", "B=4"), "say which function, as model.py:"),
        (("show", "sched.py", "--mesh", "B=4"), "sched.py is a Python file"),
        (
            ("show", "model.py:step", "--mesh", "B=4"),
            "partir: model.py has no function step; it has train_step, shape",
        ),
        (("show", "model.py:train_step"), "--mesh is missing: write for example"),
        (
            ("show", "model.py:train_step", "--mesh", "B4"),
            "partir: can't read mesh 'B4' at 'B4': write it as B=4,M=2",
        ),
        (("show", "model.py:train_step", "--mesh", "B=0"), "has size 0: it must be a"),
        (("show", "model.py:train_step", "--mesh", "B=4,B=2"), "names axis 'B' twice"),
        ((*SHOW, "--schedule", "none.py"), "partir: can't read none.py: no such file"),
        ((*SHOW, "--schedule", "none.json"), "can't read none.json: No such file"),
        (
            (*SHOW, "--schedule", "model.py"),
            "partir: model.py has no `schedule`: write schedule = [BP, MP, …]",
        ),
        ((*SHOW, "--device", "tpu_v5x"), 'no device "tpu_v5x"; nearest: '),
        (("export", *PARTITION, "-o", "none/x.mlir"), "can't write none/x.mlir: No"),
        (("export", *PARTITION, "--to", "jpeg"), "invalid choice: 'jpeg'"),
        (("show",), "partir show: the following arguments are required: MODEL"),
        (("paint",), "partir: argument COMMAND: invalid choice: 'paint'"),
        ((), "partir: the following arguments are required: COMMAND"),
        (
            ("demo", "--layers", "0"),
            "argument --layers: a whole number of at least 1 is needed, got '0'",
        ),
        (("demo", "--layers", "two"), "number of at least 1 is needed, got 'two'"),
        ((*SHOW, "--memory"), "partir: --memory needs --device: one of "),
        ((*SHOW, "--device", "a100", "--memory", "-3"), "is needed, got '-3'"),
    ],
)
def test_bad_input(
    capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    assert told in refusal(capfd, *arguments)


def write(folder: Path, name: str, *changes: tuple[str, str]) -> None:
    text = MODEL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "import jax.numpy",
            "import nothing_like_it",
            "partir: user.py raised ModuleNotFoundError: No module named "
            "'nothing_like_it'",
        ),
        ("donate_argnums = 0", "donate_argnums = 1 /", "user.py raised SyntaxError"),
        ("donate_argnums = 0", "raise SystemExit(0)", "user.py raised SystemExit: 0"),
        (
            "    params = {",
            "    params = [][3]\n    params = {",
            "example_args() in user.py raised IndexError: list index out of range (",
        ),
        (
            "(params, shape(8, 16), shape(8, 16)), {}",
            "params, shape(8, 16), shape(8, 16)",
            "must return a tuple of arguments and a dict of keyword arguments, as "
            "`return (x, y), {}`; it returned a tuple",
        ),
        (
            "(params, shape(8, 16), shape(8, 16)), {}",
            "(params, shape(8, 16)), {}",
            "partir: example_args() in user.py does not fit train_step: missing a "
            "required argument: 'y'",
        ),
        ("def example_args", "def other_args", "user.py has no example_args(): define"),
        (
            'params["w2"] - y',
            'params["w3"] - y',
            "partir: the schedule or the model raised KeyError: 'w3' (",
        ),
        ("shape(32, 16)}", "shape(31, 16)}", "raised TypeError: dot_general requires"),
    ],
)
def test_user_file_that_raises(
    capfd: pytest.CaptureFixture[str], folder: Path, old: str, new: str, told: str
) -> None:
    write(folder, "user.py", (old, new))
    line = refusal(capfd, "show", "user.py:train_step", "--mesh", "B=4,M=2")
    assert told in line
    if "raised" in told and "IndexError" in told:
        assert line.endswith("user.py:20)")


def test_tactic_that_raises(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "own.py").write_text(
        "class Own:\n"
        "    def apply(self, partition):\n"
        "        raise ZeroDivisionError('why not')\n"
        "schedule = [Own()]\n"
    )
    line = refusal(capfd, *SHOW, "--schedule", "own.py")
    assert "raised ZeroDivisionError: why not (" in line
    assert line.endswith("own.py:3); nothing that it did is kept")


def test_schedule_of_no_tactics(
    capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "own.py").write_text("schedule = ['BP']\n")
    line = refusal(capfd, *SHOW, "--schedule", "own.py")
    assert "schedule element 0 is 'BP', which is no tactic" in line


def test_strict_is_one_line(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "rows.py").write_text(
        "import partir\nschedule = [partir.ManualPartition({'x': 0}, axis='B')]\n"
    )
    (folder / "mixed.py").write_text(
        "import jax\n"
        "def fn(x):\n"
        "    return jax.numpy.fft.fft2(x).real\n"
        "def example_args():\n"
        "    return (jax.ShapeDtypeStruct((8, 8), 'float32'),), {}\n"
    )
    arguments = ["mixed.py:fn", "--mesh", "B=4", "--schedule", "rows.py"]
    assert "whole:" in run(capfd, "show", *arguments)
    line = refusal(capfd, "show", *arguments, "--strict")
    assert "/fft/0" in line


def test_the_users_folder_is_importable(
    capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    """Also later, from inside a function, and from another folder."""
    inner = folder / "inner"
    inner.mkdir()
    (inner / "sizes.py").write_text("ROWS = 8\n")
    lazily = ("    params = {", "    import sizes\n    params = {")
    write(folder, "inner/user.py", lazily, ("shape(8, 16)", "shape(sizes.ROWS, 16)"))
    run(capfd, "show", "inner/user.py:train_step", "--mesh", "B=4,M=2")
