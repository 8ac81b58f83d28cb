"""What a function's backward pass needs of its forward pass, and along which names.

Residuals that are operands or results need nothing more. The others become further
results of the forward call, for which their dimensions must have names: a dimension
that doubles when a name's size doubles is that name's. A residual that lacks a name
must not depend on any operand that has it. Where this can't be told, nothing is saved,
and the backward pass computes the forward pass again.

That a dimension grows with a name says nothing of the order along it. So forward and
backward call say that they are a pair, and are always put into the same loops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from partir.ir.user_rule import WHOLE, DimNames, UserRule

Mask = tuple[bool, ...]
Fn = Callable[..., Sequence[Any]]


@dataclass(frozen=True)
class Residuals:
    """For each residual its source: operand, result or extra, and its number there.

    `places` are the extra ones among the residuals, `dims` and `types` theirs.
    """

    sources: tuple[tuple[str, int], ...]
    places: tuple[int, ...]
    dims: tuple[DimNames, ...]
    types: tuple[tuple[tuple[int, ...], Any], ...]

    @property
    def results(self) -> tuple[int, ...]:
        """Numbers of the results that are needed, each once."""
        found = (number for kind, number in self.sources if kind == "result")
        return tuple(sorted(set(found)))


def split(fn: Fn, operands: Sequence[Any], moving: Mask) -> tuple[Any, list[Any]]:
    """`fn` as a function of the operands that move, and these."""

    def partial(*moved: Any) -> list[Any]:
        left = iter(moved)
        pairs = zip(operands, moving, strict=True)
        return list(fn(*[next(left) if m else operand for operand, m in pairs]))

    return partial, [o for o, m in zip(operands, moving, strict=True) if m]


def zero_cotangent(result: Any) -> Any:
    """The cotangent of a result that nothing depends on."""
    if jax.numpy.issubdtype(result.dtype, np.inexact):
        return jax.numpy.zeros(result.shape, result.dtype)
    return np.zeros(result.shape, jax.dtypes.float0)


@dataclass(frozen=True)
class _Pull:
    """operands -> (results, residuals)"""

    fn: Fn
    wanted: Mask

    def __call__(self, *operands: Any) -> tuple[list[Any], list[Any]]:
        partial, moving = split(self.fn, operands, self.wanted)
        results, pull = jax.vjp(partial, *moving)
        return results, jax.tree_util.tree_leaves(pull)


def find_residuals(
    fn: Fn, rule: UserRule, operands: Sequence[Any], wanted: Mask
) -> Residuals | None:
    """What the cotangents of the wanted operands need; None if it can't be told."""
    types = tuple((tuple(aval.shape), aval.dtype, aval.weak_type) for aval in operands)
    config: Any = jax.config
    return _find(fn, rule, types, wanted, config.jax_enable_x64)


@functools.lru_cache(maxsize=1024)
def _find(
    fn: Fn, rule: UserRule, operands: tuple[Any, ...], wanted: Mask, x64: bool
) -> Residuals | None:
    jaxpr = _trace(_Pull(fn, wanted), operands)
    count = len(rule.results)
    results, residuals = jaxpr.outvars[:count], jaxpr.outvars[count:]
    sources: list[tuple[str, int]] = []
    places: list[int] = []
    for place, var in enumerate(residuals):
        if number := _position(var, jaxpr.invars):
            sources.append(("operand", number - 1))
        elif number := _position(var, results):
            sources.append(("result", number - 1))
        else:
            sources.append(("extra", len(places)))
            places.append(place)
    extra = [residuals[place] for place in places]
    dims = _named(fn, rule, operands, wanted, jaxpr, places, extra)
    if dims is None:
        return None
    types = tuple((tuple(var.aval.shape), var.aval.dtype) for var in extra)
    return Residuals(tuple(sources), tuple(places), dims, types)


def _trace(pull: _Pull, operands: Sequence[Any]) -> Any:
    structs = [jax.ShapeDtypeStruct(s, d, weak_type=w) for s, d, w in operands]
    return jax.make_jaxpr(pull)(*structs).jaxpr


def _position(var: Any, others: Sequence[Any]) -> int:
    """One more than where a variable is among others, 0 if it is not."""
    return next((n for n, other in enumerate(others, start=1) if other is var), 0)


