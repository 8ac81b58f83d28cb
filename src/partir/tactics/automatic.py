"""`AutomaticPartition`: search for decisions, and take them as manual tactics."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from partir.columns import html_text
from partir.errors import PartitionError
from partir.partition.actions import Partition
from partir.partition.patterns import Pattern
from partir.search.methods.best import Progress
from partir.search.methods.budget import Budget
from partir.search.result.decision import Decision
from partir.search.result.patterns import as_patterns
from partir.search.run import Result, search
from partir.simulate.device.catalogue import devices
from partir.simulate.device.lookup import DeviceLike, as_device
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.estimate import Estimate
from partir.tactics.choose import Choose
from partir.tactics.gathered import Gathered
from partir.tactics.manual import REPLICATED, ManualPartition, Wish
from partir.tactics.progress import live_progress
from partir.tactics.source import tactic_source

_EVALUATIONS = 1000
_DEVICE = "tpu_v5p"  # if nobody says one


@dataclass
class AutomaticPartition:
    """A tactic that searches for the fastest partition that fits in memory.

    It may stand after manual tactics and before others, and only adds decisions. What
    it found is in `found`: manual tactics that give the same partition without a
    search. It searches once; for other shapes of the same arguments it takes what it
    found again.

    Args:
        axes: mesh axes that it may use.
        evaluations: partitions to try: the reproducible budget.
        seconds: stop after so many, whatever was tried.
        memory_limit: bytes of one device; by default the device's.
        seed: of the random choices.
        goal: "time", "memory", or a callable from an estimate (``seconds``,
            ``peak_bytes``, …) to a cost, of which less is better.
        values: patterns of the arguments that may be tiled; by default all.
        name: shown in tables.
        device: a name or spec; by default that of the partition.
        method: how to search: "mcts", "integer", "beam", "greedy", "random",
            "exhaustive", or a name given to `search_method`.
        workers: searches at once, in processes and with seeds of their own, of which
            the best counts.
        executor: takes the place of processes of our own, for example a cluster's.
        listener: called with a `Progress` now and then.
        progress: whether a search of more than two seconds shows how far it is, on a
            terminal or in a notebook, if there is no listener.

    Example:
        >>> import jax, partir
        >>> x = jax.ShapeDtypeStruct((512, 256), "float32")
        >>> w = jax.ShapeDtypeStruct((256, 256), "float32")
        >>> auto = partir.AutomaticPartition(("B",), evaluations=20)
        >>> p = partir.partition(
        ...     lambda x, w: x @ w, {"B": 4}, [auto], args=(x, w), device="a100"
        ... )
        >>> tuple(p.in_specs[0])
        ('B',)
    """

    axes: Sequence[str]
    evaluations: int | None = None
    seconds: float | None = None
    memory_limit: float | None = None
    seed: int = 0
    goal: str | Callable[[Estimate], float] = "time"
    values: str | Iterable[Pattern] | None = None
    name: str = ""
    device: DeviceLike | None = None
    method: str = "mcts"
    workers: int = 1
    executor: Executor | None = None
    listener: Callable[[Progress], None] | None = None
    progress: bool = True
    found: tuple[ManualPartition | Choose | Gathered, ...] = field(
        default=(), init=False
    )
    result: Result | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check what was asked for."""
        self.axes = _axes(self.axes)
        self._require_positive("evaluations", self.evaluations)
        self._require_positive("seconds", self.seconds)
        self._require_positive("memory_limit", self.memory_limit)
        self._require_positive("workers", self.workers)
        if self.goal not in ("time", "memory") and not callable(self.goal):
            raise PartitionError(
                'AutomaticPartition: goal is "time", "memory" or a callable from an '
                f"estimate to a cost, got {self.goal!r}"
            )
        if self.evaluations is None and self.seconds is None:
            self.evaluations = _EVALUATIONS
        self.name = self.name or f"automatic over {', '.join(self.axes)}"
        self._searched: Any = None
        self._reason = ""

    def _require_positive(self, what: str, given: Any) -> None:
        number = isinstance(given, Real) and not isinstance(given, bool)
        if given is not None and not (number and given > 0):
            unit = ", in bytes," if what == "memory_limit" else ""
            raise PartitionError(
                f"AutomaticPartition: {what} is a number{unit} of more than 0, got "
                f"{given!r}"
            )

    def _repr_html_(self) -> str:
        """What was found, in a notebook."""
        if self.result is None:
            return html_text(f"{self.name}: nothing is searched yet")
        found = "\n".join(map(tactic_source, self.found))
        return self.result._repr_html_() + html_text(found)

    def to_json(self) -> dict[str, Any]:
        """What was found as data: figures, decisions, tactics as text."""
        result = {} if self.result is None else self.result.to_json()
        tactics = [
            {
                "name": tactic.name,
                "axis": tactic.axis,
                "reason": tactic.reason,
                "source": tactic_source(tactic),
            }
            for tactic in self.found
        ]
        return {**result, "tactics": tactics}

    def apply(self, partition: Partition) -> None:
        """Search, or take what was found before, one tactic after another."""
        for axis in self.axes:
            partition.require_axis(axis)
        key = self._key(partition)
        fresh = self._searched != key
        if fresh:
            self.found, self._reason = self._shared(partition)
            self._searched = key
        partition.found += self.found
        if not self.found:
            partition.note(self._reason)
        for tactic in self.found:
            try:
                tactic.apply(partition)
            except PartitionError as error:
                if fresh:
                    raise
                raise PartitionError(
                    f'tactic "{self.name}": what was found for other arguments does '
                    f"not fit these: {error}. Use another AutomaticPartition for them"
                ) from None
            partition.propagate()

    def _key(self, partition: Partition) -> object:
        """What a search is good for: a mesh, a device, arguments by their names."""
        names = tuple(port.name for port in partition.program.arguments)
        return tuple(partition.mesh.axes.items()), self._device(partition).name, names

    def _device(self, partition: Partition) -> DeviceSpec:
        if self.device is not None:
            return as_device(self.device, devices)
        setting = partition.setting
        given = None if setting is None else setting.device
        return devices[_DEVICE] if given is None else given

    def _shared(self, partition: Partition) -> tuple[tuple[Any, ...], str]:
        """What is found here or, with several processes, in the first of them.

        If it is nothing, the second part says why.
        """

        def make() -> bytes:
            try:
                return pickle.dumps((*self._search(partition), None))
            except PartitionError as error:
                if share is None:
                    raise  # else the others wait for an answer
                return pickle.dumps(((), "", str(error)))

        share = partition.share
        found, reason, refused = pickle.loads(make() if share is None else share(make))
        if refused is not None:
            raise PartitionError(refused)
        return found, reason

    def _search(self, partition: Partition) -> tuple[tuple[Any, ...], str]:
        setting = partition.setting
        donated = None if setting is None else setting.donated()
        count = len(partition.program.arguments)
        budget = Budget(self.evaluations, self.seconds)
        with live_progress(budget) if self.progress else nullcontext() as shown:
            result = search(
                partition.state,
                self.axes,
                self._device(partition),
                donated if donated is not None else [False] * count,
                budget,
                memory_limit=self.memory_limit,
                goal=self.goal,
                allowed=self._allowed(partition),
                method=self.method,
                seed=self.seed,
                workers=self.workers,
                executor=self.executor,
                listener=self.listener or shown,
            )
        self.result = result
        if not result.outcome.fits:
            raise PartitionError(f'tactic "{self.name}": {result.no_fit()}')
        tactics = tuple(as_tactic(partition, one) for one in result.decisions)
        return tactics, result.reason

    def _allowed(self, partition: Partition) -> set[int] | None:
        if self.values is None:
            return None
        patterns = [self.values] if isinstance(self.values, str) else list(self.values)
        allowed: set[int] = set()
        for pattern in patterns:
            values = partition.values(pattern)
            if not values:
                raise PartitionError(
                    f'tactic "{self.name}": values "{pattern}" matches no argument; '
                    f"nearest names: {partition.names.nearest(str(pattern))}"
                )
            allowed.update(value.number for value in values)
        return allowed


