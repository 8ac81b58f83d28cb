"""Reading StableHLO modules from files, text or bytes."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from partir.errors import PartitionError
from partir.frontend.stablehlo import import_module, parse_module
from partir.ir.core import Port, Program


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
    builder = import_module(parse_module(_read(source)))
    assert builder.body is not None
    types = builder.types
    arguments = [
        Port(name, value, len(types[value].shape), types[value].dtype)
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
            types[value].dtype,
        )
        for number, value in enumerate(builder.body.results)
    ]
    return builder.finish(arguments, results)


def _read(source: str | bytes | os.PathLike[str]) -> str | bytes:
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return source
    if not isinstance(source, bytes):
        path = Path(source)
        try:
            source = path.read_bytes()
        except OSError as error:
            raise PartitionError(f"can't read {path}: {error.strerror}") from None
    if source[:2] == b"\x1f\x8b":
        try:
            source = gzip.decompress(source)
        except (OSError, EOFError) as error:
            raise PartitionError(f"not a gzipped StableHLO module: {error}") from None
    if source[:4] == b"ML\xefR":
        return source
    try:
        return source.decode()
    except UnicodeDecodeError:
        raise PartitionError(
            "not a StableHLO module: neither MLIR text nor MLIR bytecode"
        ) from None
