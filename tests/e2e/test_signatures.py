"""One program for each signature: traced once, found again, never mixed up."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, assert_same

ROWS = partir.ManualPartition({"x": 0}, axis="B", name="rows")


class Counted:
    """A function that counts how often it is traced."""

    def __init__(self) -> None:
        self.traces = 0

    def __call__(self, x: Array, more: Any = None) -> Array:
        self.traces += 1
        return x * 2


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """Names of the programs that XLA compiles during the test."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = re.search(r"Finished XLA compilation of (\S+)", record.getMessage())
            if said:
                found.append(said.group(1))

    logger, handler = logging.getLogger("jax"), Handler()
    logger.addHandler(handler)
    with jax.log_compiles():
        yield found
    logger.removeHandler(handler)


def compilations(step: Any) -> int:
    """How many entries jax's own caches have for it."""
    return sum(c.jitted._cache_size() for c in step._compiled.values())


def test_alternating_signatures_are_traced_once() -> None:
    fn = Counted()
    step = partir.jit(fn, MESH, [ROWS])
    calls: list[tuple[Any, ...]] = [
        (jnp.ones((8, 2)),),
        (jnp.ones((16, 2)),),
        (jnp.ones((8, 2)), {"a": 1.0}),
        (jnp.ones((8, 2), jnp.int32),),
    ]
    seen = []
    for _ in range(3):
        for args in calls:
            assert_same(step(*args).astype(int), args[0].astype(int) * 2)
        seen.append(compilations(step))
    assert fn.traces == len(calls)
    assert seen[0] == seen[2]


def test_results_and_host_arrays_are_compiled_once(compiled: list[str]) -> None:
    def triple(x: Array, n: Any) -> tuple[Array, Any]:
        return x * 3, n + 1

    step = partir.jit(triple, MESH, [ROWS])
    x, n = step(np.ones((8, 2), np.float32), 1)
    for given in (x, np.ones((8, 2)), jnp.ones((8, 2)), x, jnp.ones((8, 2))):
        _, n = step(given, n)
        np.testing.assert_array_equal(step(given, 1)[0], given * 3)
    assert compiled.count("jit(triple)") == 1


def test_what_jax_takes_for_one_signature_is_one() -> None:
    fn = Counted()
    step = partir.jit(fn, MESH, [ROWS])
    x = jnp.ones((8, 2))
    for given in (x, np.ones((8, 2), np.float32), np.ones((8, 2)), step(x)):
        step(given)
    step.partitioned(jax.ShapeDtypeStruct((8, 2), jnp.float32))
    assert fn.traces == 1


def test_weak_types_come_back_so_that_steps_are_traced_once() -> None:
    traces = []

    def count(state: dict[str, Any]) -> dict[str, Any]:
        traces.append(1)
        return {"step": state["step"] + 1, "scale": state["scale"] * 2}

    step = partir.jit(count, MESH, [], donate_argnums=0)
    state = {"step": 0, "scale": 0.5}
    for _ in range(3):
        state = step(state)
    assert len(traces) == 1
    assert (int(state["step"]), float(state["scale"])) == (3, 4.0)


def test_nothing_is_kept_alive() -> None:
    step = partir.jit(lambda x: x * 2, MESH, [ROWS])
    x = jnp.ones((8, 1024 + 3))
    step(x)
    size = x.nbytes
    del x
    assert not [a for a in jax.live_arrays() if a.nbytes == size]


def test_mismatches_say_how() -> None:
    def fn(x: Array, more: Any = None) -> Array:
        return x

    x = jnp.ones((8, 2))
    partitioned = partir.partition(fn, MESH, [ROWS], args=(x, {"a": x}))
    run = partitioned.compile()
    for args, message in [
        ((x[:4], {"a": x}), r'"x" is float32\[4,2\].*partitioned for float32\[8,2\]'),
        ((x, {"b": x}), r'without "more/a" and with "more/b"'),
        ((x, {"a": 1.0}), r"float32\[\] \(weakly typed\)"),
        ((x,), 'without "more/a"'),
        ((x, [x]), 'without "more/a" and with "more/0"'),
    ]:
        with pytest.raises(partir.PartitionError, match=message):
            run(*args)


def test_mismatched_static_arguments_say_how() -> None:
    x = jnp.ones((8, 2))
    partitioned = partir.partition(
        lambda x, n: x * n, MESH, [ROWS], args=(x, 2), static_argnums=1
    )
    run = partitioned.compile()
    assert_same(run(x, 2).astype(int), (x * 2).astype(int))
    with pytest.raises(partir.PartitionError, match=r"are 1=3.*partitioned for 1=2"):
        run(x, 3)


def test_shard_says_what_does_not_fit() -> None:
    x = jnp.ones((8, 2))
    partitioned = partir.partition(lambda x, y: x, MESH, [ROWS], args=(x, x))
    placed = partitioned.shard(x)
    assert placed.sharding == partitioned.in_shardings()[0]
    assert partitioned.shard(y=x)[0]["y"].sharding == partitioned.in_shardings()[1]
    for args, message in [
        ((x[:4],), r'"x" is float32\[4,2\], but the program takes float32\[8,2\]'),
        ((x, x, x), "is no argument of lambda"),
        ((x.astype(int),), "int32"),
    ]:
        with pytest.raises(partir.PartitionError, match=message):
            partitioned.shard(*args)
