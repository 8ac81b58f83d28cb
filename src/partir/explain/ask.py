"""`explain`: an answer for a name, a collective, a source line or the peak."""

from __future__ import annotations

import re
from collections.abc import Sequence

from partir.errors import PartitionError, nearest
from partir.explain.answer import Explanation, Link
from partir.explain.chains import chain_of, loop_chain
from partir.explain.changes import MATTERS_OF_LOOPS
from partir.explain.evidence import Evidence, ExplainedStep
from partir.explain.finding import Finding
from partir.explain.lines import explain_line
from partir.explain.moves import why_moved
from partir.explain.peak import PEAK, explain_peak
from partir.explain.prices import price_of
from partir.explain.remedies import for_collective, for_whole
from partir.explain.wholes import why_whole
from partir.ir.garbage import collection_paused
from partir.spmd.manual_collectives import KINDS
from partir.spmd.program import Compute

_COLLECTIVE = re.compile(rf"({'|'.join(KINDS)})#\d+")
_LINE = re.compile(r"(.+\.\w+):(\d+)")


@collection_paused
def explain(
    steps: Sequence[ExplainedStep], name: str, axis: str | None = None
) -> Explanation:
    """Why a value is tiled as it is, why a collective is there, what a line costs.

    `name` is that of an argument, a tag or a result, a ``%`` address, a collective's
    (``all_gather#12``), a source line (``model.py:42``) or ``peak_bytes``.
    """
    if not isinstance(name, str):
        raise PartitionError(f"explain takes a name, got {name!r}")
    record = Evidence(steps)
    if axis is not None:
        record.state.require_axis(axis)
    values = _values(record, name)
    if values:
        return explain_value(record, name, values, axis)
    if _COLLECTIVE.fullmatch(name):
        return explain_collective(record, name)
    if name == PEAK:
        return explain_peak(record)
    if line := _LINE.fullmatch(name):
        return explain_line(
            record, line.group(1), int(line.group(2)), explain_collective
        )
    raise _unknown(record, name)


def _values(record: Evidence, name: str) -> list[int]:
    names = record.names
    exact = names.exactly(name)
    found = names.matching(name) or names.results_matching(name)
    numbers = [value for _, value, _ in found]
    if exact is not None and exact[1] not in numbers:
        numbers.insert(0, exact[1])
    return numbers


def _unknown(record: Evidence, name: str) -> PartitionError:
    names = record.names
    known = [n for n, _, _ in (*names.arguments, *names.results, *names.tags)]
    known += record.collectives
    return PartitionError(
        f'explain: "{name}" is no argument, tag or result of {record.program.name}; '
        f"nearest: {nearest(name, known)}. Inner values have addresses that begin with "
        "%, collectives are named as all_gather#0, lines as model.py:42; peak_bytes "
        "asks what fills the memory"
    )


# Values


def explain_value(
    record: Evidence, name: str, values: list[int], axis: str | None
) -> Explanation:
    """The first of these values on the axis that matters most, then on the others."""
    value, axes = (
        values[0],
        [axis] if axis is not None else _by_interest(record, values),
    )
    parts = [_on_axis(record, name, value, one) for one in axes]
    if not parts:
        text = "the mesh has one device"
        return Explanation(name, "value", "nobody_asked", text)
    first, *others = parts
    first.others = tuple(others)
    if len(values) > 1:
        first.text += f" ({len(values)} values have this name; this is the first)"
    return first


def _by_interest(record: Evidence, values: list[int]) -> list[str]:
    """Axes that tile a value first, then those that something was decided on."""

    def interest(axis: str) -> tuple[bool, bool]:
        homes = record.state.homes[axis]
        decided = values[0] in record.state.value_origins[axis]
        return homes[values[0]] < 0, not decided

    return sorted(record.axes, key=interest)


