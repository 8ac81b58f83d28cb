"""`Explanation`: an answer as data that prints well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from partir.columns import bytes_text, seconds_text
from partir.ir.source import Location
from partir.tactics.manual import ManualPartition
from partir.tactics.schedule import tactic_text

_MOST_LINKS = 6  # of a chain that is printed
_MOST_REMEDIES = 3  # that are printed


@dataclass(frozen=True, slots=True)
class Link:
    """One decision: a value's dimension over an axis, by whom, or through which op.

    `how` is "asked" (the tactic names it), "chosen" (the tactic puts the op into this
    loop), "through" (an op passes it on) or "completed" (the same, after all tactics).
    """

    value: str
    dim: int
    axis: str
    how: str
    tactic: str | None
    op: str = ""
    source: Location = field(default_factory=Location)

    def __str__(self) -> str:
        """One line."""
        what = f"{self.value}, dimension {self.dim}"
        if self.how == "asked":
            return f'{what}: tactic "{self.tactic}" asks for it'
        if self.how == "chosen":
            return f'{what}: tactic "{self.tactic}" chose the loop of {self._where()}'
        after = ", completed after the last tactic" if self.how == "completed" else ""
        return f"{what}: through {self._where()}{after}"

    def _where(self) -> str:
        return f"{self.op} ({self.source})" if self.source.file else self.op

    def to_json(self) -> dict[str, Any]:
        """As data."""
        return {
            "value": self.value,
            "dim": self.dim,
            "axis": self.axis,
            "how": self.how,
            "tactic": self.tactic,
            "op": self.op,
            "source": place(self.source),
        }


@dataclass(frozen=True, slots=True)
class Halt:
    """The op where tiling stopped, or where two layouts meet, and why."""

    op: str
    kind: str
    source: Location
    reason: str

    def to_json(self) -> dict[str, Any]:
        """As data."""
        where = place(self.source)
        return {
            "op": self.op,
            "kind": self.kind,
            "source": where,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Price:
    """What collectives cost in a step: bytes a device sends, seconds on the links."""

    bytes: int
    seconds: float
    share: float  # of the step's time, were nothing hidden behind computation
    times: int

    def __str__(self) -> str:
        """Bytes, time, share."""
        often = f" in {self.times} calls" if self.times > 1 else ""
        return (
            f"{bytes_text(self.bytes)} sent by each device{often}, "
            f"{seconds_text(self.seconds)}, {self.share:.1%} of the step"
        )

    def to_json(self) -> dict[str, Any]:
        """As data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class StepFigures:
    """A step before or after a remedy, and what of it was asked about."""

    seconds: float
    peak_bytes: int
    bytes_communicated: int
    work: float
    asked_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """As data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True)
class Remedy:
    """An action that was tried and helps, with the step before and after it.

    `action` is "tile", "other_dim", "leave_out", "keep", "choose" or "pad"; `target` is
    a pattern. `tactic` stands in `schedule` at `position`, in place of the one there if
    `replaces` names it.
    """

    action: str
    target: str
    dim: int | None
    tactic: Any
    schedule: tuple[Any, ...]
    position: int
    replaces: str | None
    before: StepFigures
    after: StepFigures
    words: str = ""  # what is done, if its action and target alone don't tell

    def __str__(self) -> str:
        """What to do, where, and what it changes."""
        said = f"{self.title}: {self.effect}"
        if self.drops:
            return said
        return f"{said}\n{_indented(tactic_text(self.tactic))}"

    @property
    def drops(self) -> bool:
        """Whether nothing is left of the tactic that it replaces."""
        tactic = self.tactic
        return isinstance(tactic, ManualPartition) and not (
            tactic.inputs or tactic.outputs
        )

    @property
    def title(self) -> str:
        """What is done."""
        if self.drops:
            where = f'so that nothing is left of "{self.replaces}"'
        elif self.replaces is not None:
            where = f'in place of "{self.replaces}"'
        elif self.position == len(self.schedule) - 1:
            where = "after the last tactic"
        else:
            where = f"as tactic {self.position}"
        done = self.words or _ACTIONS[self.action].format(self.target, self.dim)
        return f"{done}, {where}"

    @property
    def effect(self) -> str:
        """Time, memory and bytes, before and after."""
        a, b = self.before, self.after
        sent = f"{bytes_text(a.bytes_communicated)} -> "
        sent += f"{bytes_text(b.bytes_communicated)} sent"
        time = f"{seconds_text(a.seconds)} -> {seconds_text(b.seconds)}"
        peak = f"{bytes_text(a.peak_bytes)} -> {bytes_text(b.peak_bytes)} at the peak"
        return f"{time}, {sent}, {peak}"

    def to_json(self) -> dict[str, Any]:
        """As data; the tactic as text."""
        return {
            "title": self.title,
            "action": self.action,
            "target": self.target,
            "dim": self.dim,
            "tactic": tactic_text(self.tactic),
            "position": self.position,
            "replaces": self.replaces,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
        }


_ACTIONS = {
    "tile": 'tile "{0}" on dimension {1}',
    "spread": 'tile "{0}" on the first dimension that divides',
    "other_dim": 'tile "{0}" on dimension {1} instead',
    "leave_out": 'leave "{0}" out',
    "keep": 'keep what is gathered of "{0}"',
    "choose": "let {0} loop over its factor {1}",
    "pad": 'tile "{0}" on dimension {1}, padded',
}


class Explanation:
    """Why something is as it is.

    `cause` is one word (see docs/why.md), `tactic` the one since which it is so,
    `source` the line to look at. `chain` leads from the tactic to what was asked about,
    `against` to what it does not agree with. `stopped_at` is the op where tiling
    stopped or layouts meet. `cost` is that of a collective. `others` are explanations
    of the same on other axes, or of what else is on a line. `remedies`, the best first,
    are tried when they are read; empty: nothing that was tried helps.
    """

    def __init__(
        self,
        subject: str,
        kind: str,
        cause: str,
        text: str,
        *,
        axis: str | None = None,
        tactic: str | None = None,
        source: Location | None = None,
        chain: tuple[Link, ...] = (),
        against: tuple[Link, ...] = (),
        stopped_at: Halt | None = None,
        price: Callable[[], Price | None] = lambda: None,
        others: tuple[Explanation, ...] = (),
        find: Callable[[], tuple[Remedy, ...]] = tuple,
    ) -> None:
        """Made by `explain`."""
        self.subject, self.kind, self.cause, self.text = subject, kind, cause, text
        self.axis, self.tactic, self.source = axis, tactic, source or Location()
        self.chain, self.against, self.stopped_at = chain, against, stopped_at
        self.others, self._price, self._find = others, price, find

    @cached_property
    def cost(self) -> Price | None:
        """What a collective costs, or all of a line; estimated when it is read."""
        return self._price()

    @cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """What helps, tried on this partition; the best first."""
        return self._find()

    def to_json(self, remedies: bool = True) -> dict[str, Any]:
        """All of it as data; trying remedies takes a while."""
        data: dict[str, Any] = {
            "subject": self.subject,
            "kind": self.kind,
            "cause": self.cause,
            "text": self.text,
            "axis": self.axis,
            "tactic": self.tactic,
            "source": place(self.source),
            "chain": [link.to_json() for link in self.chain],
            "against": [link.to_json() for link in self.against],
            "stopped_at": self.stopped_at and self.stopped_at.to_json(),
            "cost": self.cost and self.cost.to_json(),
            "others": [other.to_json(remedies=False) for other in self.others],
        }
        if remedies:
            data["remedies"] = [remedy.to_json() for remedy in self.remedies]
        return data

    def __str__(self) -> str:
        """The answer, how it came to it, what it costs, what helps."""
        return "\n".join([*self.lines(), *self._remedy_lines()])

    __repr__ = __str__

    def lines(self) -> list[str]:
        """The answer without remedies."""
        lines = [f"{self.subject}: {self.text}"]
        if self.cost is not None:
            lines.append(f"  costs {self.cost}")
        lines += _chain_lines("decided", self.chain)
        lines += _chain_lines("against", self.against)
        for other in self.others:
            lines += [f"  {line}" for line in other.lines()[:2]]
        return lines

    def _remedy_lines(self) -> list[str]:
        if not self.remedies:
            if self.cause in _FINE:
                return ["  nothing to mend: this is what the schedule asks for"]
            return ["  remedy: none found"]
        shown = self.remedies[:_MOST_REMEDIES]
        lines = ["  remedy: " + str(one).replace("\n", "\n  ") for one in shown]
        more = len(self.remedies) - len(shown)
        return [*lines, f"  remedy: … and {more} more: .remedies"] if more else lines


_FINE = ("asked", "propagated", "completed")


def place(source: Location) -> dict[str, Any] | None:
    """A source line as data."""
    if not source.file and not source.path:
        return None
    return {
        "file": source.file,
        "line": source.line,
        "function": source.function,
        "scope": source.scope,
    }


def _chain_lines(label: str, chain: tuple[Link, ...]) -> list[str]:
    if not chain:
        return []
    shown = [f"    {link}" for link in chain]
    if len(shown) > _MOST_LINKS:
        first, last = shown[:2], shown[-3:]
        shown = [*first, f"    … {len(chain) - 5} more ops …", *last]
    return [f"  {label}:", *shown]


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip(",").splitlines())
