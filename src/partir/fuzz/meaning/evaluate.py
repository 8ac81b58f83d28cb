"""Running a one-device module: interpreted if it can be, else compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from partir.execute.module import Module, call_module
from partir.execute.types import jax_struct
from partir.fuzz.meaning.interpret import (
    argument_types,
    can_interpret,
    interpret,
    result_types,
)
from partir.fuzz.meaning.parsing import parsed


def is_interpreted(text: str) -> bool:
    """Whether `evaluate` computes op by op."""
    return can_interpret(parsed(text))


def evaluate(source: str | Any, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results of `main`, as numpy computes; a parsed module is used up."""
    module = parsed(source) if isinstance(source, str) else source
    if can_interpret(module):
        return interpret(module, args)
    return compiled(str(module), args)


def compiled(text: str, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same, by XLA on one device."""
    return runnable(text)(args)


def runnable(text: str) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """`main`, by XLA on one device; compiled at the first call, and kept."""
    outs = [jax_struct(type_) for type_ in result_types(parsed(text))]
    takes = [jax_struct(type_) for type_ in argument_types(parsed(text))]
    module = Module(text)
    jitted = jax.jit(lambda *given: call_module(module, outs, *given), keep_unused=True)

    def run(args: Sequence[np.ndarray]) -> list[np.ndarray]:
        args = [a.astype(t.dtype) for a, t in zip(args, takes, strict=True)]
        with jax.enable_x64(True):
            return [exactly(np.asarray(made)) for made in jitted(*args)]

    return run


def exactly(array: np.ndarray) -> np.ndarray:
    """The same numbers in a type that numpy computes in."""
    if array.dtype.kind in "biu":
        return array
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    small = str(array.dtype).startswith(("int", "uint"))
    return array.astype(np.int8 if small else np.float64)