def _on_axis(record: Evidence, name: str, value: int, axis: str) -> Explanation:
    chain = chain_of(record, axis, value)
    if chain:
        return _tiled(record, name, value, axis, chain)
    finding = why_whole(record, axis, value)
    halt = finding.halt(record)
    where = ""
    if halt is not None and finding.node != record.program.producers.get(value):
        where = f" at {halt.op} ({halt.source})"
    return Explanation(
        name,
        "value",
        finding.cause,
        f'whole on "{axis}"{where}: {finding.text}',
        axis=axis,
        tactic=finding.tactic,
        source=record.value_source(value) if halt is None else halt.source,
        chain=chain_of(record, axis, finding.values[0]) if finding.values else (),
        stopped_at=halt,
        find=lambda: for_whole(record, axis, value, finding),
    )


def _tiled(
    record: Evidence, name: str, value: int, axis: str, chain: tuple[Link, ...]
) -> Explanation:
    last = chain[-1]
    cause = {"asked": "asked", "chosen": "asked", "completed": "completed"}
    size = record.state.mesh.axes[axis]
    text = f'tiled on dimension {last.dim} over "{axis}" of size {size}'
    if last.tactic:
        text += f', by tactic "{chain[0].tactic}"'
    return Explanation(
        name,
        "value",
        cause.get(last.how, "propagated"),
        text,
        axis=axis,
        tactic=chain[0].tactic,
        source=next((k.source for k in reversed(chain) if k.source.file), None),
        chain=chain,
    )


# Collectives


def explain_collective(record: Evidence, name: str) -> Explanation:
    """Who makes a value, who wants it otherwise, since when, and what that costs."""
    if name in record.written:
        return _written(record, name)
    if name not in record.collectives:
        raise PartitionError(
            f'explain: there is no "{name}"; collectives are '
            f"{nearest(name, record.collectives)}"
        )
    op, _ = record.collectives[name]
    finding, *others = findings = [why_moved(record, op, axis) for axis in op.axes]
    halt = finding.halt(record)
    value = record.names.name(op.cause.value)
    return Explanation(
        name,
        "collective",
        finding.cause,
        f"moves {value} over {' and '.join(op.axes)}: {finding.text}",
        axis=finding.axis,
        tactic=finding.tactic,
        source=halt.source if halt else record.value_source(op.cause.value),
        chain=_value_chain(record, finding, op.cause.value),
        against=_other_side(record, finding),
        stopped_at=halt,
        price=lambda: price_of(record, name),
        others=tuple(_on_other_axis(record, value, one) for one in others),
        find=lambda: for_collective(record, op, findings),
    )


def _on_other_axis(record: Evidence, value: str, finding: Finding) -> Explanation:
    """Why a collective over several axes is over this one too."""
    halt = finding.halt(record)
    return Explanation(
        f'{value} on "{finding.axis}"',
        "collective",
        finding.cause,
        finding.text,
        axis=finding.axis,
        tactic=finding.tactic,
        source=None if halt is None else halt.source,
        stopped_at=halt,
    )


def _written(record: Evidence, name: str) -> Explanation:
    """A collective inside a shard_map: the model's author wrote it."""
    op = record.written[name].op
    assert isinstance(op, Compute)
    text = f"{record.node_name(op.node)} was written for one device, with it inside"
    source = record.node_source(op.node)
    return Explanation(name, "collective", "written", text, source=source)


def _value_chain(record: Evidence, finding: Finding, value: int) -> tuple[Link, ...]:
    chain = chain_of(record, finding.axis, value)
    if chain or not finding.values:
        return chain
    return chain_of(record, finding.axis, finding.values[0])


def _other_side(record: Evidence, finding: Finding) -> tuple[Link, ...]:
    """How the reader came to its loop, if that is what the value does not fit."""
    node = finding.node
    if node is None or finding.cause not in MATTERS_OF_LOOPS:
        return ()
    if record.loop(finding.axis, node) is None:
        return ()
    return loop_chain(record, finding.axis, node)
