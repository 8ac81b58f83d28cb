"""Which residuals an opaque function saves, or resumes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from partir.frontend.opaque_residuals import Residuals, Resuming, Saving
from partir.frontend.opaque_transforms import Backward, Batched, Forward
from partir.ir.residual_pairs import Pair
from partir.ir.user_rule import WHOLE, DimNames, UserRule

Name = Callable[[Any], str]


def find_pairs(fn: Any, rule: UserRule, name: Name) -> Iterator[Pair]:
    """The pairs of a function with this rule; `name` names what makes a pair.

    Where the residuals are is known unless the function is a derivative of one that
    has them.
    """
    inner = fn
    while isinstance(inner, Batched):
        inner = inner.fn
    for number, pair in enumerate(_pairs(fn, rule.operands, set(rule.names), name)):
        first = number == 0 and isinstance(inner, Saving | Resuming)
        yield replace(pair, positions=_positions(inner, rule)) if first else pair


def _positions(fn: Saving | Resuming, rule: UserRule) -> tuple[int, ...]:
    """Residuals are a forward call's last results; a backward call reads them."""
    count = len(fn.saved.places)
    if isinstance(fn, Saving):
        end = len(rule.operands) + len(rule.results)
    else:
        end = len(fn.wanted) + len(fn.saved.results) + count
    return tuple(range(end - count, end))


def _pairs(
    fn: Any, operands: Sequence[DimNames], known: set[str], name: Name
) -> Iterator[Pair]:
    """Pairs of a function whose operands have these dimensions, the outermost first.

    What a derivative takes begins with what the function takes.
    """
    if isinstance(fn, Batched):
        batch, rest = _without_batch(fn, operands)
        for pair in _pairs(fn.fn, rest, known - {batch}, name):
            more = () if _is_shared(fn) else (batch,)
            yield replace(pair, names=(*pair.names, *more))
        return
    if isinstance(fn, Saving | Resuming) and fn.saved.places:
        key = name((fn.fn, fn.wanted, fn.saved))
        yield Pair(key, _names(fn.saved, known), ())
    if isinstance(fn, Saving | Resuming | Forward | Backward):
        yield from _pairs(fn.fn, operands, known, name)


def _is_shared(fn: Batched) -> bool:
    """Whether all examples resume from the same residuals: a Jacobian's rows."""
    inner = fn.fn
    if not isinstance(inner, Resuming):
        return False
    first = len(inner.wanted) + len(inner.saved.results)
    residuals = fn.axes[first : first + len(inner.saved.places)]
    return all(axis is None for axis in residuals)


def _names(saved: Residuals, known: set[str]) -> tuple[str, ...]:
    """Names of the residuals, `_` for those that a derivative keeps whole."""
    found = dict.fromkeys(n for dims in saved.dims for n in dims if n != WHOLE)
    return tuple(n if n in known else WHOLE for n in found)


def _without_batch(
    fn: Batched, operands: Sequence[DimNames]
) -> tuple[str, list[DimNames]]:
    """The name of the batch dimension, and the dimensions of one example."""
    pairs = list(zip(operands, fn.axes, strict=False))
    name = next(dims[axis] for dims, axis in pairs if axis is not None)
    rest = [
        dims if axis is None else (*dims[:axis], *dims[axis + 1 :])
        for dims, axis in pairs
    ]
    return name, rest
