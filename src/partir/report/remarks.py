"""What deserves a look below the table: a line each, and how many there are more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from partir.errors import PartitionError
from partir.ir.core import Op
from partir.partition.actions import Action
from partir.partition.graph import Graph
from partir.report.reasons import rule_remedy
from partir.report.replicated import ReplicatedOp
from partir.rules.host import calls_host
from partir.rules.registry import has_rule


def shortened(label: str, lines: Sequence[str], most: int, rest: str) -> list[str]:
    """The first lines under a label, and where to find the rest.

    >>> shortened("note", ["one", "two", "three"], 1, "p.program.notes")
    ['note: one', 'note: … and 2 more: p.program.notes']
    """
    shown = [f"{label}: {line}" for line in lines[:most]]
    hidden = len(lines) - len(shown)
    return [*shown, f"{label}: … and {hidden} more: {rest}"] if hidden else shown


def whole_lines(ops: Iterable[ReplicatedOp]) -> list[str]:
    """What is whole from each place on where tiling stopped, the costliest first.

    The reason and what would help follow on lines of their own.
    """
    places: dict[tuple[str, str], list[ReplicatedOp]] = defaultdict(list)
    for op in ops:
        places[op.axis, op.stopped_at].append(op)
    ordered = sorted(places.values(), key=lambda place: -_share(place))
    return [_whole(place) for place in ordered]


def _share(ops: Iterable[ReplicatedOp]) -> float:
    return sum(op.share for op in ops)


def _whole(ops: Sequence[ReplicatedOp]) -> str:
    first, share = ops[0], _share(ops)
    where = f'on "{first.axis}"'
    if share >= 0.005:
        where += f", {share:.0%} of what a device computes"
    place = f"{first.stopped_at} ({first.stopped_source})"
    reason = first.reason.replace("; ", ";\n  ")
    if len(ops) == 1 and first.stopped_here:
        return f"{place} {where}:\n  {reason}"
    ending = "s" if len(ops) > 1 else ""
    return f"{len(ops)} op{ending} {where}, from {place} on:\n  {reason}"


def refuse_whole(ops: Sequence[ReplicatedOp]) -> None:
    """A PartitionError if there are any."""
    if not ops:
        return
    axes = " and ".join(f'"{axis}"' for axis in dict.fromkeys(op.axis for op in ops))
    count = f"{len(ops)} ops are" if len(ops) > 1 else "an op is"
    listed = shortened("whole", whole_lines(ops), 10, "replicated_ops without strict")
    raise PartitionError(
        f"strict: {count} computed whole on {axes}:\n  "
        + "\n".join(listed).replace("\n", "\n  ")
        + "\nA value that is meant to be whole is no error if a tactic asks for it: "
        'partition.atomic(value, axis, at="uses")'
    )


def skipped_lines(steps: Iterable[tuple[str, Iterable[Action]]]) -> list[str]:
    """A line for each value that a tactic left alone; not for scalars."""
    return [
        f'{action.target} on "{action.axis}" by "{tactic}": {action.reason}'
        for tactic, actions in steps
        for action in actions
        if action.kind == "skip" and action.reason
    ]


def rule_lines(graph: Graph, listed: Iterable[ReplicatedOp]) -> list[str]:
    """A line for each kind of op that has no rule, but for those listed as whole."""
    by_kind: dict[str, list[Op]] = defaultdict(list)
    for node, op in enumerate(graph.program.ops):
        if node in graph.owned or has_rule(op.signature) or calls_host(op.signature):
            continue
        if any(type_.shape for type_ in op.signature.operands):
            target = op.signature.attrs.get("call_target_name", "")
            by_kind[f"{op.signature.name} {target}".strip()].append(op)
    whole = {op.name for op in listed}
    addresses = graph.program.addresses
    return [
        f"{kind} ({ops[0].location}{_and_more(ops)}) can't be tiled; "
        + rule_remedy(ops[0].signature)
        for kind, ops in by_kind.items()
        if whole.isdisjoint(addresses[op.results[0]] for op in ops if op.results)
    ]


def _and_more(ops: Sequence[Op]) -> str:
    return f" and {len(ops) - 1} more" if len(ops) > 1 else ""