def _axes(given: Any) -> tuple[str, ...]:
    axes = (given,) if isinstance(given, str) else given
    listed = tuple(axes) if isinstance(axes, Iterable) else ()
    names = all(isinstance(axis, str) for axis in listed)
    if not listed or not names or len(set(listed)) != len(listed):
        raise PartitionError(
            "AutomaticPartition: axes names at least one mesh axis, each once, for "
            f'example axes=("B", "M"); got {given!r}'
        )
    return listed


def as_tactic(
    partition: Partition, decision: Decision
) -> ManualPartition | Choose | Gathered:
    """A decision as a manual tactic, its values as patterns."""
    names = partition.names
    wishes: dict[str, Wish] = {names.unique_name(v): REPLICATED for v in decision.whole}
    wishes |= {names.unique_name(v): d for v, d in decision.tiles.items()}
    known = [name for name, _, _ in (*names.arguments, *names.tags)]
    inner = {n: w for n, w in wishes.items() if n.startswith("%")}
    outer = {n: w for n, w in wishes.items() if n not in inner}
    patterns = as_patterns(outer, known) | inner
    axis, name, reason = decision.axis, decision.name, decision.reason
    if decision.kept:
        kept = dict.fromkeys(map(names.unique_name, decision.kept), "keep")
        return Gathered(as_patterns(kept, known), axis, name, reason)
    if not decision.loops:
        return ManualPartition(patterns, axis, name, reason=reason)
    ops = {one.pattern: one.factor for one in decision.loop_patterns(partition.program)}
    return Choose(ops, axis, name, patterns, reason)
