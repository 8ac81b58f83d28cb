"""Gradients: the way back through something that the program already does."""

from __future__ import annotations

from typing import Any

import jax

from partir.fuzz.programs.sketch import NoFit, Sketch


def backward(sketch: Sketch) -> None:
    """The cotangents of an earlier step's floats."""
    found = [
        node
        for node in sketch.nodes
        if len(node.results) == 1
        and node.operands
        and all(sketch.values[v].is_float for v in (*node.operands, *node.results))
    ]
    if not found:
        raise NoFit
    node = sketch.rng.choice(found)
    result = sketch.values[node.results[0]]
    cotangent = sketch.like(result.shape, result.dtype)

    def apply(ct: Any, *operands: Any) -> Any:
        return jax.vjp(node.fn, *operands)[1](ct)

    sketch.do(apply, cotangent, *(sketch.values[v] for v in node.operands))


SHARES = {backward: 3.0}
