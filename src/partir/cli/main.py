"""Arguments of the command line, and errors as one clear line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from partir import __version__
from partir.cli.calibrate import add_calibrate
from partir.cli.completion import add_completion_arguments
from partir.cli.demo import run_demo
from partir.cli.devices import add_devices
from partir.cli.diff import add_diff_arguments
from partir.cli.explain import add_explain_arguments
from partir.cli.export import add_export_arguments
from partir.cli.fuzz import add_fuzz
from partir.cli.search import add_search_arguments
from partir.cli.show import add_show_arguments
from partir.cli.sources import at_least_one
from partir.cli.suggest import add_suggest_arguments
from partir.cli.verify import add_verify_arguments
from partir.errors import PartirError

_MODEL_HELP = (
    "a StableHLO file (text, bytecode, gzipped), or file.py:function with "
    "example_args() in that file returning (args, kwargs) of arrays or "
    "jax.ShapeDtypeStructs, and optionally donate_argnums and carry as partir.jit "
    "takes them"
)
_SCHEDULE_HELP = "a Python file with `schedule = [...]`, or a saved schedule"


_Commands = Any  # argparse's own type for them is private


class _Parser(argparse.ArgumentParser):
    """Mistakes in the command line are one line too."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to read more."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0, 1 if what it checks is not so, 2 with one line on bad input."""
    args = _parsed(argv)
    try:
        return args.run_command(args) or 0
    except PartirError as error:
        line = " ".join(str(error).split())
        print(f"partir: {line}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `partir show ... | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("partir: interrupted", file=sys.stderr)
        return 130


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """Arguments; argparse itself takes no optional one behind options."""
    parser = command_line()
    args, rest = parser.parse_known_args(argv)
    late = getattr(args, "late", None)
    if late and len(rest) == 1 and rest[0][0] != "-" and getattr(args, late) is None:
        setattr(args, late, rest.pop())
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def command_line() -> argparse.ArgumentParser:
    """All commands with their options."""
    parser = _Parser(
        prog="partir",
        description="Partition JAX and StableHLO programs over meshes of devices "
        "with a schedule of tactics.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_show(commands)
    _add_explain(commands)
    _add_diff(commands)
    _add_suggest(commands)
    _add_search(commands)
    _add_export(commands)
    _add_verify(commands)
    add_devices(commands)
    add_calibrate(commands)
    add_fuzz(commands)
    _add_completion(commands)
    return parser


def _add_demo(commands: _Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="the whole story on a small transformer over 8 virtual devices",
        description="Partition a small transformer's training step over 8 virtual CPU "
        "devices, print the table after each tactic, run it, and compare with one "
        "device.",
    )
    demo.add_argument(
        "--layers", type=at_least_one, default=2, help="layers of the model (2)"
    )
    demo.add_argument(
        "--steps", type=at_least_one, default=3, help="training steps to run (3)"
    )
    demo.add_argument("--json", action="store_true", help="the result as JSON")
    demo.set_defaults(run_command=run_demo)


def _add_show(commands: _Commands) -> None:
    show = commands.add_parser(
        "show",
        help="what each tactic does: the per-tactic table, names, Core, SPMD",
        description="Partition a model without any device and show what each tactic "
        "did.",
    )
    _add_model(show)
    add_show_arguments(show)


def _add_explain(commands: _Commands) -> None:
    explain = commands.add_parser(
        "explain",
        help="why a value is tiled so, why a collective is there, and what would help",
        description="Say which decisions led to the layout of a value, where tiling "
        "stopped, or who needs a collective since which tactic and what it costs; try "
        "what would help, and say what that does to time and memory.",
    )
    _add_model(explain)
    add_explain_arguments(explain)


def _add_diff(commands: _Commands) -> None:
    diff = commands.add_parser(
        "diff",
        help="two partitions side by side: layouts, collectives, time, memory",
        description="Partition twice, with another schedule, model, mesh or device "
        "the second time, and show what changes.",
    )
    _add_model(diff)
    add_diff_arguments(diff)


def _add_suggest(commands: _Commands) -> None:
    suggest = commands.add_parser(
        "suggest",
        help="the next best actions over an axis, each tried",
        description="Try every decision that could come next over an axis, on its "
        "own, and show the best as tactics with time and memory.",
    )
    _add_model(suggest)
    add_suggest_arguments(suggest)


def _add_completion(commands: _Commands) -> None:
    completion = commands.add_parser(
        "completion",
        help="a script that completes commands and options in your shell",
        description="Print a script for a shell: source it, or put it where the shell "
        "looks for completions.",
    )
    add_completion_arguments(completion, commands.choices)


def _add_search(commands: _Commands) -> None:
    search = commands.add_parser(
        "search",
        help="find a schedule automatically, and write it as Python",
        description="Search for the fastest partition that fits in memory, without "
        "any device, and show it as manual tactics with reasons. With --schedule, "
        "those tactics come first.",
    )
    _add_model(search)
    add_search_arguments(search)


def _add_export(commands: _Commands) -> None:
    export = commands.add_parser(
        "export",
        help="the device-local program as StableHLO, or its timeline as a trace",
        description="Write the device-local program with its collectives, or the "
        "simulated timeline of a step for a trace viewer (ui.perfetto.dev).",
    )
    _add_model(export)
    add_export_arguments(export)


def _add_verify(commands: _Commands) -> None:
    verify = commands.add_parser(
        "verify",
        help="prove that the device-local program computes what the model does",
        description="Partition a model without any device, read the device-local "
        "program back and prove it against the model. Exit code 1 if a result is "
        "wrong, can't be proved or, with --run, differs.",
    )
    _add_model(verify)
    add_verify_arguments(verify)


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=_MODEL_HELP)
    command.add_argument("--mesh", help="axes and sizes, as B=4,M=2")
    command.add_argument("--schedule", metavar="SCHED", help=_SCHEDULE_HELP)
    command.add_argument(
        "--device",
        help="device for estimates: a name from `partir devices`, or a .toml file",
    )
    command.add_argument(
        "--strict",
        action="store_true",
        help="fail if an op is computed whole because tiling stopped",
    )
