"""Parsing modules in shared contexts: making one takes milliseconds."""

from __future__ import annotations

from typing import Any

from jax.extend.mlir import ir
from jax.interpreters import mlir as jax_mlir

_MODULES = 300  # for one context, which keeps every type and attribute it has seen


class _Contexts:
    def __init__(self) -> None:
        self.context: Any = None
        self.left = 0

    def take(self) -> Any:
        if not self.left:
            self.context, self.left = jax_mlir.make_ir_context(), _MODULES
            self.context.enable_multithreading(False)  # which a fork would not survive
        self.left -= 1
        return self.context


_contexts = _Contexts()


def parsed(text: str) -> Any:
    """A module of one's own; what is wrong with its text is MLIR's error."""
    return ir.Module.parse(text, _contexts.take())
