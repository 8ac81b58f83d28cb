"""The command line: what it prints, and one clear line with exit code 2 on bad input.

Most tests call `main` in this process: starting Python and importing jax takes longer
than the whole rest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import partir
from partir.cli import main
from partir.frontend.stablehlo import parse_module
from partir.fuzz.case import Failure, Trial
from tests.conftest import Golden

MODEL = """
import jax
import jax.numpy as jnp
import partir

print("a user's own output")
donate_argnums = 0


def train_step(params, x, y):
    def loss(params):
        hidden = partir.tag(jax.nn.relu(x @ params["w1"]), "hidden")
        return jnp.mean((hidden @ params["w2"] - y) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def example_args():
    params = {"w1": shape(16, 32), "w2": shape(32, 16)}
    return (params, shape(8, 16), shape(8, 16)), {}


def shape(*sizes):
    return jax.ShapeDtypeStruct(sizes, "float32")
"""

SCHEDULE = """
import partir

BP = partir.ManualPartition({"x": 0, "y": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"params/w1": 1}, axis="M", name="MP")
schedule = [BP, MP]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a model and a schedule, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "sched.py").write_text(SCHEDULE)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


PARTITION = ["model.py:train_step", "--mesh", "B=4,M=2", "--schedule", "sched.py"]


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Standard output of a command that must succeed."""
    assert main(arguments) == 0
    return capfd.readouterr().out


def refusal(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that must fail."""
    try:
        code = main(arguments)
    except SystemExit as stop:  # argparse
        code = stop.code  # type: ignore[assignment]
    out, err = capfd.readouterr()
    lines = [line for line in err.splitlines() if line != "a user's own output"]
    assert code == 2
    assert out == ""
    assert len(lines) == 1, err
    return lines[0]


# show


def test_table(capfd: pytest.CaptureFixture[str], golden: Golden) -> None:
    assert run(capfd, "show", *PARTITION).rstrip() == golden


def test_names(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "show", *PARTITION, "--names")
    names = [line.partition("  # ")[0].rstrip() for line in out.splitlines()[6:]]
    assert names == [
        "params/w1    float32[16,32] {_, M}",
        "params/w2    float32[32,16] {M, _}",
        "x            float32[8,16] {B, _}",
        "y            float32[8,16] {B, _}",
        "out/0/w1     float32[16,32] {_, M}",
        "out/0/w2     float32[32,16] {M, _}",
        "out/1        float32[]",
        "hidden       float32[8,32] {B, M}",
        "hidden/grad  float32[8,32] {B, M}",
    ]


def test_addresses(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "show", *PARTITION, "--addresses")
    (line,) = [line for line in out.splitlines() if "loss/maximum/0" in line]
    assert line.startswith("%train_step.<locals>.loss/maximum/0 ")
    assert "float32[8,32] {B, M}" in line
    assert "model.py:12" in line


def test_core_and_spmd(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "show", *PARTITION, "--core", "--spmd")
    assert 'loop "B" [#tile<0>] (%rB: range<4>)' in out
    assert "spmd @train_step on B=4,M=2 (" in out
    assert "all_reduce sum {M}" in out


def test_json(capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--json", "--names", "--addresses", "--core", "--spmd"]
    data = json.loads(run(capfd, "show", *PARTITION, *options))
    assert data["program"] == "train_step"
    assert data["mesh"] == {"B": 4, "M": 2}
    assert [step["name"] for step in data["steps"]] == ["BP", "MP"]
    assert data["steps"][1]["collectives"]["all_reduce"] == 4
    assert data["steps"][0]["work_by_axis"]["M"] == 2
    assert 1 <= data["steps"][1]["work"] < data["steps"][0]["work"]
    assert data["steps"][0]["actions"] == ["tile('x', 0, 'B')", "tile('y', 0, 'B')"]
    assert data["names"][0] == {
        "name": "params/w1",
        "shape": [16, 32],
        "dtype": "float32",
        "tiling": [[], ["M"]],
    }
    assert {"core", "spmd", "addresses", "replicated_ops", "notes"} <= data.keys()


def test_no_schedule(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "show", "model.py:train_step", "--mesh", "B=4")
    assert out.splitlines()[-1].split() == [
        "no",
        "tactic",
        *"00000",
        "0",
        "B",
        "4.00",
        "0",
    ]


def test_stablehlo_file_and_saved_schedule(
    capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    shape = jax.ShapeDtypeStruct((8, 8), "float32")
    lowered = jax.jit(lambda x, w: x @ w).lower(shape, shape)
    (folder / "model.mlir").write_text(lowered.as_text())
    program = partir.load(folder / "model.mlir")
    name = program.arguments[0].name
    tactic = partir.ManualPartition({name: 1}, axis="B", name="rows")
    partir.partition(program, {"B": 4}, [tactic]).save(folder / "saved.json")
    out = run(capfd, "show", "model.mlir", "--mesh", "B=4", "--schedule", "saved.json")
    assert out.splitlines()[-1].split()[:3] == ["rows", "0", "1"]


# export


@pytest.mark.parametrize("options", [[], ["--bytecode"]])
def test_export_writes_what_a_device_runs(
    capfd: pytest.CaptureFixture[str], folder: Path, options: list[str]
) -> None:
    to = ["--to", "stablehlo", "-o", "local.mlir"]
    assert main(["export", *PARTITION, *to, *options]) == 0
    assert "wrote local.mlir: 4 all_reduce" in capfd.readouterr().err
    data = (folder / "local.mlir").read_bytes()
    assert data.startswith(b"ML\xefR") == bool(options)
    text = str(parse_module(data if options else data.decode()))
    head = ", ".join(
        f"%arg{n}: tensor<{'16' if n < 2 else '2'}x16xf32>" for n in range(4)
    )
    assert f"@main({head})" in text
    assert text.count('"stablehlo.all_reduce"') == 4
    assert not (folder / "local.mlir.part").exists()
    show = ["show", "local.mlir", "--mesh", "B=4"]
    assert main(show) == 2
    assert "for each device of mesh B=4,M=2, not a whole" in capfd.readouterr().err


def test_export_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    text = run(capfd, "export", *PARTITION)
    assert str(parse_module(text)).count('"stablehlo.all_reduce"') == 4


# Bad input

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
    assert line.endswith("own.py:3)")


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


# demo, help, and the program itself


def test_demo(capfd: pytest.CaptureFixture[str]) -> None:
    out = run(capfd, "demo", "--layers", "1", "--steps", "1")
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["BP"][1:4] == ["0", "8", "0"]
    assert rows["MP"][1:4] == ["0", "12", "0"]
    assert rows["Z3"][1:4] == ["11", "7", "5"]
    assert "params/layer_0/up     P('B', 'M')" in out
    (worst,) = [line for line in out.splitlines() if "largest relative" in line]
    assert float(worst.rpartition(" ")[2]) < 1e-9
    assert out.endswith("the same training, split over 8 devices.\n")


@pytest.mark.parametrize("command", [[], ["demo"], ["show"], ["export"]])
def test_help(capfd: pytest.CaptureFixture[str], command: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    out = capfd.readouterr().out
    assert out.startswith(f"usage: {' '.join(['partir', *command])}")
    if command in (["show"], ["export"]):
        for option in ("MODEL", "--mesh", "--schedule", "--strict"):
            assert option in out


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capfd.readouterr().out.strip() == partir.__version__


def test_installed_program(folder: Path) -> None:
    """Exit code, the stream that the line goes to, and nobody reading to the end."""
    program = str(Path(sys.executable).with_name("partir"))
    bad: Any = subprocess.run(
        [program, "show", "none.mlir", "--mesh", "B=4"], capture_output=True, text=True
    )
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)
    command = f"{program} show {' '.join(PARTITION)} --core | head -n 1"
    piped = subprocess.run(
        command, shell=True, capture_output=True, text=True, env=os.environ
    )
    assert piped.stdout.splitlines() == ["train_step on B=4,M=2 (8 devices)"]
    assert piped.stderr == "a user's own output\n"


def test_module_is_the_program_too() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "partir", "--version"], capture_output=True, text=True
    )
    assert (told.returncode, told.stdout.strip()) == (0, partir.__version__)


