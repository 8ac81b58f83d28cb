"""`partir export`: the device-local program, or its timeline, into a file."""

from __future__ import annotations

import sys
from argparse import Namespace

from partir.cli.sources import partition_arguments, require_device
from partir.files import write_whole


def run_export(args: Namespace) -> None:
    """Write StableHLO or a timeline; nothing is left half-written."""
    if args.to == "perfetto":
        require_device(args, "--to perfetto")
    partitioned = partition_arguments(args)
    if args.to == "perfetto":
        data = partitioned.estimate.perfetto().encode()
    else:
        data = partitioned.stablehlo_bytecode()  # also has MLIR check the module
        if not args.bytecode:
            data = partitioned.stablehlo().encode()
    if args.output == "-":
        sys.stdout.buffer.write(data)
        return
    write_whole(args.output, data)
    counts = ", ".join(
        f"{n} {kind}" for kind, n in partitioned.collectives.items() if n
    )
    print(f"wrote {args.output}: {counts or 'no collectives'}", file=sys.stderr)
