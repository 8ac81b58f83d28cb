"""Gradients: the way back through something that the program already does."""

from __future__ import annotations

from typing import Any

import jax

from partir.fuzz.programs.draft import Draft, NoFit


def backward(draft: Draft) -> None:
    """The cotangents of an earlier step's floats."""
    found = [
        node
        for node in draft.nodes
        if len(node.results) == 1
        and node.operands
        and all(draft.values[v].is_float for v in (*node.operands, *node.results))
    ]
    if not found:
        raise NoFit
    node = draft.rng.choice(found)
    result = draft.values[node.results[0]]
    cotangent = draft.like(result.shape, result.dtype)

    def apply(ct: Any, *operands: Any) -> Any:
        return jax.vjp(node.fn, *operands)[1](ct)

    draft.do(apply, cotangent, *(draft.values[v] for v in node.operands))


SHARES = {backward: 3.0}
