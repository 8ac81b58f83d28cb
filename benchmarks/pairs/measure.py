"""One pair measured: ours, Shardy's and GSPMD's program side by side."""

from __future__ import annotations

import gc
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

import partir
from benchmarks.compiled_text import CompiledText
from benchmarks.pairs.cases import AXES, DONATED, Pair

OURS, SHARDY, GSPMD = NAMES = ("partir", "Shardy", "GSPMD")
AGAIN = "Shardy again"  # the same program once more: what differs is noise
SHORTEST = 0.02  # a sample has as many calls as take so many seconds


@dataclass(frozen=True)
class Made:
    """Figures of one compiled program."""

    first_call: Sample
    step: Sample
    temporaries: int
    bytes_sent: float
    collectives: dict[str, int]
    copies: int


@dataclass(frozen=True)
class Row:
    """The programs of a pair by who partitioned; noise is a ratio of equal programs."""

    pair: Pair
    made: dict[str, Made]
    noise: float

    @classmethod
    def from_data(cls, data: Any) -> Row:
        """As ``asdict`` and JSON leave it."""
        made = {
            name: Made(
                **one
                | {"step": Sample(*one["step"])}
                | {"first_call": Sample(*one["first_call"])}
            )
            for name, one in data["made"].items()
        }
        return cls(Pair(**data["pair"]), made, data["noise"])

    def ratio(self, figure: Callable[[Made], float]) -> float:
        """Ours by the better of the others."""
        best = min(figure(self.made[name]) for name in (SHARDY, GSPMD))
        ours = figure(self.made[OURS])
        return ours / best if best else float(ours > 0) + 1.0


class Sample(NamedTuple):
    """Seconds of a call: on the clock, and of all processors for this process.

    The latter is hardly disturbed by what else the machine does.
    """

    wall: float
    processors: float

    @classmethod
    def now(cls) -> Sample:
        """Both clocks."""
        return cls(time.perf_counter(), time.process_time())

    def until_now(self) -> Sample:
        """Time since then."""
        return Sample(*map(operator.sub, Sample.now(), self))

    def better(self, other: Sample) -> Sample:
        """The least of each."""
        return Sample(*map(min, self, other))


@dataclass
class Running:
    """A program with its own state, which each call replaces."""

    call: Callable[..., Any]
    compiled: Any
    args: tuple[Any, ...]
    first_call: Sample

    def sample(self, calls: int = 1) -> Sample:
        """Time of a call, from this state to the next."""
        start = Sample.now()
        for _ in range(calls):
            params, state, _ = self.call(*self.args)
            self.args = params, state, *self.args[2:]
        jax.block_until_ready(self.args)
        took = start.until_now()
        return Sample(took.wall / calls, took.processors / calls)


def measure(pair: Pair, rounds: int) -> Row:
    """Compile all three, twice in turns, then let them run in turns."""
    step, shapes, tactics = pair.case()
    jax.jit(step).lower(*shapes)  # what jax keeps of its own functions is kept for all
    arrays = host_arrays(shapes)
    ours, record = _ours(step, shapes, tactics, arrays)
    running = {OURS: ours}
    for name in (SHARDY, GSPMD):
        running[name] = _theirs(step, shapes, record, arrays, name == SHARDY)
    for name in (GSPMD, SHARDY):  # who came last is first now
        again = _theirs(step, shapes, record, arrays, name == SHARDY)
        running[name].first_call = running[name].first_call.better(again.first_call)
    again, _ = _ours(step, shapes, tactics, arrays)
    ours.first_call = ours.first_call.better(again.first_call)
    shardy = running[SHARDY]
    placed = record.shard(*arrays)
    again = Running(shardy.call, shardy.compiled, placed, shardy.first_call)
    best = interleaved({**running, AGAIN: again}, rounds)
    made = {name: _made(one, best[name]) for name, one in running.items()}
    return Row(pair, made, best[AGAIN].wall / best[SHARDY].wall)


def interleaved(running: dict[str, Running], rounds: int) -> dict[str, Sample]:
    """The best of so many samples of each, taken in turns."""
    best = {name: one.sample() for name, one in running.items()}
    calls = {name: max(1, round(SHORTEST / one.wall)) for name, one in best.items()}
    gc.collect()
    for number in range(rounds):
        names = list(running)
        if number % 2:
            names.reverse()
        for name in names:
            best[name] = best[name].better(running[name].sample(calls[name]))
    return best


def host_arrays(shapes: Any) -> Any:
    """Small random numbers, and small whole ones."""
    random = np.random.default_rng(0)

    def one(shape: jax.ShapeDtypeStruct) -> np.ndarray:
        if np.issubdtype(shape.dtype, np.integer):
            return random.integers(0, 16, shape.shape).astype(shape.dtype)
        return np.asarray(0.02 * random.random(shape.shape)).astype(shape.dtype)

    return jax.tree.map(one, shapes)


def _ours(step: Any, shapes: Any, tactics: Any, arrays: Any) -> tuple[Running, Any]:
    function = renewed(step)
    start = Sample.now()
    jitted = partir.jit(function, AXES, tactics, donate_argnums=DONATED)
    compiled = jitted.lower(*shapes).compile()
    prepared = start.until_now()
    record = jitted.partitioned(*shapes)
    return _started(jitted, compiled, record.shard(*arrays), prepared), record


def _theirs(step: Any, shapes: Any, record: Any, arrays: Any, shardy: bool) -> Running:
    """jax.jit with the shardings of our arguments and results."""
    function, args = renewed(step), record.shard(*arrays)
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", shardy)
    try:
        start = Sample.now()
        compiled = (
            jax.jit(
                function,
                in_shardings=record.in_shardings(),
                out_shardings=record.out_shardings(),
                donate_argnums=DONATED,
            )
            .lower(*shapes)
            .compile()
        )
        return _started(compiled, compiled, args, start.until_now())
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)


def _started(call: Any, compiled: Any, args: Any, prepared: Sample) -> Running:
    jax.block_until_ready(args)
    running = Running(call, compiled, args, prepared)
    step = running.sample()
    running.first_call = Sample(*map(operator.add, prepared, step))
    return running


def renewed(step: Callable[..., Any]) -> Callable[..., Any]:
    """A function that jax has not met, with the parameters' names."""
    if "tokens" in step.__code__.co_varnames:

        def on_tokens(params: Any, opt_state: Any, tokens: Any, targets: Any) -> Any:
            return step(params, opt_state, tokens, targets)

        return on_tokens

    def on_batch(params: Any, opt_state: Any, *batch: Any) -> Any:
        return step(params, opt_state, *batch)

    return on_batch


def _made(running: Running, step: Sample) -> Made:
    text = CompiledText(running.compiled.as_text())
    return Made(
        running.first_call,
        step,
        running.compiled.memory_analysis().temp_size_in_bytes,
        text.bytes_sent,
        text.collectives,
        text.copies,
    )