def _named(
    fn: Fn,
    rule: UserRule,
    operands: tuple[Any, ...],
    wanted: Mask,
    jaxpr: Any,
    places: Sequence[int],
    extra: Sequence[Any],
) -> tuple[DimNames, ...] | None:
    """Names of the dimensions of residuals, None if it can't be told."""
    made = [[WHOLE] * len(var.aval.shape) for var in extra]
    seen = _dependencies(jaxpr, extra)
    marked = {name for name, _ in rule.reduced}
    for name in rule.names if extra else ():
        try:
            larger = _trace(_Pull(fn, wanted), _doubled(rule, operands, name))
        except Exception:  # whatever the function does not like about this size
            return None
        residuals = larger.outvars[len(rule.results) :]
        for dims, place, var, read in zip(made, places, extra, seen, strict=True):
            shape = residuals[place].aval.shape if place < len(residuals) else ()
            grown = _grown(var.aval.shape, shape)
            depends = any(name in rule.operands[number] for number in read)
            if grown is None or len(grown) != depends:
                return None
            if any(dims[d] != WHOLE for d in grown) or (not grown and name in marked):
                return None
            for d in grown:
                dims[d] = name
    return tuple(map(tuple, made))


def _doubled(rule: UserRule, operands: tuple[Any, ...], name: str) -> list[Any]:
    return [
        (
            tuple(n * (1 + (d == name)) for n, d in zip(shape, dims, strict=True)),
            dtype,
            weak,
        )
        for (shape, dtype, weak), dims in zip(operands, rule.operands, strict=True)
    ]


def _grown(before: Sequence[int], after: Sequence[int]) -> list[int] | None:
    """Dimensions that doubled, None if something else happened."""
    if len(before) != len(after):
        return None
    pairs = list(zip(before, after, strict=True))
    if any(new not in (old, 2 * old) for old, new in pairs):
        return None
    return [dim for dim, (old, new) in enumerate(pairs) if new != old]


def _dependencies(jaxpr: Any, values: Sequence[Any]) -> list[frozenset[int]]:
    """Operands that each of these depends on, by their numbers."""
    read: dict[int, frozenset[int]] = {
        id(var): frozenset([number]) for number, var in enumerate(jaxpr.invars)
    }
    nothing: frozenset[int] = frozenset()
    for eqn in jaxpr.eqns:
        all_read = nothing.union(*(read.get(id(v), nothing) for v in eqn.invars))
        read.update({id(var): all_read for var in eqn.outvars})
    return [read.get(id(var), nothing) for var in values]


@dataclass(frozen=True)
class Saving:
    """operands -> results, then the extra residuals."""

    fn: Fn
    wanted: Mask
    saved: Residuals

    def __call__(self, *operands: Any) -> list[Any]:
        """The forward pass."""
        results, residuals = _Pull(self.fn, self.wanted)(*operands)
        return [*results, *(residuals[place] for place in self.saved.places)]


@dataclass(frozen=True)
class Resuming:
    """operands, results needed, extra residuals, given cotangents -> cotangents."""

    fn: Fn
    wanted: Mask
    given: Mask
    saved: Residuals

    def __call__(self, *leaves: Any) -> list[Any]:
        """The backward pass alone."""
        left = iter(leaves)
        operands = [next(left) for _ in self.wanted]
        results = {number: next(left) for number in self.saved.results}
        extras = [next(left) for _ in self.saved.places]
        partial, moving = split(self.fn, operands, self.wanted)
        shapes, pull = jax.eval_shape(functools.partial(jax.vjp, partial), *moving)
        known = {"operand": operands, "result": results, "extra": extras}
        found: list[Any] = [known[kind][n] for kind, n in self.saved.sources]  # type: ignore[index]
        wanted, tree = jax.tree_util.tree_flatten(pull)
        if [leaf.shape for leaf in wanted] != [leaf.shape for leaf in found]:
            raise ValueError("its backward pass needs other values at other sizes")
        cotangents = [
            next(left) if g else zero_cotangent(s)
            for s, g in zip(shapes, self.given, strict=True)
        ]
        return list(jax.tree_util.tree_unflatten(tree, found)(cotangents))
