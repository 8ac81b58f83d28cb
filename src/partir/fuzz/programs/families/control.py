"""Loops and branches, whose bodies are small random programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.families.linear import chain
from partir.fuzz.programs.sketch import NoFit, Sketch, Var, fitted

Body = Callable[..., list[Any]]


def _body(sketch: Sketch, inputs: Sequence[Var], outputs: Sequence[Var]) -> Body:
    """A random program from values of these types to values of those."""
    inner = sketch.body(inputs)
    made = [_chosen(inner, output) for output in outputs]
    return lambda *given: _returned(inner.evaluate(given), made, outputs)


def _chosen(inner: Sketch, output: Var) -> int:
    same = [
        v for v in inner.values if (v.shape, v.dtype) == (output.shape, output.dtype)
    ]
    return inner.rng.choice(same[-2:] or inner.values[-3:]).number


def _returned(env: dict[int, Any], made: Sequence[int], outputs: Sequence[Var]) -> Any:
    return [
        fitted(env[m], o.shape, o.dtype) for m, o in zip(made, outputs, strict=True)
    ]


def _some(sketch: Sketch, most: int) -> list[Var]:
    found = [sketch.any() for _ in range(sketch.rng.randrange(1, most + 1))]
    return list({v.number: v for v in found}.values())


def scan(sketch: Sketch) -> None:
    """A carry through the rows of stacked values, outputs stacked again."""
    carries = _some(sketch, 2)
    stacked = [v for v in _some(sketch, 2) if v.rank and 0 < v.shape[0] <= 8]
    stacked = [v for v in stacked if v.shape[0] == stacked[0].shape[0]]
    rows = [Var(0, v.shape[1:], v.dtype) for v in stacked]
    outside = _some(sketch, 1)
    outs = [sketch.rng.choice([*carries, *rows])] if sketch.chance(0.6) else []
    body = _body(sketch, [*carries, *rows, *outside], [*carries, *outs])
    length = stacked[0].shape[0] if stacked else sketch.rng.choice([1, 2, 3])
    backwards = sketch.chance(0.25)
    counts = len(carries), len(stacked)

    def apply(*given: Any) -> Any:
        start, xs = given[: counts[0]], given[counts[0] : sum(counts)]
        rest = given[sum(counts) :]

        def step(carry: Any, x: Any) -> Any:
            made = body(*carry, *x, *rest)
            return tuple(made[: counts[0]]), tuple(made[counts[0] :])

        return lax.scan(step, tuple(start), tuple(xs), length, backwards)

    sketch.do(apply, *carries, *stacked, *outside)


def accumulate(sketch: Sketch) -> None:
    """A loop that only adds to its carry: gradients over microbatches.

    What is added is often a sum, which then could wait until the loop is done.
    """
    value = sketch.any(lambda v: v.rank > 1 and 0 < v.shape[0] <= 8 and not v.is_bool)
    if not all(value.shape):
        raise NoFit
    inner = sketch.body([Var(0, value.shape[1:], value.dtype)], grown=False)
    made = chain(inner, inner.values[0])
    kind = "float64" if made.is_bool else made.dtype
    start = sketch.like(made.shape, kind)
    zeros, twice = sketch.chance(0.6), sketch.chance(0.2)

    def apply(x: Any, start: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            added = inner.evaluate([row])[made.number].astype(kind)
            return (carry + carry if twice else carry) + added, None

        return lax.scan(step, jnp.zeros_like(start) if zeros else start, x)[0]

    sketch.do(apply, value, start)


def loop(sketch: Sketch) -> None:
    """A while whose condition reads what it carries, and counts."""
    carries = _some(sketch, 2)
    outside = _some(sketch, 1)
    body = _body(sketch, [*carries, *outside], carries)
    most = sketch.rng.choice([1, 2, 3])
    number = carries[0].number % 7

    def apply(*given: Any) -> Any:
        start, rest = given[: len(carries)], given[len(carries) :]

        def condition(state: Any) -> Any:
            count, first, *_ = state
            open_ = jnp.any(jnp.not_equal(first, jnp.asarray(number % 2, first.dtype)))
            return jnp.logical_and(count < most, open_)

        def step(state: Any) -> Any:
            count, *carried = state
            return (count + 1, *body(*carried, *rest))

        return lax.while_loop(condition, step, (jnp.int32(0), *start))[1:]

    sketch.do(apply, *carries, *outside)


def branch(sketch: Sketch) -> None:
    """One of several ways, by an index or a truth value."""
    inputs = _some(sketch, 3)
    outputs = [Var(0, sketch.any().shape, sketch.dtype())]
    ways = [_body(sketch, inputs, outputs) for _ in range(sketch.rng.choice([2, 2, 3]))]
    index = sketch.index(())

    def apply(i: Any, *given: Any) -> Any:
        return lax.switch(i.astype(jnp.int32), ways, *given)

    sketch.do(apply, index, *inputs)


SHARES = {scan: 1.5, accumulate: 1.0, loop: 0.7, branch: 1.0}
