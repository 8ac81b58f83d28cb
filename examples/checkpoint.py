"""A checkpoint of one schedule and mesh, read under another; in one process or two.

Trains the layers of `mlp.py` split one way, saves the sharded parameters with orbax,
and goes on from there split another way: each device reads the part that it needs. From
a clone, after `make setup` (orbax comes with the frameworks):

    .venv/bin/python examples/checkpoint.py

For two processes of four devices, start it twice, each with its number and a folder
that both can see:

    .venv/bin/python examples/checkpoint.py --folder /tmp/here --process 0 &
    .venv/bin/python examples/checkpoint.py --folder /tmp/here --process 1
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint

import partir

if __package__:
    from examples import mlp
else:
    import mlp

FIRST = partir.Mesh({"B": 4, "M": 2}), [mlp.BP, mlp.MP, mlp.Z3]
SECOND = partir.Mesh({"B": 2, "M": 4}), [mlp.BP, mlp.MP]
STEPS = 2


def train(setting: Any, params: Any, batch: Any) -> tuple[Any, list[float]]:
    """Some steps under a mesh and a schedule: the parameters, and what they cost."""
    mesh, schedule = setting
    step = partir.jit(mlp.train_step, mesh, schedule, donate_argnums=0)
    losses = []
    for _ in range(STEPS):
        params, loss = step(params, *batch)
        losses.append(float(loss))
    return params, losses


def shapes(setting: Any) -> Any:
    """Parameters as a mesh and a schedule lay them out: shapes, dtypes, shardings."""
    mesh, schedule = setting
    args, _ = mlp.example_args()
    partitioned = partir.partition(mlp.train_step, mesh, schedule, args=args)
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=sharding
        ),
        args[0],
        partitioned.in_shardings()[0],
    )


def run(folder: Path) -> list[float]:
    """Train, save, read as another schedule wants it, go on."""
    batch = [
        np.asarray(jax.random.normal(jax.random.key(n), (mlp.BATCH, mlp.WIDTH)))
        for n in (1, 2)
    ]
    created = jax.tree.map(lambda leaf: leaf.sharding, shapes(FIRST))
    params = jax.jit(mlp.init, out_shardings=created)(jax.random.key(0))
    params, losses = train(FIRST, params, batch)
    with orbax.checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder / "params", params)
        checkpointer.wait_until_finished()
        params = checkpointer.restore(folder / "params", shapes(SECOND))
    for name, leaf in params.items():
        print(f"{name} is read as {leaf.sharding.spec} on {SECOND[0]}")
    return losses + train(SECOND, params, batch)[1]


def alone() -> list[float]:
    """The same steps on one device, without a pause."""
    keys = [jax.random.key(n) for n in (1, 2)]
    batch = [jax.random.normal(key, (mlp.BATCH, mlp.WIDTH)) for key in keys]
    params, step, losses = mlp.init(jax.random.key(0)), jax.jit(mlp.train_step), []
    for _ in range(2 * STEPS):
        params, loss = step(params, *batch)
        losses.append(float(loss))
    return losses


def main() -> None:
    """Set up the devices of this process, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="for the checkpoint")
    parser.add_argument("--process", type=int, help="0 or 1; without it, one process")
    parser.add_argument("--coordinator", default="localhost:12392")
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8 if options.process is None else 4)
    if options.process is not None:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            options.coordinator, num_processes=2, process_id=options.process
        )
    with tempfile.TemporaryDirectory() as temporary:
        losses = run((options.folder or Path(temporary)).absolute())
    for number, (loss, want) in enumerate(zip(losses, alone(), strict=True)):
        print(f"step {number}: loss {loss:.4f}, on one device {want:.4f}")
    if options.process is not None:
        jax.distributed.shutdown()


if __name__ == "__main__":
    main()
