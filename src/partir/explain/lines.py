"""What a source line makes: its collectives, and what is whole on it."""

from __future__ import annotations

from collections.abc import Callable

from partir.errors import PartitionError, nearest
from partir.explain.answer import Explanation, Price
from partir.explain.evidence import Evidence
from partir.explain.prices import price_of
from partir.explain.wholes import why_whole
from partir.ir.source import Location

_MOST = 8  # explanations of one line


def explain_line(
    record: Evidence,
    file: str,
    line: int,
    collective: Callable[[Evidence, str], Explanation],
) -> Explanation:
    """The costliest collective on a line with all others, or what is whole there."""
    nodes = {
        number
        for number, op in enumerate(record.program.ops)
        if at_line(op.location, file, line)
    }
    if not nodes:
        raise PartitionError(_nothing(record, file, line))
    here = {
        name: trips * record.spmd.bytes_sent(op)
        for name, (op, trips) in record.collectives.items()
        if nodes.intersection((op.cause.producer, op.cause.consumer))
    }
    subject = f"{file}:{line}"
    if not here:
        return _without(record, subject, nodes)
    largest = sorted(here, key=lambda name: -here[name])[:_MOST]
    first, *others = [collective(record, name) for name in largest]
    count = f"{len(here)} collectives" if len(here) > 1 else "one collective"
    return Explanation(
        subject,
        "line",
        first.cause,
        f"{count}; the largest is {first.subject}, which {first.text}",
        axis=first.axis,
        tactic=first.tactic,
        source=first.source,
        chain=first.chain,
        against=first.against,
        stopped_at=first.stopped_at,
        price=lambda: _total([price_of(record, name) for name in here]),
        others=tuple(others),
        find=lambda: first.remedies,
    )


def at_line(location: Location, file: str, line: int) -> bool:
    """Whether an op was written on a line, or called from it."""
    places = [(location.file, location.line)]
    places += [(frame.file, frame.line) for frame in location.frames]
    return any(number == line and _same(path, file) for path, number in places)


def _same(path: str, file: str) -> bool:
    return path == file or path.endswith("/" + file)


def _total(prices: list[Price]) -> Price:
    return Price(
        sum(price.bytes for price in prices),
        sum(price.seconds for price in prices),
        sum(price.share for price in prices),
        sum(price.times for price in prices),
    )


def _without(record: Evidence, subject: str, nodes: set[int]) -> Explanation:
    """A line without collectives: on which axes its ops have loops, and if not, why."""
    ops = sorted(n for n in nodes if record.program.ops[n].results)
    whole = [(n, a) for n in ops for a in record.axes if record.loop(a, n) is None]
    if not whole:
        text = f"no collective; all {len(ops)} ops of the line are shared out"
        where = record.node_source(ops[0]) if ops else None
        return Explanation(subject, "line", "propagated", text, source=where)
    node, axis = max(whole, key=lambda one: _elements(record, one[0]))
    finding = why_whole(record, axis, record.program.ops[node].results[0])
    return Explanation(
        subject,
        "line",
        finding.cause,
        f'no collective; {record.node_name(node)} is whole on "{axis}": {finding.text}',
        axis=axis,
        tactic=finding.tactic,
        source=record.node_source(node),
        stopped_at=finding.halt(record),
    )


def _elements(record: Evidence, node: int) -> int:
    return sum(record.program.types[v].bytes for v in record.program.ops[node].results)


def _nothing(record: Evidence, file: str, line: int) -> str:
    locations = {op.location for op in record.program.ops if op.location.file}
    lines = sorted({one.line for one in locations if _same(one.file, file)})
    if lines:
        close = sorted(lines, key=lambda one: abs(one - line))[:5]
        known = ", ".join(map(str, sorted(close)))
        return f"explain: nothing is computed on {file}:{line}; nearest lines: {known}"
    files = dict.fromkeys(one.file for one in locations)
    return f"explain: no op comes from {file}; files: {nearest(file, files)}"
