"""Used by threads at once, after a fork, and a thousand times over."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import partir
from partir.api import jitted
from partir.ir.core import Signature
from partir.ir.interning import Interned

ROWS = partir.ManualPartition({"x": 0}, axis="B")
MESH = {"B": 4}


def layer(x: Any, w: Any) -> Any:
    return jnp.maximum(x @ w, 0)


# Threads


def at_once(*work: Callable[[], Any]) -> list[Any]:
    """All of it at once; what each thread raised or returned."""
    results: list[Any] = [None] * len(work)
    ready = threading.Barrier(len(work))

    def run(number: int) -> None:
        ready.wait()
        try:
            results[number] = work[number]()
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    return results


def test_one_function_in_many_threads() -> None:
    """Called for the first time by all of them, with several signatures."""
    step = partir.jit(layer, MESH, [ROWS])
    rng = np.random.default_rng(0)
    given = [
        tuple(rng.integers(-4, 5, (n, n)).astype(np.float32) for _ in "xw")
        for n in (4, 8, 4, 8)
    ]
    made = at_once(*[lambda pair=pair: np.asarray(step(*pair)) for pair in given])
    for have, (x, w) in zip(made, given, strict=True):
        np.testing.assert_array_equal(have, np.maximum(x @ w, 0))


def test_one_record_in_many_threads() -> None:
    """Stages are made when they are read: by several at once, they are the same."""
    x = jax.ShapeDtypeStruct((8, 8), "float32")
    p = partir.partition(layer, MESH, [ROWS], args=(x, x))
    texts = at_once(*[p.stablehlo] * 6, *[p.core_text] * 2)
    assert set(map(type, texts)) == {str}
    assert len(set(texts[:6])) == len(set(texts[6:])) == 1


def test_programs_are_read_in_many_threads() -> None:
    text = jax.jit(layer).lower(*[jax.ShapeDtypeStruct((8, 8), "float32")] * 2)
    module = text.as_text()
    programs = at_once(*[lambda: partir.load(module)] * 6)
    assert all(program == programs[0] for program in programs)


# Forks

FORKED = """
import os, signal, sys, warnings
import jax, jax.numpy as jnp, numpy as np
import partir

warnings.simplefilter("ignore")
jax.config.update("jax_num_cpu_devices", 4)
rows = partir.ManualPartition({"x": 0}, axis="B")
x = np.ones((8, 8), np.float32)
step = partir.jit(lambda x: jnp.tanh(x).sum(), {"B": 4}, [rows])
before = float(step(x))
child = os.fork()
if child == 0:
    signal.alarm(60)
    program = partir.load("func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\\n"
                          "%0 = stablehlo.tanh %x : tensor<8xf32>\\n"
                          "%1 = stablehlo.add %0, %x : tensor<8xf32>\\n"
                          "return %1 : tensor<8xf32>\\n}")
    p = partir.partition(program, {"B": 4}, [])
    right = p.collectives["all_gather"] == 0 and p.verify().proved == ("out",)
    refused = 0
    for run in (lambda: step(x), lambda: p.compile()(x[0])):
        try:
            run()
        except partir.PartirError as error:
            refused += "forked from one that uses JAX" in str(error)
    os._exit(0 if right and refused == 2 else 1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(code or float(step(x)) != before)
"""


def test_a_fork_partitions_and_refuses_to_run() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr


# A thousand times


def test_what_nobody_has_is_forgotten() -> None:
    class Thing:
        pass

    known: Interned[Thing] = Interned(recent=2)
    kept = known.add("kept", Thing())
    for number in range(1000):
        known.add(number, Thing())
    gc.collect()
    assert known.get("kept") is kept
    assert len(known) == 3
    assert known.add("kept", Thing()) is kept


def test_programs_and_their_constants_are_forgotten() -> None:
    def dies() -> list[weakref.ref[Any]]:
        numbers = ", ".join(map(str, range(2000)))
        text = (
            "func.func @main(%x: tensor<2000xi32>) -> tensor<2000xi32> {\n"
            f"%0 = stablehlo.constant dense<[{numbers}]> : tensor<2000xi32>\n"
            "%1 = stablehlo.add %x, %0 : tensor<2000xi32>\n"
            "return %1 : tensor<2000xi32>\n}"
        )
        rows = partir.ManualPartition({"arg0": 0}, axis="B")
        p = partir.partition(partir.load(text), MESH, [rows])
        p.verify()
        (constant,) = {
            op.signature for op in p.program.ops if op.signature.name == "constant"
        }
        return [weakref.ref(thing) for thing in (p, p.program, constant)]

    refs = dies()
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def test_signatures_of_a_function_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jitted, "MOST_SIGNATURES", 3)
    step = partir.jit(lambda x: x * 2, MESH, [ROWS])
    for _ in range(2):
        for size in (4, 8, 12, 16, 20):
            np.testing.assert_array_equal(step(np.ones(size)), np.full(size, 2.0))
    kept = (step._known, step._compiled, *step._warm.values())
    assert [len(each) for each in kept[:2]] == [3, 3]
    assert all(len(one._by_shapes) <= 3 for one in step._warm.values())


def test_partitioning_again_and_again_leaves_nothing_behind() -> None:
    x = jax.ShapeDtypeStruct((8, 8), "float32")
    program = partir.trace(layer, x, x)

    def objects() -> int:
        gc.collect()
        return len(gc.get_objects()) + len(Signature.known())

    for _ in range(3):
        partir.partition(program, MESH, [ROWS]).verify()
    before = objects()
    for _ in range(50):
        partir.partition(program, MESH, [ROWS]).verify()
    assert objects() - before < 50
