"""Host callbacks of a traced function run, their effects once; never a crash.

In a process of its own, which a mistake here would kill.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

import partir


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def debug_print(x):
    jax.debug.print("sum {}", x.sum())
    return x * 2


def ordered_print(x):
    jax.debug.print("sum {}", x.sum(), ordered=True)
    return x * 2


def pure(x):
    return jax.pure_callback(np.sin, like(x), x) * 2


def ordered_io(x):
    return io_callback(np.sin, like(x), x, ordered=True) + 1


def in_a_loop(x):
    def body(carry, row):
        jax.debug.print("row {}", row, ordered=True)
        return carry + row.sum(), None

    return jax.lax.scan(body, jnp.float32(0), x)[0]


def in_a_branch(x):
    return jax.lax.cond(x.sum() > 0, pure, ordered_io, x)


def in_the_gradient(x):
    return jax.grad(lambda x: jnp.sum(pure(jax.lax.stop_gradient(x)) * x))(x)


def counted(x):
    def count(total):
        calls.append(float(total))
        return np.float32(len(calls))

    return io_callback(count, jax.ShapeDtypeStruct((), "float32"), x.sum())


def nothing_else(x):
    jax.debug.print("alone {}", x.sum())


calls = []
rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
x = jnp.arange(16.0).reshape(8, 2)
FUNCTIONS = [debug_print, ordered_print, pure, ordered_io]
FUNCTIONS += [in_a_loop, in_a_branch, in_the_gradient, nothing_else]
for fn in FUNCTIONS:
    step = partir.jit(fn, {"B": 4, "M": 2}, [rows])
    assert step.partitioned(x).in_specs == (jax.P("B"),)
    made = step(x)
    expected = jax.jit(fn)(x)
    jax.effects_barrier()
    np.testing.assert_allclose(*map(jax.tree.leaves, (made, expected)), rtol=1e-5)
    print("ran", fn.__name__)

step = partir.jit(counted, {"B": 4, "M": 2}, [rows])
assert [float(step(x)), float(step(x))] == [1.0, 2.0]
assert calls == [120.0, 120.0], calls
listed = step.partitioned(x).collectives["all_reduce"]
text = step.lower(x).compile().as_text()
assert text.count(" all-reduce(") <= listed == 2, (listed, text)

lowered = jax.jit(debug_print).lower(x).as_text()
program = partir.load(lowered)
record = partir.partition(program, {"B": 4}, [])
assert "callback" in record.stablehlo()
try:
    record.compile()
except partir.PartitionError as error:
    assert "not part of the module" in str(error), error
    print("refused a file's")
"""


def test_callbacks_run_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    lines = done.stdout.splitlines()
    assert sum(line.startswith("ran") for line in lines) == 8
    assert "refused a file's" in lines
    # Once on the mesh and once on one device, each in order.
    assert lines.count("sum 120.0") == 4
    assert lines.count("alone 120.0") == 2
    rows = [line for line in lines if line.startswith("row ")]
    assert len(rows) == 16
    assert rows[:8] == rows[8:] == sorted(rows[:8], key=_first_number)


def _first_number(line: str) -> float:
    return float(line.split("[")[1].split()[0])
