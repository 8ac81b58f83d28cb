"""Reducers with a flag beside their values, which says whether these count.

``(x, p), (y, q) -> f(x, y) if p and q, x if p, else y; p or q`` reduces as f does, and
what has no flag counts nothing: an initial value that is no identity, say.
"""

from __future__ import annotations

from typing import Any

from partir.ir.core import Lambda

_FLAGGING = frozenset(f"stablehlo.{name}" for name in ("and", "or", "select"))

Tree = tuple[Any, ...]  # an op with its attributes on trees, or an argument


def guards(guarded: Lambda, plain: Lambda) -> bool:
    """Whether a reducer is another one, with a flag behind its values."""
    count = len(plain.results)
    if len(guarded.arguments) != 2 * count + 2 or len(guarded.results) != count + 1:
        return False
    left, right = (
        [("argument", n) for n in range(first, first + count + 1)]
        for first in (0, count + 1)
    )
    *xs, p = left
    *ys, q = right
    made = _trees(plain, [*xs, *ys])
    both, either = ("stablehlo.and", (), p, q), ("stablehlo.or", (), p, q)
    wanted = [
        ("stablehlo.select", (), both, f, ("stablehlo.select", (), p, x, y))
        for f, x, y in zip(made, xs, ys, strict=True)
    ]
    return _trees(guarded, [*left, *right]) == [*wanted, either]


def _trees(reducer: Lambda, given: list[Tree]) -> list[Tree]:
    """What a reducer makes of its arguments."""
    known = dict(zip(reducer.arguments, given, strict=True))
    for op in reducer.ops:
        signature = op.signature
        attrs = tuple(sorted(signature.attrs.items()))
        # Those of the wanted tree have the types of their operands.
        types = () if signature.kind in _FLAGGING else signature.results
        key = (signature.kind, (*attrs, *signature.lambdas, *types))
        tree = (*key, *(known[value] for value in op.operands))
        for number, value in enumerate(op.results):
            several = len(op.results) > 1
            known[value] = ("result", number, tree) if several else tree
    return [known[value] for value in reducer.results]
