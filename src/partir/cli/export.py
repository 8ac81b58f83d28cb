"""`partir export`: the device-local program, its timeline or layouts, into files."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from partir.api.partitioned import Partitioned
from partir.cli.sources import partition_arguments, require_device
from partir.errors import PartitionError
from partir.files import write_whole


def run_export(args: Namespace) -> None:
    """Write StableHLO, a timeline, traces or layouts; nothing is left half-written."""
    if args.to in ("perfetto", "chakra"):
        require_device(args, f"--to {args.to}")
    if args.to == "chakra" and args.output == "-":
        raise PartitionError(
            "--to chakra writes a file for each rank: say -o PREFIX for PREFIX.0.et, …"
        )
    partitioned = partition_arguments(args)
    counts = ", ".join(
        f"{n} {kind}" for kind, n in partitioned.collectives.items() if n
    )
    if args.to == "chakra":
        written = _write_traces(partitioned, args.output)
    elif args.output == "-":
        sys.stdout.buffer.write(_data(partitioned, args))
        return
    else:
        write_whole(args.output, _data(partitioned, args))
        written = args.output
    print(f"wrote {written}: {counts or 'no collectives'}", file=sys.stderr)


def _data(partitioned: Partitioned, args: Namespace) -> bytes:
    if args.to == "perfetto":
        return partitioned.estimate.perfetto().encode()
    if args.to == "specs":
        return (json.dumps(partitioned.specs_json(), indent=1) + "\n").encode()
    bytecode = partitioned.stablehlo_bytecode()  # also has MLIR check the module
    return bytecode if args.bytecode else partitioned.stablehlo().encode()


def _write_traces(partitioned: Partitioned, prefix: str) -> str:
    """A file for each rank, and one that says which ranks a group has."""
    traces, ranks = partitioned.chakra(), partitioned.mesh.size
    for rank in range(ranks):
        write_whole(f"{prefix}.{rank}.et", traces.rank(rank))
    write_whole(f"{prefix}.groups.json", traces.groups_json() + "\n")
    return f"{prefix}.0.et to {prefix}.{ranks - 1}.et and {prefix}.groups.json"
