"""A folder with a model and a schedule, and the command line called in it.

Commands are called in this process: starting Python and importing jax takes longer than
the whole rest.
"""

from __future__ import annotations

import pytest

from partir.cli import main

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
