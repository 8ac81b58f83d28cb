"""What a warm call of `partir.jit` costs beside the same `jax.jit` call.

    python -m benchmarks.warm_call [--layers 32] [--calls 40] [--json]

Both functions do next to nothing to a training state of about 900 arrays, which lies
on eight virtual CPU devices in the layout of BP+MP+Z3, donated or kept. Calls take
turns, so that what else the machine does meets both alike; shown are medians of the
time until the call returns, until its results are there, and their ratios.

No warm call traces anything or copies from or to the host: the first is counted, the
second jax is told to forbid. The exit code is 1 if a ratio is above the limit.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp

import partir
from benchmarks.models import transformer
from benchmarks.models.schedules import MP, Z3
from benchmarks.tables import format_table

MESH = partir.Mesh({"B": 4, "M": 2})
LIMIT = 1.25  # far above what is measured on an idle machine, for busy ones
WARM_UP = 3

Step = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Row:
    """Medians in milliseconds for one way of passing the state."""

    state: str
    arrays: int
    ours_returned: float
    jax_returned: float
    ours_done: float
    jax_done: float
    traces: int

    @property
    def returned(self) -> float:
        """Ratio of the times until the call returns."""
        return self.ours_returned / self.jax_returned

    @property
    def done(self) -> float:
        """Ratio of the times until the results are there."""
        return self.ours_done / self.jax_done


def measure(layers: int, calls: int, donate: bool) -> Row:
    """Time both functions in turns."""
    traces = []

    def touch(params: Any, opt_state: Any) -> Any:
        traces.append(1)
        return jax.tree.map(lambda a: a + jnp.ones((), a.dtype), (params, opt_state))

    args, _ = transformer.example_args(transformer.Config.small(layers=layers))
    shapes = args[:2]
    donated = (0, 1) if donate else ()
    carry = {"out/0": "params", "out/1": "opt_state"}
    given = {"donate_argnums": donated, "carry": carry, "verify": "off"}
    ours = partir.jit(touch, MESH, [MP, Z3], **given)
    partitioned = ours.partitioned(*shapes)
    layout = partitioned.in_shardings()
    theirs = jax.jit(
        touch,
        in_shardings=layout,
        out_shardings=partitioned.out_shardings(),
        donate_argnums=donated,
    )

    def make() -> Any:
        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

    states = [jax.jit(make, out_shardings=layout)() for _ in range(2)]
    times: list[list[tuple[float, float]]] = [[], []]
    before = 0
    for number in range(WARM_UP + calls):
        if number == WARM_UP:
            before = len(traces)
        for which, step in enumerate((ours, theirs)):
            states[which], seconds = _timed(step, states[which])
            if number >= WARM_UP:
                times[which].append(seconds)
    return _row(donate, len(jax.tree.leaves(shapes)), times, len(traces) - before)


def _timed(step: Any, state: Any) -> tuple[Any, tuple[float, float]]:
    gc.collect()
    gc.disable()
    try:
        with jax.transfer_guard("allow"):
            jax.block_until_ready(state)
        with jax.transfer_guard("disallow"):
            start = time.perf_counter()
            state = step(*state)
            returned = time.perf_counter() - start
            jax.block_until_ready(state)
            return state, (returned, time.perf_counter() - start)
    finally:
        gc.enable()


def _row(donate: bool, arrays: int, times: Any, traces: int) -> Row:
    def median(which: int, what: int) -> float:
        return 1e3 * statistics.median(pair[what] for pair in times[which])

    return Row(
        state="donated" if donate else "kept",
        arrays=arrays,
        ours_returned=median(0, 0),
        jax_returned=median(1, 0),
        ours_done=median(0, 1),
        jax_done=median(1, 1),
        traces=traces,
    )


def show(rows: list[Row]) -> str:
    """The table that a person reads."""
    header = ("state", "arrays", "returned: ours", "jax", "ratio")
    header += ("done: ours", "jax", "ratio", "traces")
    body = [
        (
            row.state,
            row.arrays,
            f"{row.ours_returned:.2f} ms",
            f"{row.jax_returned:.2f} ms",
            f"{row.returned:.3f}",
            f"{row.ours_done:.2f} ms",
            f"{row.jax_done:.2f} ms",
            f"{row.done:.3f}",
            row.traces,
        )
        for row in rows
    ]
    return format_table(header, body)


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Cost of a warm call.")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and return 1 if a warm call costs too much."""
    options = parse_arguments(argv)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", MESH.size)
    rows = [measure(options.layers, options.calls, donate) for donate in (True, False)]
    if options.json:
        ratios = [{"returned_ratio": r.returned, "done_ratio": r.done} for r in rows]
        both = zip(rows, ratios, strict=True)
        print(json.dumps([asdict(row) | ratio for row, ratio in both]))
    else:
        print(show(rows))
    slow = any(max(row.returned, row.done) > LIMIT or row.traces for row in rows)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
