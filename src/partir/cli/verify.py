"""`partir verify`: prove the device-local program against the model."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from partir.cli.sources import partition_arguments
from partir.errors import PartitionError
from partir.verify import Proof


def run_verify(args: Namespace) -> int:
    """Print what is proved; 1 if something is wrong or not proved."""
    module = None if args.module is None else _read(args.module)
    proof = partition_arguments(args).proof(module)
    print(json.dumps(_as_json(proof), indent=1) if args.json else proof)
    return 1 if proof.not_proved else 0


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
