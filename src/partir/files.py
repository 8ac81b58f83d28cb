"""Writing files whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import get_ident

from partir.errors import PartitionError

FilePath = str | os.PathLike[str]


def write_whole(path: FilePath, content: str | bytes) -> None:
    """Write a file; what was there stays if that fails."""
    write_all([(path, content)])


def write_all(files: Iterable[tuple[FilePath, str | bytes]]) -> None:
    """Write all of these files; if one can't be written, none is.

    A link stays one. What is no file (a pipe, `/dev/null`) is written to, not replaced.
    """
    parts: list[tuple[Path, Path]] = []
    target = Path()
    streams: list[tuple[Path, bytes]] = []
    try:
        for path, content in files:
            target = Path(path)
            require_writable(target)
            data = content.encode() if isinstance(content, str) else content
            if target.exists() and not target.is_file():
                streams.append((target, data))  # a device or a pipe: no file to replace
                continue
            target = Path(os.path.realpath(target))  # what a link leads to
            # Another process or thread may write the same file at the same time.
            part = target.with_name(f"{target.name}.{os.getpid()}-{get_ident()}.part")
            parts.append((part, target))
            part.write_bytes(data)
        for target, data in streams:
            target.write_bytes(data)
        for part, target in parts:
            part.replace(target)
    except OSError as error:
        raise PartitionError(f"can't write {target}: {error.strerror}") from None
    finally:
        for part, _ in parts:
            with suppress(OSError):
                part.unlink()


def require_writable(path: FilePath) -> None:
    """Say that a file can't be written before there is anything to write."""
    target = Path(path)
    number = None
    if target.is_dir():
        number = errno.EISDIR
    elif not target.parent.is_dir():
        number = errno.ENOTDIR if target.parent.exists() else errno.ENOENT
    elif not os.access(target if target.exists() else target.parent, os.W_OK):
        number = errno.EACCES
    if number is not None:
        raise PartitionError(f"can't write {target}: {os.strerror(number)}")
