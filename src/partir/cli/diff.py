"""`partir diff`: two partitions side by side."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import replace

import partir
from partir.cli.filters import add_filters, selected
from partir.cli.sources import partition_arguments
from partir.errors import PartitionError


def add_diff_arguments(diff: ArgumentParser) -> None:
    """What the second partition has of its own."""
    other = diff.add_argument_group("the second partition, where it differs")
    other.add_argument("--against", metavar="SCHED", help="another schedule")
    other.add_argument("--against-model", metavar="MODEL", help="another model")
    other.add_argument("--against-mesh", metavar="MESH", help="another mesh")
    other.add_argument("--against-device", metavar="NAME", help="another device")
    add_filters(diff)
    diff.add_argument("--json", action="store_true", help="the same as JSON")
    diff.set_defaults(run_command=run_diff)


def run_diff(args: Namespace) -> None:
    """Print what changes from the first partition to the second."""
    said = {
        "schedule": args.against,
        "model": args.against_model,
        "mesh": args.against_mesh,
        "device": args.against_device,
    }
    changed = {name: value for name, value in said.items() if value is not None}
    if not changed:
        raise PartitionError(
            "diff needs something to compare with: --against SCHED, --against-model, "
            "--against-mesh or --against-device"
        )
    first = partition_arguments(args)
    second = partition_arguments(Namespace(**{**vars(args), **changed}))
    found = partir.diff(first, second)
    found = replace(
        found, lost=selected(found.lost, args), gained=selected(found.gained, args)
    )
    print(json.dumps(found.to_json(), indent=1) if args.json else found)
