"""`Whole`: an opaque function, and those that transformations make of it.

Functions are frozen data that compare equal if made the same way, so that the layers of
a model share one. Their rules follow from the rule that the user wrote:

- an operand's tangent or cotangent has its dimensions;
- a name that a result lacks is summed, since the parts' contributions add up;
- a name with any other mark than a sum stays whole in a derivative;
- a batch dimension is a new name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from partir.frontend.opaque_residuals import (
    Mask,
    Residuals,
    Resuming,
    Saving,
    split,
    zero_cotangent,
)
from partir.ir.user_rule import WHOLE, DimNames, UserRule
from partir.ir.user_rule_shapes import fresh


@dataclass(frozen=True)
class Whole:
    """A function from arrays to a list of arrays, its rule and its name."""

    fn: Callable[..., Sequence[Any]]
    rule: UserRule
    name: str

    def forward(self, given: Mask, wanted: Mask) -> Whole:
        """Tangents of the wanted results, from operands and the given tangents."""
        operands = (*self.rule.operands, *_chosen(self.rule.operands, given))
        rule = _linear(self.rule, operands, _chosen(self.rule.results, wanted))
        return Whole(Forward(self.fn, given, wanted), rule, f"{self.name}_jvp")

    def backward(self, wanted: Mask, given: Mask) -> Whole:
        """Cotangents of the wanted operands, from operands and the given cotangents."""
        operands = (*self.rule.operands, *_chosen(self.rule.results, given))
        rule = _linear(self.rule, operands, _chosen(self.rule.operands, wanted))
        return Whole(Backward(self.fn, wanted, given), rule, f"{self.name}_bwd")

    def saving(self, wanted: Mask, saved: Residuals) -> Whole:
        """The same, and what the backward pass needs besides operands and results."""
        rule = self.rule
        results = (*rule.results, *saved.dims)
        lacked = [n for n in rule.names if any(n not in dims for dims in saved.dims)]
        marks = (*rule.reduced, *((name, "same") for name in lacked))
        fn = Saving(self.fn, wanted, saved)
        return Whole(
            fn, replace(rule, results=results, reduced=marks), f"{self.name}_fwd"
        )

    def resuming(self, wanted: Mask, given: Mask, saved: Residuals) -> Whole:
        """As `backward`, from what was saved."""
        rule = self.rule
        needed = [rule.results[number] for number in saved.results]
        cotangents = _chosen(rule.results, given)
        operands = (*rule.operands, *needed, *saved.dims, *cotangents)
        made = _linear(rule, operands, _chosen(rule.operands, wanted))
        fn = Resuming(self.fn, wanted, given, saved)
        return Whole(fn, made, f"{self.name}_bwd")

    def batched(self, axes: tuple[int | None, ...]) -> Whole:
        """Over batches of operands, along these dimensions; results along the first."""
        name = fresh(self.rule.names, "v")
        operands = tuple(
            dims if axis is None else (*dims[:axis], name, *dims[axis:])
            for dims, axis in zip(self.rule.operands, axes, strict=True)
        )
        results = tuple((name, *dims) for dims in self.rule.results)
        rule = replace(self.rule, operands=operands, results=results)
        return Whole(Batched(self.fn, axes), rule, self.name)


def _chosen(items: Sequence[Any], mask: Mask) -> tuple[Any, ...]:
    return tuple(item for item, chosen in zip(items, mask, strict=True) if chosen)


def _linear(
    rule: UserRule, operands: tuple[DimNames, ...], results: tuple[DimNames, ...]
) -> UserRule:
    """A derivative's rule."""
    whole = {name for name, monoid in rule.reduced if monoid != "sum"} | {WHOLE}
    known = {name for dims in operands for name in dims}

    def kept(dims: DimNames) -> DimNames:
        return tuple(n if n in known - whole else WHOLE for n in dims)

    made = UserRule(tuple(map(kept, operands)), tuple(map(kept, results)))
    summed = [n for n in made.names if any(n not in dims for dims in made.results)]
    marks = tuple((name, "sum") for name in summed)
    grouped = tuple(name for name in rule.grouped if name in made.names)
    return replace(made, reduced=marks, grouped=grouped)


@dataclass(frozen=True)
class Flattened:
    """The user's function with trees of arguments, on their leaves."""

    fn: Callable[..., Any]
    tree: Any
    options: tuple[tuple[str, Any], ...]

    def nested(self, *leaves: Any) -> Any:
        """The result as its own tree."""
        args = jax.tree_util.tree_unflatten(self.tree, leaves)
        return self.fn(*args, **dict(self.options))

    def __call__(self, *leaves: Any) -> list[Any]:
        """The result's leaves."""
        return jax.tree_util.tree_leaves(self.nested(*leaves))


@dataclass(frozen=True)
class Forward:
    """(operands, given tangents) -> tangents of the wanted results."""

    fn: Callable[..., Sequence[Any]]
    given: Mask
    wanted: Mask

    def __call__(self, *leaves: Any) -> list[Any]:
        """Forward-mode differentiation."""
        operands, tangents = leaves[: len(self.given)], leaves[len(self.given) :]
        partial, moving = split(self.fn, operands, self.given)
        _, made = jax.jvp(partial, moving, list(tangents))
        return list(_chosen(made, self.wanted))


@dataclass(frozen=True)
class Backward:
    """(operands, given cotangents) -> cotangents of the wanted operands."""

    fn: Callable[..., Sequence[Any]]
    wanted: Mask
    given: Mask

    def __call__(self, *leaves: Any) -> list[Any]:
        """Reverse-mode differentiation; whatever it needs is computed again."""
        operands, cotangents = leaves[: len(self.wanted)], leaves[len(self.wanted) :]
        partial, moving = split(self.fn, operands, self.wanted)
        results, pull = jax.vjp(partial, *moving)
        left = iter(cotangents)
        pairs = zip(results, self.given, strict=True)
        return list(pull([next(left) if g else zero_cotangent(r) for r, g in pairs]))


@dataclass(frozen=True)
class Batched:
    """Over batches of some operands."""

    fn: Callable[..., Sequence[Any]]
    axes: tuple[int | None, ...]

    def __call__(self, *leaves: Any) -> list[Any]:
        """By jax.vmap."""

        def positional(*args: Any) -> list[Any]:
            return list(self.fn(*args))

        return jax.vmap(positional, in_axes=self.axes)(*leaves)
