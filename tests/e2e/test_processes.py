"""Two processes of four devices each compute what one process does."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks.models import transformer
from tests.e2e import worker
from tests.e2e.compare import QUICK, TINY, transformer_start

ROOT = Path(__file__).parents[2]
SECONDS = 300


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start(number: int, port: int, folder: Path) -> subprocess.Popen[bytes]:
    environment = {n: v for n, v in os.environ.items() if n != "XLA_FLAGS"}
    address = f"127.0.0.1:{port}"
    with open(folder / f"{number}.log", "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.worker", address, str(number), folder],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def run_both(folder: Path) -> None:
    """Wait for both; then none is left. The second ends, and the first is to notice."""
    port = free_port()
    processes = [start(number, port, folder) for number in (0, 1)]
    end = time.monotonic() + SECONDS
    try:
        codes = [process.poll() for process in processes]
        while (
            codes[0] is None
            and codes[1] in (None, worker.ENDS)
            and time.monotonic() < end
        ):
            time.sleep(0.1)
            codes = [process.poll() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    logs = [(folder / f"{number}.log").read_text() for number in (0, 1)]
    noticed = "noticed" in logs[0] and "heartbeat" in logs[0]
    if codes[0] in (0, None) or codes[1] != worker.ENDS or not noticed:
        pytest.fail(f"exit codes {codes}\n{logs[0][-4000:]}\n{logs[1][-4000:]}")


@pytest.mark.usefixtures("double")
def test_two_processes_agree_with_one(tmp_path: Path) -> None:
    run_both(tmp_path)
    for schedule in worker.SCHEDULES:
        _compare(tmp_path, schedule)


def _compare(folder: Path, schedule: str) -> None:
    state, batch = transformer_start(TINY)
    step = jax.jit(transformer.train_step, compiler_options=QUICK)
    for _ in range(worker.STEPS):
        *state, loss = step(*state, *batch)
    parts = [np.load(folder / f"{schedule}.{number}.npz") for number in (0, 1)]
    expected = {"loss": np.asarray(loss), **worker.held(state)}
    assert set(parts[0].files) == set(parts[1].files) == set(expected)
    for name, want in expected.items():
        got = np.where(np.isnan(parts[0][name]), parts[1][name], parts[0][name])
        floor = 1e-12 * np.max(np.abs(want), initial=0.0)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=floor, err_msg=name)
        whole = [not np.isnan(part[name]).any() for part in parts]
        if want.ndim > 1 and "Z3" in schedule:  # tiled over B: no process has it all
            assert whole == [False, False], name


def test_a_checkpoint_of_two_processes_is_read_under_another_mesh(
    tmp_path: Path,
) -> None:
    """As `examples/checkpoint.py` does it; each process writes and reads its part."""
    environment = {n: v for n, v in os.environ.items() if n != "XLA_FLAGS"}
    command = [sys.executable, "examples/checkpoint.py", "--folder", str(tmp_path)]
    command += ["--coordinator", f"127.0.0.1:{free_port()}"]
    processes = [
        subprocess.Popen(
            [*command, "--process", str(number)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in (0, 1)
    ]
    try:
        shown = [process.communicate(timeout=SECONDS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0, 0], shown
    for text in shown:
        found = re.findall(r"step \d: loss ([\d.]+), on one device ([\d.]+)", text)
        assert len(found) == 4
        assert all(abs(float(one) - float(two)) < 1e-4 for one, two in found)
