"""Writing files whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from partir.errors import PartitionError


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file; what was there stays if that fails."""
    target = Path(path)
    part = target.with_name(target.name + ".part")
    data = content.encode() if isinstance(content, str) else content
    try:
        part.write_bytes(data)
        part.replace(target)
    except OSError as error:
        raise PartitionError(f"can't write {target}: {error.strerror}") from None
