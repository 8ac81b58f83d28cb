"""Which collectives a command lists: by value, module, line, kind, cost."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable

from partir.errors import PartitionError
from partir.explain.expectations import BYTES
from partir.explain.listing import CollectiveUse
from partir.partition.patterns import matcher


def add_filters(command: ArgumentParser) -> None:
    """Options that choose among collectives."""
    listed = command.add_argument_group("which collectives are listed")
    listed.add_argument(
        "--value", metavar="PATTERN", help="those that move such values"
    )
    listed.add_argument("--scope", metavar="PATTERN", help="those of a module path")
    listed.add_argument("--line", metavar="FILE:N", help="those of a source line")
    listed.add_argument("--kind", help="those of a kind, as all_gather")
    listed.add_argument(
        "--least",
        metavar="BYTES",
        type=_bytes,
        default=0,
        help="those that send as much, as 4096 or 16MiB",
    )


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", text)
    if found is None or (found[2] and found[2] not in BYTES):
        raise ArgumentTypeError(f"a size such as 4096 or 16MiB is needed, got {text!r}")
    return int(float(found[1]) * BYTES.get(found[2], 1))


def selected(
    uses: Iterable[CollectiveUse], args: Namespace
) -> tuple[CollectiveUse, ...]:
    """Those that the options choose."""
    value = matcher(args.value) if args.value else None
    scope = matcher(args.scope) if args.scope else None
    line = _line(args.line) if args.line else None
    return tuple(
        use
        for use in uses
        if (value is None or value.fullmatch(use.value))
        and (scope is None or scope.fullmatch(use.source.scope))
        and (line is None or _is_at(use, *line))
        and args.kind in (None, use.kind)
        and use.bytes >= args.least
    )


def _line(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.+):(\d+)", text)
    if found is None:
        raise PartitionError(f"--line is written as model.py:42, got {text!r}")
    return found.group(1), int(found.group(2))


def _is_at(use: CollectiveUse, file: str, line: int) -> bool:
    return use.source.line == line and f"/{use.source.file}".endswith(f"/{file}")
