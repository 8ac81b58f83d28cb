"""What is a finite number for certain, whatever the inputs."""

from __future__ import annotations

from partir.verify.classes import Classes

_DEPTH = 12
_KEEPS = frozenset({"at", "picked", "merged"}) | frozenset(
    "stablehlo." + name
    for name in (
        "negate abs select maximum minimum floor ceil round_nearest_even concatenate "
        "slice dynamic_slice gather pad dynamic_update_slice"
    ).split()
)


def is_finite(classes: Classes, node: int, depth: int = _DEPTH) -> bool:
    """Integers, constants, booleans as floats, and what only moves or chooses such."""
    term = classes.terms[node]
    if term.dtype[0] in "iu":
        return True
    if term.kind == "constant":
        return all(word not in str(term.attrs).lower() for word in ("nan", "inf", "0x"))
    if term.kind == "stablehlo.convert":
        small = classes.terms[term.refs[0].node].dtype in ("i1", "i8", "ui8")
        return small and term.dtype in ("f16", "bf16", "f32", "f64")
    if depth and term.kind in _KEEPS:
        return all(is_finite(classes, ref.node, depth - 1) for ref in term.refs)
    return False
