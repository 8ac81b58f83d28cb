"""Lines that a user writes: a schedule beside constraints in the model.

    python -m benchmarks.lines_of_code [--write]

An MLP's training step under BP+MP+Z3, twice: as it is, with a schedule, and with
``with_sharding_constraint`` in the model and a table of shardings
(``benchmarks/models/annotated.py``). Lines are those that the plain model does not have
(blank lines, docstrings and imports left out); both are compiled for eight virtual CPU
devices, and what came of it is counted.
"""

from __future__ import annotations

import argparse
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

FLAG = "--xla_force_host_platform_device_count=8"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}".strip()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import jax  # noqa: E402
import numpy as np  # noqa: E402

import partir  # noqa: E402
from benchmarks.compiled_text import CompiledText  # noqa: E402
from benchmarks.models import annotated, mlp  # noqa: E402
from benchmarks.results_page import (  # noqa: E402
    RESULTS,
    head,
    markdown,
    virtual_devices,
)

AXES = {"B": 4, "M": 2}
CONFIG = mlp.Config(blocks=8, width=256, hidden=1024, batch=512)


def schedule() -> list[Any]:
    """All that a user of partir writes."""

    def matrices(name: str, shape: Sequence[int], dtype: Any) -> Any:
        return partir.FIRST_DIVISIBLE_DIM if len(shape) > 1 else partir.UNKNOWN

    return [
        partir.ManualPartition({"batch/*": 0}, axis="B"),
        partir.ManualPartition({"params/*/up": 1}, axis="M"),
        partir.ManualPartition({"params/**": matrices, "opt_state/**": matrices}, "B"),
    ]


def written(*functions: Callable[..., Any]) -> list[str]:
    """Lines of functions that are neither blank nor a docstring, nor in the model."""
    plain = set(map(str.strip, inspect.getsource(mlp.loss_fn).splitlines()))
    lines = [
        line.strip()
        for one in functions
        for line in inspect.getsource(one).splitlines()
    ]
    return [line for line in lines if line and '"""' not in line and line not in plain]


def by_partir(args: Any) -> Any:
    """Compiled from the model as it is."""
    done = partir.partition(
        mlp.train_step, AXES, schedule(), args=args, donate_argnums=(0, 1)
    )
    return done.compile().lower(*args).compile()


def by_constraints(args: Any) -> Any:
    """Compiled from the model with constraints."""
    devices = np.array(jax.devices()).reshape(tuple(AXES.values()))
    mesh = jax.sharding.Mesh(devices, tuple(AXES))
    given = annotated.shardings(mesh, args)
    loss = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    step = jax.jit(
        annotated.step_for(mesh),
        in_shardings=given,
        out_shardings=(*given[:2], loss),
        donate_argnums=(0, 1),
    )
    return step.lower(*args).compile()


def row(name: str, inside: int, lines: int, compiled: Any) -> tuple[object, ...]:
    """What was written, and what came of it."""
    text = CompiledText(compiled.as_text())
    kinds = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all")
    counts = "/".join(str(text.collectives.get(kind, 0)) for kind in kinds)
    stats = compiled.memory_analysis()
    sent = f"{text.bytes_sent / 1e6:.1f}"
    return name, lines, inside, counts, sent, f"{stats.temp_size_in_bytes / 1e6:.1f}"


def main() -> None:
    """Count, compile and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    args = mlp.example_args(CONFIG)[0]
    model, table = written(annotated.loss_for), written(annotated.shardings)
    rows = [
        row("partir", 0, len(written(schedule)), by_partir(args)),
        row("constraints", len(model), len(model + table), by_constraints(args)),
    ]
    header = ("by", "lines", "of these in the model", "AG/AR/RS/A2A after XLA")
    header += ("MB sent", "temporaries MB")
    text = f"""\
{head("Lines that a user writes", "lines_of_code", virtual_devices())}

An MLP of {CONFIG.blocks} blocks, Adam, BP+MP+Z3 on mesh {partir.Mesh(AXES)}. Another
schedule is other lines for partir, and another model for constraints.

{markdown(header, rows)}
"""
    print(text)
    if options.write:
        (RESULTS / "lines_of_code.md").write_text(text)


if __name__ == "__main__":
    main()
