"""`partir explain`: why a value is tiled so, why a collective is there."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from partir.cli.filters import add_filters, selected
from partir.cli.sources import partition_arguments, terminal_width
from partir.columns import aligned, bytes_text, seconds_text
from partir.explain.listing import CollectiveUse


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
    add_filters(explain)
    explain.add_argument("--json", action="store_true", help="the same as JSON")
    explain.set_defaults(run_command=run_explain, late="name")


def run_explain(args: Namespace) -> None:
    """Print an explanation, or the list of collectives."""
    partitioned = partition_arguments(args)
    if args.name is None:
        found = sorted(
            selected(partitioned.collective_list, args), key=lambda one: -one.bytes
        )
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
    return "\n".join(aligned(rows, terminal_width()))
