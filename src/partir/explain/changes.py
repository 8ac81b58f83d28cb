"""Changes of a schedule that may help: candidates, to be tried."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from partir.explain.chains import root_of
from partir.explain.evidence import Evidence
from partir.explain.finding import Finding, along_text, outside
from partir.explain.trial import Change
from partir.partition.patterns import matcher
from partir.partition.values import Named
from partir.rules.nest import UNDECIDED
from partir.search.result.patterns import as_patterns, loop_patterns
from partir.tactics.choose import Choose
from partir.tactics.gathered import Gathered
from partir.tactics.manual import (
    FIRST_DIVISIBLE_DIM,
    UNKNOWN,
    ManualPartition,
    padded,
)


class Changes:
    """Makes changes of one partition's schedule."""

    def __init__(self, record: Evidence) -> None:
        """Nothing is looked up yet."""
        self.record = record
        self.last = len(record.steps) if record.steps[-1].tactic is not None else 0

    # Of decisions that do not fit

    def of_finding(self, finding: Finding) -> Iterator[Change]:
        """Others for the decisions at issue, each in the tactic that took it."""
        roots = dict.fromkeys(
            root_of(self.record, finding.axis, value) for value in finding.values
        )
        for root in roots:
            yield from self.of_decision(finding.axis, root)
        if finding.cause in (*MATTERS_OF_LOOPS, "neighbours", "one_slice"):
            for root in roots:
                yield from self.of_tactic(finding.axis, root)
        if finding.node is not None and finding.cause in MATTERS_OF_LOOPS:
            yield from self.of_loop(finding.axis, finding.node)

    def of_decision(self, axis: str, value: int) -> Iterator[Change]:
        """Another dimension, or none, for what a tactic asks of a value."""
        origin = self.record.origin(axis, value)
        if origin is None or origin.node is not None:
            return
        home = self.record.state.homes[axis][value]
        alike = self._alike(axis, value, origin.step)
        wide = self._shaped_alike(axis, value, origin.step)
        for group in [wide, alike] if len(wide) > len(alike) else [alike]:
            for dim in self._dims(axis, group) if home >= 0 else ():
                if dim != self.record.outer(value, home):
                    yield from self._said(
                        origin.step, axis, group, "other_dim", dim, dim
                    )
        yield from self._said(origin.step, axis, alike, "leave_out", None, UNKNOWN)

    def of_tactic(self, axis: str, value: int) -> Iterator[Change]:
        """Nothing of what a tactic asks, if it asks for more than this value."""
        origin = self.record.origin(axis, value)
        if origin is None or origin.node is not None:
            return
        asked = self._asked_by(axis, origin.step)
        if len(asked) > 1:
            yield from self._said(origin.step, axis, asked, "leave_out", None, UNKNOWN)

    def of_loop(self, axis: str, node: int) -> Iterator[Change]:
        """Other loops for an op, and for its like in other layers."""
        record = self.record
        if record.state.graph.op(node) is None:
            return
        own, size = record.loop(axis, node), record.state.mesh.axes[axis]
        nest = outside(record, axis, node)
        origin = record.step.state.node_origins[axis].get(node)
        position = self.last if origin is None else origin.step
        for number, factor in enumerate(nest.factors):
            if factor.fits(size) and (own is None or not factor.runs_like(own.factor)):
                loops = dict.fromkeys(self._like(axis, node), number)
                ops = {p.pattern: number for p in loop_patterns(record.program, loops)}
                tactic = Choose(ops, axis, f"choose over {axis}")
                target = ", ".join(ops)
                words = f"let {target} loop {along_text(record, node, factor)}"
                yield Change("choose", target, number, tactic, position, words=words)

    # Of what nobody decided

    def of_value(self, axis: str, value: int) -> Iterator[Change]:
        """A tiling for a value that no tactic decided, after the last of them."""
        if self.record.step.state.homes[axis][value] != UNDECIDED:
            return
        group = self.named_alike(value)
        for dim in self._dims(axis, group):
            yield from self._added(axis, group, "tile", dim, dim)
        if value in self.record.state.graph.handed_over:
            for dim in self._uneven(axis, value):
                yield from self._added(axis, [value], "pad", dim, padded(dim))

    def of_tree(self, axis: str, stem: str) -> Iterator[Change]:
        """Everything below a name, each on the first dimension that divides."""
        tactic = ManualPartition(
            {stem: FIRST_DIVISIBLE_DIM}, axis, f"{stem} over {axis}"
        )
        yield Change("spread", stem, None, tactic, self.last)

    def kept(self, axis: str, value: int) -> Iterator[Change]:
        """One gather for all readers of a value, or of what it is a slice of."""
        for whole in dict.fromkeys((value, root_of(self.record, axis, value))):
            homes = self.record.state.homes[axis]
            group = [one for one in self.named_alike(whole) if homes[one] >= 0]
            for pattern in self._patterns(group, "keep"):
                tactic = Gathered({pattern: "keep"}, axis)
                yield Change("keep", pattern, None, tactic, self.last)

    # Parts of them

    def _said(
        self,
        step: int,
        axis: str,
        group: list[int],
        action: str,
        dim: int | None,
        wish: Any,
    ) -> Iterator[Change]:
        """A tactic that says something else of these values, in its place."""
        record, tactic = self.record, self.record.steps[step].tactic
        if not isinstance(tactic, ManualPartition):
            return
        results = {value: name for name, value, _ in record.names.results}
        outputs = self._pinned_as_result(tactic, group, results)
        names = [results[v] if outputs else record.names.name(v) for v in group]
        said = dict.fromkeys(names, wish)
        known = list(results.values()) if outputs else self._all_names
        patterns = as_patterns(said, known)
        given = tactic.outputs if outputs else tactic.inputs
        wishes = {k: w for k, w in given.items() if k not in patterns}
        wishes |= patterns if wish is not UNKNOWN else _needed(patterns, wishes, names)
        made = replace(tactic, outputs=wishes) if outputs else None
        made = made or replace(tactic, inputs=wishes)
        yield Change(action, ", ".join(patterns), dim, made, step, replaces=True)

    @staticmethod
    def _pinned_as_result(
        tactic: ManualPartition, group: list[int], results: dict[int, str]
    ) -> bool:
        return bool(tactic.outputs) and all(value in results for value in group)

    def _added(
        self, axis: str, group: list[int], action: str, dim: int, wish: Any
    ) -> Iterator[Change]:
        record = self.record
        results = {value: name for name, value, _ in record.names.results}
        arguments = {value for _, value, _ in record.names.arguments}
        if all(v in results and v not in arguments for v in group):
            said = as_patterns(
                {results[v]: wish for v in group}, list(results.values())
            )
            tactic = ManualPartition({}, axis, f"more over {axis}", outputs=said)
        else:
            said = self._patterns(group, wish)
            tactic = ManualPartition(said, axis, f"more over {axis}")
        yield Change(action, ", ".join(said), dim, tactic, self.last)

    def _patterns(self, group: list[int], wish: Any) -> dict[str, Any]:
        names = {self.record.names.name(value): wish for value in group}
        return as_patterns(names, self._all_names)

    @property
    def _named(self) -> list[Named]:
        return [*self.record.names.arguments, *self.record.names.tags]

    @property
    def _all_names(self) -> list[str]:
        return [name for name, _, _ in self._named]

    def _asked_by(self, axis: str, step: int) -> list[int]:
        """All values that a tactic asks to be tiled."""
        homes = self.record.state.homes[axis]
        named = dict.fromkeys(one for _, one, _ in self._named)
        return [
            one
            for one in named
            if homes[one] >= 0
            and (origin := self.record.origin(axis, one)) is not None
            and (origin.step, origin.node) == (step, None)
        ]

    def _alike(self, axis: str, value: int, step: int) -> list[int]:
        """Values with this one's name but for numbers, decided alike by the tactic."""
        return self._decided_alike(axis, value, step, self.named_alike(value))

    def _shaped_alike(self, axis: str, value: int, step: int) -> list[int]:
        """Values of this one's shape, decided alike by the tactic."""
        types = self.record.program.types
        named = dict.fromkeys(one for _, one, _ in self._named)
        shaped = [one for one in named if types[one].shape == types[value].shape]
        return self._decided_alike(axis, value, step, shaped)

    def _decided_alike(
        self, axis: str, value: int, step: int, among: list[int]
    ) -> list[int]:
        homes = self.record.state.homes[axis]
        return [
            one
            for one in among
            if homes[one] == homes[value]
            and (origin := self.record.origin(axis, one)) is not None
            and origin.step == step
            and origin.node is None
        ] or [value]

    def named_alike(self, value: int) -> list[int]:
        """Arguments and tags with this one's name but for numbers, and its type."""
        record = self.record
        type_, stem = record.program.types[value], name_stem(record.names.name(value))
        values = {one: name for name, one, _ in self._named}
        found = [
            one
            for one, name in values.items()
            if name_stem(name) == stem and record.program.types[one] == type_
        ]
        return found if value in found else [value]

    def _like(self, axis: str, node: int) -> Iterable[int]:
        """Ops of the same line with the same signature and loops."""
        record = self.record
        op, nest = record.program.ops[node], record.state.nests[node]
        for number, other in enumerate(record.program.ops):
            alike = other.signature is op.signature and other.location == op.location
            if alike and record.state.nests[number] is nest:
                yield number

    def _dims(self, axis: str, group: list[int]) -> list[int]:
        """The user's dimensions that an axis divides, all others tiled as they are."""
        state, size = self.record.step.state, self.record.state.mesh.axes[axis]
        value, found = group[0], []
        home = state.homes[axis][value]
        rank = len(self.record.program.types[value].shape)
        for dim in self.record.dims.get(value, range(rank)):
            left = state.local_size(value, dim) * (size if dim == home else 1)
            if left and left % size == 0:
                found.append(self.record.outer(value, dim))
        return found

    def _uneven(self, axis: str, value: int) -> list[int]:
        state = self.record.step.state
        return [
            self.record.outer(value, dim)
            for dim in self.record.dims.get(value, ())
            if not state.divides(value, dim, axis) and state.fills(value, dim, axis)
        ]


MATTERS_OF_LOOPS = ("conflict", "other_loop", "no_loop", "does_not_divide")


def _needed(
    patterns: dict[str, Any], wishes: dict[Any, Any], names: list[str]
) -> dict[str, Any]:
    """What to say of names so that nothing is said of them: often nothing."""
    matchers = [matcher(key) for key in wishes]
    named = any(one.fullmatch(name) for one in matchers for name in names)
    return patterns if named else {}


def name_stem(name: str) -> str:
    """A name without its numbers: the same in every layer."""
    return re.sub(r"\d+", "*", name)