def test_demo_compares_shapes_of_all_kinds() -> None:
    from partir.cli.demo import _difference

    assert _difference(np.zeros(3), np.zeros(3)) == 0
    assert _difference(np.ones(3), np.zeros(3)) > 1


def test_search_writes_a_schedule_that_show_takes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ["model.py:train_step", "--mesh", "B=4", "--device", "a100"]
    budget = ["--evaluations", "20", "--memory-limit", "80"]
    assert main(["search", *said, *budget, "-o", "found.py"]) == 0
    out = capsys.readouterr().out
    assert "automatic over B" in out
    assert "partitions tried" in out
    assert (folder / "found.py").read_text().count("schedule = [") == 1
    assert main(["show", *said, "--schedule", "found.py"]) == 0


def test_search_as_json(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    said = ["model.py:train_step", "--mesh", "B=4", "--device", "a100"]
    assert main(["search", *said, "--evaluations", "10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is True
    assert found["evaluations"] <= 11


def test_search_says_why_it_found_nothing(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    said = ["model.py:train_step", "--mesh", "B=7", "--device", "a100"]
    assert main(["search", *said, "--evaluations", "9"]) == 0
    assert (
        "nothing is left to decide over B: every dimension" in capsys.readouterr().out
    )
    assert main(["search", *said, "--evaluations", "9", "--json"]) == 0
    assert "does not divide by 7" in json.loads(capsys.readouterr().out)["reason"]


def test_search_shows_what_may_be_decided(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    said = ["model.py:train_step", "--mesh", "B=4", "--device", "a100"]
    assert main(["search", *said, "--show-moves"]) == 0
    out = capsys.readouterr().out
    assert "dimension 0: size" in out
    assert "over B: tile" in out


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ([], "--device"),
        (["--device", "a100", "--memory-limit", "0.000001"], "no partition over B"),
        (["--device", "a100", "--axes", "X"], '"X"'),
        (["--device", "a100", "--evaluations", "0"], "more than 0"),
    ],
)
def test_search_refuses(
    more: list[str], text: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    said = ["model.py:train_step", "--mesh", "B=4", "--evaluations", "5"]
    assert main(["search", *said, *more, "-o", "found.py"]) == 2
    own = [line for line in capsys.readouterr().err.splitlines() if "partir" in line]
    assert len(own) == 1
    assert text in own[0]
    assert not (folder / "found.py").exists()


def test_fuzz(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--programs", "1", "--seed", "2", "--devices-every", "0"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 programs (seeds 2 to 2) under 3 schedules: no failures")


def test_fuzz_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: Any) -> Failure:
        return Failure("core", "all of it")

    monkeypatch.setattr(Trial, "run", wrong)
    assert main(["fuzz", "--programs", "1", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (failure,) = told["failures"]
    assert (failure["seed"], failure["stage"]) == (0, "core")
    assert "def test_program_0():" in failure["test"]


@pytest.mark.parametrize(
    "wrong", [["--programs", "0"], ["--seed", "-1"], ["--seconds", "0"]]
)
def test_fuzz_bad_input(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", *wrong]) == 2
    assert wrong[0] in capsys.readouterr().err
