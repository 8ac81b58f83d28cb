"""`partir explain`: why a value is tiled so, why a collective is there."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from partir.cli.sources import partition_arguments
from partir.errors import PartitionError
from partir.explain.listing import CollectiveUse
from partir.partition.patterns import matcher
from partir.report.table import aligned, bytes_text, seconds_text


def add_explain_arguments(explain: ArgumentParser) -> None:
    """What comes after the model, the mesh and the schedule."""
    explain.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="an argument, tag or result, a %% address, a collective (all_gather#12), "
        "a source line (model.py:42) or peak_bytes; without it, all collectives are "
        "listed, the costliest first",
    )
    explain.add_argument("--axis", help="of a value: the mesh axis to explain")
    explain.add_argument(
        "--no-remedies", action="store_true", help="don't try what would help"
    )
    listed = explain.add_argument_group("which collectives are listed")
    listed.add_argument(
        "--value", metavar="PATTERN", help="those that move such values"
    )
    listed.add_argument("--scope", metavar="PATTERN", help="those of a module path")
    listed.add_argument("--line", metavar="FILE:N", help="those of a source line")
    listed.add_argument("--kind", help="those of a kind, as all_gather")
    listed.add_argument(
        "--least", metavar="BYTES", type=int, default=0, help="those that send as much"
    )
    explain.add_argument("--json", action="store_true", help="the same as JSON")
    explain.set_defaults(run=run_explain, late="name")


def run_explain(args: Namespace) -> None:
    """Print an explanation, or the list of collectives."""
    partitioned = partition_arguments(args)
    if args.name is None:
        found = list(_selected(partitioned.collective_list, args))
        found.sort(key=lambda one: -one.bytes)
        print(_listing(found) if not args.json else _json(found))
        return
    said = partitioned.explain(args.name, args.axis)
    if args.json:
        print(json.dumps(said.to_json(remedies=not args.no_remedies), indent=1))
    elif args.no_remedies:
        print("\n".join(said.lines()))
    else:
        print(said)


def _json(found: list[CollectiveUse]) -> str:
    return json.dumps([one.to_json() for one in found], indent=1)


def _selected(
    uses: Iterable[CollectiveUse], args: Namespace
) -> Iterable[CollectiveUse]:
    value = matcher(args.value) if args.value else None
    scope = matcher(args.scope) if args.scope else None
    line = _line(args.line) if args.line else None
    for use in uses:
        if (
            (value is None or value.fullmatch(use.value))
            and (scope is None or scope.fullmatch(use.source.scope))
            and (line is None or _is_at(use, *line))
            and args.kind in (None, use.kind)
            and use.bytes >= args.least
        ):
            yield use


def _line(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.+):(\d+)", text)
    if found is None:
        raise PartitionError(f"--line is written as model.py:42, got {text!r}")
    return found.group(1), int(found.group(2))


def _is_at(use: CollectiveUse, file: str, line: int) -> bool:
    return use.source.line == line and f"/{use.source.file}".endswith(f"/{file}")


def _listing(found: list[CollectiveUse]) -> str:
    if not found:
        return "no collectives"
    head = ["collective", "sent/device", "calls", "time", "cause", "since", "where"]
    rows = [head]
    for use in found:
        time = "-" if use.seconds is None else seconds_text(use.seconds)
        where = f"{use.value} ({use.source})"
        since = use.tactic or "-"
        sent = bytes_text(use.bytes)
        rows.append([use.id, sent, str(use.times), time, use.cause, since, where])
    return "\n".join(aligned(rows))
