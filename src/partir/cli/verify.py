"""`partir verify`: prove the device-local program against the model."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from partir.cli.execution import Compared, compare_runs, start_devices
from partir.cli.sources import partition_arguments
from partir.errors import PartitionError
from partir.mesh import Mesh
from partir.verify import Proof


def add_verify_arguments(verify: ArgumentParser) -> None:
    """What is proved, and whether it is run too."""
    verify.add_argument(
        "--module",
        metavar="FILE",
        help="a device-local module in place of the one that is made",
    )
    verify.add_argument(
        "--run",
        action="store_true",
        help="also run it on virtual devices, on random numbers, and compare with one",
    )
    verify.add_argument("--json", action="store_true", help="the result as JSON")
    verify.set_defaults(run_command=run_verify)


def run_verify(args: Namespace) -> int:
    """Print what is proved; 1 if something is wrong, not proved or differs."""
    if args.module is not None and args.run:
        raise PartitionError("--run runs the module that is made: leave --module out")
    if args.run and args.mesh is not None:
        start_devices(Mesh.parse(args.mesh))
    module = None if args.module is None else _read(args.module)
    partitioned = partition_arguments(args)
    proof = partitioned.proof(module)
    ran = compare_runs(partitioned) if args.run else ()
    if args.json:
        compared = {"run": [one.to_json() for one in ran]} if args.run else {}
        print(json.dumps(_as_json(proof) | compared, indent=1))
    else:
        print("\n".join([str(proof), *_ran(ran)]))
    apart = [one for one in ran if not one.agrees]
    return 1 if proof.not_proved or apart else 0


def _ran(compared: Sequence[Compared]) -> list[str]:
    if not compared:
        return []
    apart = [f"  {one}" for one in compared if not one.agrees]
    worst = max(one.difference for one in compared)
    same = len(compared) - len(apart)
    return [
        f"{same} of {len(compared)} results agree with one device, up to {worst:.1e}",
        *apart,
    ]


def _read(path: str) -> bytes | str:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise PartitionError(f"--module {path}: {error.strerror}") from None
    if data.startswith(b"ML\xefR"):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise PartitionError(f"--module {path} is no StableHLO module") from None


def _as_json(proof: Proof) -> dict[str, Any]:
    return {
        "proved": list(proof.proved),
        "not_proved": [
            {
                "result": one.result,
                "reason": one.reason,
                "where": one.where,
                "disproved": one.disproved,
            }
            for one in proof.not_proved
        ],
        "seconds": proof.seconds,
    }
