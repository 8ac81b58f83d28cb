"""`partir suggest`: the next best actions over an axis."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

import partir
from partir.cli.sources import at_least_one, partition_arguments, require_device
from partir.columns import bytes_text, seconds_text
from partir.tactics.schedule import tactic_text


def add_suggest_arguments(suggest: ArgumentParser) -> None:
    """Over which axis, and how many."""
    suggest.add_argument("--axis", required=True, help="the mesh axis to use")
    suggest.add_argument(
        "-k", type=at_least_one, default=5, help="how many suggestions (5)"
    )
    suggest.add_argument("--json", action="store_true", help="the same as JSON")
    suggest.set_defaults(run_command=run_suggest)


def run_suggest(args: Namespace) -> None:
    """Print suggestions, the best first, as tactics."""
    require_device(args, "suggest")
    found = partir.suggest(partition_arguments(args), args.axis, args.k)
    if args.json:
        print(json.dumps([one.to_json() for one in found], indent=1))
        return
    for one in found:
        fits = "" if one.fits else ", does not fit"
        time, peak = seconds_text(one.seconds), bytes_text(one.peak_bytes)
        print(f"# {time}, {peak} at the peak{fits}")
        print(tactic_text(one.tactic))
    if not found:
        print(f'nothing to decide over "{args.axis}"')
