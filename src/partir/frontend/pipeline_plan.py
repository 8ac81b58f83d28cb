"""Sizes of a pipeline, and what parameters, batches and layers must be like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from partir.errors import PartitionError
from partir.ir.idle import idle_scope


@dataclass(frozen=True)
class PipelinePlan:
    """How many stages and microbatches, and how often each goes round."""

    stages: int
    microbatches: int
    repeats: int = 1

    def __post_init__(self) -> None:
        """Refuse numbers that make no pipeline."""
        for name in ("stages", "microbatches", "repeats"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise PartitionError(
                    f"pipelined: {name} is a whole number of at least 1, got {number!r}"
                )
        if self.repeats > 1 and self.microbatches % self.stages:
            raise PartitionError(
                f"pipelined: with repeats={self.repeats}, microbatches go round in "
                f"groups of {self.stages}, one per stage, and {self.microbatches} "
                f"microbatches are no multiple of that"
            )

    @property
    def ticks(self) -> int:
        """Steps until the last microbatch has left the last stage."""
        return self.microbatches * self.repeats + self.stages - 1

    @property
    def scope(self) -> str:
        """Name of the loop, from which an estimate reads how many ticks are idle."""
        return idle_scope(self.stages - 1, self.ticks)

    @property
    def stacked_dims(self) -> int:
        """Leading dimensions of a stacked parameter."""
        return 1 if self.repeats == 1 else 2


def check_stack(plan: PipelinePlan, params: Any) -> None:
    """Parameters have equal stacks, which divide into stages."""
    named = _named(params, "params")
    if not named:
        raise PartitionError("pipelined: there are no parameters, so no layers either")
    stacks = {name: leaf.shape[: plan.stacked_dims] for name, leaf in named.items()}
    (first, stack), *others = stacks.items()
    for name, other in others:
        if other != stack:
            raise PartitionError(
                f"pipelined: every parameter has the same leading dimensions, those of "
                f"the layers, but {first} has {stack} and {name} has {other}"
            )
    if plan.repeats > 1 and (len(stack) < 2 or stack[0] != plan.repeats):
        raise PartitionError(
            f"pipelined: with repeats={plan.repeats}, parameters are stacked "
            f"[repeats, layers / repeats, ...], and {first} is {_shape(named[first])}; "
            f"w.reshape({plan.repeats}, -1, *w.shape[1:]) makes that of a plain stack"
        )
    if not stack or stack[-1] % plan.stages:
        raise PartitionError(
            f"pipelined: {plan.stages} stages do not divide the layers, of which "
            f"{first} ({_shape(named[first])}) has {stack[-1] if stack else 'none'} in "
            f"dimension {plan.stacked_dims - 1}"
        )


def check_input(plan: PipelinePlan, x: Any) -> None:
    """Every array has the same batch, which divides into microbatches."""
    named = _named(x, "x")
    if not named:
        raise PartitionError("pipelined: x holds no array")
    batches = {name: leaf.shape[:1] for name, leaf in named.items()}
    (first, batch), *others = batches.items()
    for name, other in others:
        if other != batch:
            raise PartitionError(
                f"pipelined: the first dimension of all of x is the batch, but {first} "
                f"is {_shape(named[first])} and {name} is {_shape(named[name])}"
            )
    if not batch or batch[0] % plan.microbatches:
        raise PartitionError(
            f"pipelined: {plan.microbatches} microbatches do not divide the batch: "
            f"{first} is {_shape(named[first])}"
        )


def check_body(
    plan: PipelinePlan, body: Callable[[Any, Any], Any], params: Any, x: Any
) -> None:
    """A layer returns what it is given: same tree, shapes and dtypes."""
    layer = _structs(params, lambda shape: shape[plan.stacked_dims :])
    given = _structs(x, lambda shape: (shape[0] // plan.microbatches, *shape[1:]))
    made = jax.eval_shape(body, layer, given)
    before: Any = jax.tree.structure(given)
    after: Any = jax.tree.structure(made)
    if before != after:
        raise PartitionError(f"{_FOLLOWS}; x is {before} and it returns {after}")
    pairs = zip(_named(given, "x").items(), jax.tree.leaves(made), strict=True)
    for (name, old), new in pairs:
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise PartitionError(
                f"{_FOLLOWS}; {name} goes in as {_shape(old)} and comes out as "
                f"{_shape(new)}"
            )


_FOLLOWS = "pipelined: layers follow each other, so body(layer, x) returns what x is"


def _structs(tree: Any, resized: Callable[[Any], tuple[int, ...]]) -> Any:
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(resized(leaf.shape), leaf.dtype), tree
    )


def _shape(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"


def _named(tree: Any, name: str) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    paths = (jax.tree_util.keystr(p, simple=True, separator="/") for p, _ in leaves)
    names = ("/".join(filter(None, (name, path))) for path in paths)
    return dict(zip(names, (leaf for _, leaf in leaves), strict=True))
