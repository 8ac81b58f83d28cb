"""One of two processes with four virtual devices each; `test_processes` starts them.

    python -m tests.e2e.worker ADDRESS NUMBER FOLDER

Runs steps over all eight devices, under each of some schedules, and writes what it
holds of the results. In the end process 1 ends without a word, and process 0 must
notice.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import partir
from benchmarks.models import schedules, transformer
from tests.e2e.compare import QUICK, SLOW, TINY, transformer_start

STEPS = 2
SCHEDULES = ("BP+MP", "BP+MP+Z3")  # `benchmarks.processes` runs all
HEARTBEAT = 10  # seconds without, after which a process counts as dead
ENDS = 3  # the code that process 1 ends with


def start(address: str, number: int) -> None:
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 4)
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        coordinator_address=address,
        num_processes=2,
        process_id=number,
        initialization_timeout=60,
        heartbeat_timeout_seconds=HEARTBEAT,
    )


def run(schedule: str) -> dict[str, np.ndarray]:
    """Two steps, placed in all ways; what this process holds of the results."""
    (params, opt_state), (tokens, targets) = transformer_start(TINY)
    step = partir.jit(
        transformer.train_step,
        {"B": 4, "M": 2},
        schedules.SCHEDULES[schedule],
        donate_argnums=(0, 1),
        compiler_options=QUICK,
    )
    partitioned = step.partitioned(params, opt_state, tokens, targets)
    state = partitioned.shard(params, opt_state)
    half = slice(0, 4) if jax.process_index() == 0 else slice(4, 8)
    mine = partitioned.shard(tokens=tokens[half], targets=targets[half])[0]
    *state, loss = step(*state, mine["tokens"], mine["targets"])  # this process's part
    *state, loss = step(*state, tokens, targets)  # all of it, on every host
    return {"loss": np.asarray(loss), **held(state)}


def held(tree: Any) -> dict[str, np.ndarray]:
    """Whole arrays with what is elsewhere left as NaN."""
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        whole = np.full(leaf.shape, np.nan)
        for shard in leaf.addressable_shards:
            whole[shard.index] = shard.data
        found[jax.tree_util.keystr(path)] = whole
    return found


def scalars_and_keys() -> None:
    """Weak types and keys go in and come out as in one process."""
    rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")

    def fn(x: Any, key: Any, scale: Any, count: Any) -> Any:
        noise = jax.random.normal(key, x.shape)
        return (x + noise).sum() * scale, jax.random.split(key)[0], count + 1

    step = partir.jit(fn, {"B": 4, "M": 2}, [rows])
    x, key = np.arange(8.0), jax.random.key(3)
    made, new_key, count = step(x, key, 2.0, 0)
    expected, expected_key, _ = jax.jit(fn)(x, key, 2.0, 0)
    np.testing.assert_allclose(np.asarray(made), np.asarray(expected), rtol=1e-12)
    data = np.asarray(jax.random.key_data(expected_key))
    local = new_key.addressable_shards[0].data
    np.testing.assert_array_equal(np.asarray(jax.random.key_data(local)), data)
    assert count.weak_type
    step(jax.numpy.arange(8.0), new_key, jax.numpy.float64(1), count)


def other_programs() -> None:
    """Processes that don't agree are told so, and don't hang."""
    number = jax.process_index()
    rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
    step = partir.jit(lambda x: x * (2 + number), {"B": 8}, [rows])
    with pytest.raises(partir.PartitionError, match="process 1 has made another"):
        step(np.arange(8.0))


def searched_once() -> None:
    """One process searches, the others take what it found."""
    auto = partir.AutomaticPartition(
        ("B", "M"), evaluations=10, seed=jax.process_index()
    )
    step = partir.jit(lambda x: (x * x).sum(), {"B": 4, "M": 2}, [auto], device=SLOW)
    assert step(np.arange(64.0)) == (np.arange(64.0) ** 2).sum()
    assert auto.found
    assert (auto.result is None) == (jax.process_index() > 0)


def own_devices() -> None:
    """A mesh of this process alone asks nothing of the other."""
    rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
    fn = partir.jit(lambda x: x.sum(), {"B": 4}, [rows], devices=jax.local_devices())
    if jax.process_index() == 0:
        assert fn(np.arange(8.0)) == 28


class Fails:
    """A tactic that fails in one of the processes."""

    def apply(self, partition: partir.Partition) -> None:
        if jax.process_index() == 1:
            raise RuntimeError("no memory left")


def one_fails() -> None:
    """The others learn why; after that, all can go on."""
    told = "process 1 failed over partitioning .*: .* RuntimeError: no memory left"
    mine = 'tactic "Fails" raised RuntimeError: no memory left'
    step = partir.jit(lambda x: x + 1, {"B": 8}, [Fails()])
    with pytest.raises(
        partir.PartitionError, match=mine if jax.process_index() else told
    ):
        step(np.arange(8.0))
    rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
    assert partir.jit(lambda x: x.sum(), {"B": 8}, [rows])(np.arange(8.0)) == 28


def one_ends(step: Any) -> None:
    """Process 1 ends; what process 0 then prepares, or runs, ends in time."""
    if jax.process_index() == 1:
        os._exit(ENDS)
    os.environ["PARTIR_PROCESS_SECONDS"] = "1"
    with pytest.raises(partir.PartitionError, match="process 1 has not come to"):
        partir.jit(lambda x: x + 2, {"B": 8}, [])(np.arange(8.0))
    print("noticed", flush=True)
    for _ in range(600):  # jax notices that there are no heartbeats, and ends this
        jax.block_until_ready(step(np.arange(8.0)))
        time.sleep(0.1)


def main(address: str, number: int, folder: Path) -> None:
    start(address, number)
    assert len(jax.devices()) == 8
    assert len(jax.local_devices()) == 4
    scalars_and_keys()
    other_programs()
    searched_once()
    own_devices()
    one_fails()
    for name in SCHEDULES:
        np.savez(folder / f"{name}.{number}.npz", **run(name))
    rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
    step = partir.jit(lambda x: x.sum(), {"B": 8}, [rows])
    assert step(np.arange(8.0)) == 28
    one_ends(step)
    os._exit(0)  # not reached


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # jax's own way out waits for the other process
