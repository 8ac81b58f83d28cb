"""Expectations of a partition, for people's own CI: what must hold, else an error.

``{"all_gather": 0, "peak_bytes": "<16GB", "work": "<1.05"}``: a number means exactly
that, a text compares. GB is 1e9 bytes, GiB 2**30.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from partir.errors import PartitionError, nearest
from partir.explain.ask import explain
from partir.explain.compare import figures, shown
from partir.explain.evidence import ExplainedStep
from partir.explain.listing import collective_list
from partir.explain.peak import PEAK
from partir.report.remarks import whole_lines
from partir.report.replicated import find_replicated
from partir.spmd.manual_collectives import KINDS

Expected = Mapping[str, int | float | str]

_COMPARE = {"<=": operator.le, "<": operator.lt, "==": operator.eq}
_TEXT = re.compile(r"\s*(<=|<|==)?\s*([\d.]+(?:e[+-]?\d+)?)\s*([a-zA-Zµ]*)\s*")
BYTES = {"B": 1.0} | {
    f"{prefix}{unit}": base**power
    for power, prefix in enumerate("KMGT", start=1)
    for unit, base in (("B", 1000.0), ("iB", 1024.0))
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_ESTIMATED = ("seconds", PEAK)
NAMES = (*KINDS, "bytes_communicated", "work", *_ESTIMATED)


class Limit(NamedTuple):
    """One expectation: a figure's name, how it is compared, with what."""

    name: str
    sign: str
    value: float

    def holds(self, value: float) -> bool:
        """Whether a figure is as expected."""
        compare: Callable[[float, float], bool] = _COMPARE[self.sign]
        return compare(value, self.value)

    def __str__(self) -> str:
        """As it was written, or nearly so."""
        return f"{self.name} {self.sign} {shown(self.name, self.value)}"


def limits(expected: Expected) -> tuple[Limit, ...]:
    """Expectations as they are written, checked."""
    if not isinstance(expected, Mapping):
        raise PartitionError(
            'expect maps figures to limits, as {"all_gather": 0, "peak_bytes": '
            f'"<16GB"}}; got {expected!r}'
        )
    return tuple(_limit(name, wanted) for name, wanted in expected.items())


def _limit(name: str, wanted: int | float | str) -> Limit:
    if name not in NAMES:
        raise PartitionError(
            f"expect: there is no figure {name!r}; nearest: {nearest(name, NAMES)}"
        )
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        return Limit(name, "==", wanted)
    found = _TEXT.fullmatch(wanted) if isinstance(wanted, str) else None
    units = {} if found is None else _units(name)
    if found is None or found.group(3) not in units:
        known = ", ".join(filter(None, _units(name))) or "none"
        raise PartitionError(
            f'expect: {name} takes a number, or a text as "<16" with one of <, <=, == '
            f"and a unit ({known}); got {wanted!r}"
        )
    sign, number, unit = found.groups()
    return Limit(name, sign or "==", float(number) * units[unit])


def _units(name: str) -> dict[str, float]:
    if "bytes" in name:
        return {"": 1.0, **BYTES}
    return {"": 1.0, **_SECONDS} if name == "seconds" else {"": 1.0}


def require_expected(
    steps: Sequence[ExplainedStep], expected: Expected, whose: str = ""
) -> None:
    """A PartitionError with the explanation of the first figure that is not so."""
    found = None
    for limit in limits(expected):
        if limit.name in _ESTIMATED:
            steps[-1].setting.require_device()
        found = found or figures(steps[-1])
        value = found[limit.name]
        if not limit.holds(value):
            got = shown(limit.name, value)
            raise PartitionError(
                f"expected {limit}{whose}, but it is {got}. "
                f"{_explained(steps, limit.name)}"
            )


def require_all(steps: Sequence[ExplainedStep], expected: Expected | None) -> None:
    """What tactics expect after them, then what is expected in the end."""
    for number, step in enumerate(steps):
        own = getattr(step.tactic, "expect", None)
        if own is not None:
            after = f' after tactic "{step.name}"'
            require_expected(steps[: number + 1], own, after)
    if expected is not None:
        require_expected(steps, expected)


def _explained(steps: Sequence[ExplainedStep], name: str) -> str:
    """Why a figure is what it is."""
    if name == PEAK:
        return str(explain(steps, PEAK))
    if name == "work":
        whole = find_replicated(steps)
        return "\n".join(whole_lines(whole)[:3]) if whole else ""
    uses = [u for u in collective_list(steps) if name not in KINDS or u.kind == name]
    if not uses:
        return ""
    largest = max(uses, key=lambda use: use.bytes)
    return f"The largest is\n{explain(steps, largest.id)}"
