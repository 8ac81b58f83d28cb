"""`partir export`: the device-local program, its timeline or layouts, into files."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from partir.api.partitioned import Partitioned
from partir.cli.sources import partition_arguments, require_device
from partir.errors import PartitionError
from partir.files import require_writable, write_all, write_whole


def add_export_arguments(export: ArgumentParser) -> None:
    """What is written, and where to."""
    export.add_argument(
        "--to",
        choices=["stablehlo", "perfetto", "chakra", "specs"],
        default="stablehlo",
        help="the program; with --device, its simulated timeline as a trace or as "
        "Chakra execution traces, a file for each rank; layouts as JSON",
    )
    export.add_argument(
        "-o", "--output", default="-", help="file to write (- for standard output)"
    )
    export.add_argument(
        "--bytecode", action="store_true", help="MLIR bytecode instead of text"
    )
    export.add_argument(
        "--json", action="store_true", help="say what was written as JSON (with -o)"
    )
    export.set_defaults(run_command=run_export)


def run_export(args: Namespace) -> None:
    """Write StableHLO, a timeline, traces or layouts; nothing is left half-written."""
    if args.to in ("perfetto", "chakra"):
        require_device(args, f"--to {args.to}")
    if args.output == "-":
        _require_file(args)
    else:
        require_writable(args.output if args.to != "chakra" else f"{args.output}.0.et")
    partitioned = partition_arguments(args)
    if args.output == "-":
        sys.stdout.buffer.write(_data(partitioned, args))
        return
    if args.to == "chakra":
        files = _write_traces(partitioned, args.output)
    else:
        write_whole(args.output, _data(partitioned, args))
        files = [args.output]
    _tell(partitioned, files, args)


def _require_file(args: Namespace) -> None:
    if args.to == "chakra":
        raise PartitionError(
            "--to chakra writes a file for each rank: say -o PREFIX for PREFIX.0.et, …"
        )
    if args.json:
        raise PartitionError("--json says what was written: say -o FILE")


def _tell(partitioned: Partitioned, files: list[str], args: Namespace) -> None:
    counts = {kind: n for kind, n in partitioned.collectives.items() if n}
    if args.json:
        print(json.dumps({"files": files, "collectives": counts}, indent=1))
        return
    shown = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    if len(files) > 1:
        files = [f"{files[0]} to {files[-2]}", files[-1]]
    print(f"wrote {' and '.join(files)}: {shown or 'no collectives'}", file=sys.stderr)


def _data(partitioned: Partitioned, args: Namespace) -> bytes:
    if args.to == "perfetto":
        return partitioned.estimate.perfetto().encode()
    if args.to == "specs":
        return (json.dumps(partitioned.specs_json(), indent=1) + "\n").encode()
    bytecode = partitioned.stablehlo_bytecode()  # also has MLIR check the module
    return bytecode if args.bytecode else partitioned.stablehlo().encode()


def _write_traces(partitioned: Partitioned, prefix: str) -> list[str]:
    """A file for each rank, and one that says which ranks a group has."""
    traces, ranks = partitioned.chakra(), partitioned.mesh.size
    names = [*(f"{prefix}.{rank}.et" for rank in range(ranks)), f"{prefix}.groups.json"]
    groups = traces.groups_json() + "\n"
    contents = (groups if r == ranks else traces.rank(r) for r in range(ranks + 1))
    write_all(zip(names, contents, strict=True))
    return names
