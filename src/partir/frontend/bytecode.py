"""Text -> bytecode, through MLIR's parser and verifier."""

from __future__ import annotations

import io

from partir.frontend.parsing import parse_module


def to_bytecode(text: str) -> bytes:
    """MLIR bytecode of a module; raises if MLIR does not accept it."""
    module = parse_module(text)
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()
