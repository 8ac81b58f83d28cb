"""What normal forms make of jax functions, and whether numbers stay as they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import partir
from partir.fuzz.edit import source_text
from partir.fuzz.meaning.evaluate import evaluate
from partir.ir.core import Program


def normal(
    function: Callable[..., Any], *args: np.ndarray, zeros_alike: bool = False
) -> Program:
    """The program in normal form, which computes the same to the bit."""
    program = partir.trace(function, *args)
    text = jax.jit(function, keep_unused=True).lower(*args).as_text()
    want = evaluate(text, args)
    got = evaluate(source_text(program), args)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
        if a.dtype.kind == "f" and not zeros_alike:
            np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
    return program


def kinds(program: Program, *left_out: str) -> dict[str, int]:
    """How many ops of each kind, constants apart."""
    names = (op.signature.name for op in program.ops)
    return dict(Counter(n for n in names if n not in ("constant", *left_out)))
