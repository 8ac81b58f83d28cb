"""Patterns of tiled dimensions: our cost beside that of XLA's own partitioner.

    python -m benchmarks.patterns [--only NAME ...] [--held-out] [--check]

Each pattern is a function, forward and with its gradient, whose arguments are tiled
over eight devices. Both partitioners get the same layouts of arguments and gradients;
bytes that a device sends and its floating-point operations are read off the compiled
programs.

A third of the patterns, by a hash of their names, is held out: ``--held-out`` shows
these alone, so that what was built by looking at the others can be judged. ``--check``
runs all of them against one device and shows no costs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

FLAG = "--xla_force_host_platform_device_count=8"
if FLAG not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}".strip()

from benchmarks.patterns.catalogue import PATTERNS  # noqa: E402
from benchmarks.patterns.compare import Case, Comparison  # noqa: E402
from benchmarks.patterns.pattern import Pattern  # noqa: E402

TOLERANCE = 1e-4


def line(name: str, found: Comparison) -> str:
    """One pattern's figures."""
    ours, xla = found.ours, found.xla
    return (
        f"{'worse' if found.worse else 'ok   '} {name}: "
        f"sent {ours.bytes:,} B beside {xla.bytes:,} "
        f"({ours.bytes / max(xla.bytes, 1):.2f}x), "
        f"{ours.flops / 1e6:.2f} Mflop beside {xla.flops / 1e6:.2f} "
        f"({ours.flops / max(xla.flops, 1):.2f}x), "
        f"work {found.work:.2f}, whole ops {found.whole}"
    )


def compare(patterns: list[Pattern]) -> int:
    """Print a line for each; how many cost more than with XLA."""
    worse = 0
    for pattern in patterns:
        try:
            found = Case(pattern).compare()
        except Exception as error:  # one that fails must not hide the others
            worse += 1
            print(f"FAILS {pattern.name}: {error}", flush=True)
            continue
        worse += found.worse
        print(line(pattern.name, found), flush=True)
    print(f"{worse} of {len(patterns)} cost more than with XLA's own partitioner")
    return 0


def check(patterns: list[Pattern]) -> int:
    """Print what differs from one device."""
    wrong = [p.name for p in patterns if not Case(p).largest_error() < TOLERANCE]
    for name in wrong:
        print(f"{name} differs from one device")
    print(f"{len(patterns) - len(wrong)} of {len(patterns)} agree with one device")
    return 1 if wrong else 0


def chosen(options: argparse.Namespace) -> Iterator[Pattern]:
    """Patterns that the command line asks for."""
    for name, pattern in PATTERNS.items():
        wanted = not options.only or any(part in name for part in options.only)
        if wanted and (options.check or pattern.held_out == options.held_out):
            yield pattern


def main(argv: list[str] | None = None) -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description="Patterns of tiled dimensions.")
    parser.add_argument("--only", nargs="+", help="parts of names")
    parser.add_argument("--held-out", action="store_true", help="those, and no others")
    parser.add_argument("--check", action="store_true", help="run; show no costs")
    options = parser.parse_args(argv)
    patterns = list(chosen(options))
    if not patterns:
        print("no such pattern is shown; there are", ", ".join(PATTERNS))
        return 2
    return check(patterns) if options.check else compare(patterns)


if __name__ == "__main__":
    sys.exit(main())
