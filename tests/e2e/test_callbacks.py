"""Host callbacks: partitioned and shown, refused at the first call, never a crash.

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


rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
x = jnp.arange(16.0).reshape(8, 2)
FUNCTIONS = [debug_print, ordered_print, pure, ordered_io]
FUNCTIONS += [in_a_loop, in_a_branch, in_the_gradient]
for fn in FUNCTIONS:
    step = partir.jit(fn, {"B": 4, "M": 2}, [rows])
    partitioned = step.partitioned(x)
    assert fn.__name__ in str(partitioned)
    assert [port.name for port in partitioned.program.arguments] == ["x"]
    assert len(partitioned.program.results) == 1
    assert partitioned.in_specs == (jax.P("B"),)
    assert "custom_call" in partitioned.core_text()
    assert "callback" in partitioned.stablehlo()
    for call in (lambda: step(x), lambda: step.lower(x), partitioned.compile):
        try:
            call()
        except partir.PartitionError as error:
            assert "jax.debug.print" in str(error), error
            assert "<string>" in str(error), error
        else:
            raise AssertionError(f"{fn.__name__} was run")
    print("refused", fn.__name__)
"""


def test_callbacks_are_refused_when_run() -> None:
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
    assert done.stdout.count("refused") == 7
