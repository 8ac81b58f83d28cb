"""Reading StableHLO modules from files, text or bytes."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

from partir.errors import PartirError, PartitionError
from partir.frontend.parsing import parse_foreign_module
from partir.frontend.stablehlo import import_module
from partir.ir.core import Port, Program
from partir.ir.types import numpy_name


def load(source: str | bytes | os.PathLike[str]) -> Program:
    """Read a StableHLO module: a path, text, bytecode, or either of them gzipped.

    Args:
        source: a path to a file, or the module itself as text or bytes.

    Returns:
        The program; its arguments are named arg0, arg1, … unless the module has names.

    Example:
        >>> program = load('''
        ... func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        ...   %0 = stablehlo.add %x, %x : tensor<4xf32>
        ...   return %0 : tensor<4xf32>
        ... }''')
        >>> [port.name for port in program.arguments]
        ['arg0']
    """
    try:
        builder = import_module(parse_foreign_module(_read(source)))
    except PartitionError as error:
        raise PartitionError(_shown(source) + str(error)) from None
    except RecursionError:
        raise PartitionError(
            f"{_shown(source)}calls or regions are nested too deeply to be read"
        ) from None
    except Exception as error:
        raise PartirError(
            f"{_shown(source)}the module is valid MLIR, but can't be read: "
            f"{type(error).__name__}: {error}"
        ) from error
    assert builder.body is not None
    types = builder.types
    arguments = [
        Port(name, value, len(types[value].shape), numpy_name(types[value].dtype))
        for name, value in zip(
            builder.argument_names, builder.body.arguments, strict=True
        )
    ]
    count = len(builder.body.results)
    results = [
        Port(
            "out" if count == 1 else f"out/{number}",
            value,
            len(types[value].shape),
            numpy_name(types[value].dtype),
        )
        for number, value in enumerate(builder.body.results)
    ]
    return builder.finish(arguments, results)


def _is_text(source: object) -> bool:
    """Whether this is a module itself rather than a path."""
    return isinstance(source, str) and ("\n" in source or "{" in source)


def _shown(source: object) -> str:
    path = isinstance(source, str | os.PathLike) and not _is_text(source)
    return f"{source}: " if path else ""


def _read(source: str | bytes | os.PathLike[str]) -> str | bytes:
    if not isinstance(source, str | bytes | os.PathLike):
        raise PartitionError(
            "load takes a path, or a StableHLO module as text or bytes; got a "
            f"{type(source).__name__}"
        )
    if isinstance(source, str) and _is_text(source):
        _require_encodable(source)
        return source
    if not isinstance(source, bytes):
        try:
            source = Path(source).read_bytes()
        except OSError as error:
            raise PartitionError(f"can't be read: {error.strerror}") from None
        except ValueError as error:  # a path with a null byte, say
            raise PartitionError(f"can't be read: {error}") from None
    if source[:2] == b"\x1f\x8b":
        try:
            source = gzip.decompress(source)
        except (OSError, EOFError, zlib.error) as error:
            raise PartitionError(f"not a gzipped StableHLO module: {error}") from None
    if source[:4] == b"ML\xefR":
        return source
    try:
        return source.decode()
    except UnicodeDecodeError:
        raise PartitionError(
            "not a StableHLO module: neither MLIR text nor MLIR bytecode; "
            "jax.jit(fn).lower(...).as_text() gives such text"
        ) from None


def _require_encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PartitionError(f"not a StableHLO module: {error}") from None
