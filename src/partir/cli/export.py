"""`partir export`: the device-local program into a file."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from partir.cli.sources import partition_arguments
from partir.errors import PartitionError


def run_export(args: Namespace) -> None:
    """Write StableHLO; nothing is left half-written."""
    partitioned = partition_arguments(args)
    data = partitioned.stablehlo_bytecode()  # also has MLIR check the module
    if not args.bytecode:
        data = partitioned.stablehlo().encode()
    if args.output == "-":
        sys.stdout.buffer.write(data)
        return
    target = Path(args.output)
    part = target.with_name(target.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(target)
    except OSError as error:
        raise PartitionError(f"can't write {target}: {error.strerror}") from None
    counts = ", ".join(
        f"{n} {kind}" for kind, n in partitioned.collectives.items() if n
    )
    print(f"wrote {target}: {counts or 'no collectives'}", file=sys.stderr)
