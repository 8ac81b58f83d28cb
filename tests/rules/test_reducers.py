"""Reducers that are no monoid: which may be joined, and from which starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from partir.ir.core import Lambda, Signature
from partir.rules.factor import JOIN
from partir.rules.reducers import counts_any_times, from_nothing, is_associative
from partir.rules.registry import factors_of
from tests.rules.samples.sample import combine, traced, written
from tests.rules.tiles import Local, run

REDUCE = "stablehlo.reduce"
X = np.zeros((4, 6), np.float32)
LEAST = "0xFF800000"


def reduction(function: Callable[..., Any], x: np.ndarray = X) -> Signature:
    return next(iter(traced(REDUCE, function, x)))


def pairs(body: Callable[[Any, Any], Any]) -> Lambda:
    start = (np.float32(0), np.float32(0))
    return reduction(lambda x: lax.reduce((x, x), start, body, (1,))).lambdas[0]


@pytest.mark.parametrize("find", [jnp.argmax, jnp.argmin])
@pytest.mark.parametrize("x", [X, X.astype(np.int32)], ids=["floats", "integers"])
def test_the_start_of_argmax_may_count_more_than_once(find: Any, x: np.ndarray) -> None:
    body = reduction(lambda x: find(x, axis=1), x).lambdas[0]
    assert counts_any_times(body, ["7", "0"])
    assert counts_any_times(body, [LEAST, "0"])
    assert not counts_any_times(body, [None, "0"])


def test_a_start_that_equals_another_number_proves_nothing() -> None:
    body = reduction(lambda x: jnp.argmax(x, axis=1)).lambdas[0]
    assert not counts_any_times(body, ["0.000000e+00", "0"])  # -0 is equal to it
    assert not counts_any_times(body, ["0x7FC00000", "0"])  # nan equals nothing


def test_what_is_computed_or_depends_on_its_order_counts_once() -> None:
    def affine(a: Any, b: Any) -> Any:
        return a[0] * b[0], b[0] * a[1] + b[1]

    bodies = (affine, lambda a, b: a, lambda a, b: (lax.max(a[0], b[0]), b[1]))
    for body in bodies:
        assert not counts_any_times(pairs(body), [LEAST, LEAST])
    both = pairs(lambda a, b: (lax.max(a[0], b[0]), lax.min(a[1], b[1])))
    assert counts_any_times(both, [LEAST, "2.0"])
    limited = pairs(
        lambda a, b: (lax.min(lax.max(a[0], b[0]), 9.0), lax.max(a[1], b[1]))
    )
    assert not counts_any_times(limited, [LEAST, LEAST])
    crossed = pairs(lambda a, b: (lax.max(a[1], b[1]), lax.min(a[0], b[0])))
    assert not counts_any_times(crossed, [LEAST, LEAST])


def test_one_op_that_is_not_associative_is_not_joined() -> None:
    types, attrs = "4x6xf32, f32 -> 4xf32", "dimensions = array<i64: 1>"
    for name in ("subtract", "divide", "power"):
        signature = written(REDUCE, types, attrs, combine(name, "f32"))
        assert not is_associative(signature.lambdas[0])
        assert [f.reduce for f in factors_of(signature)] == [None]
    powers = written(
        REDUCE, types.replace("f32", "f8E8M0FNU"), attrs, combine("add", "f8E8M0FNU")
    )
    assert not is_associative(powers.lambdas[0])


def test_a_counterexample_is_looked_for() -> None:
    """What comes behind a nan wins over what was before it: the order counts."""

    def careless(a: Any, b: Any) -> Any:
        larger = a[0] > b[0]
        return jnp.where(larger, a[0], b[0]), jnp.where(larger, a[1], b[1])

    assert not is_associative(pairs(careless))
    assert not is_associative(pairs(lambda a, b: (a[0] * 2 + b[0], a[1])))
    assert is_associative(pairs(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1])))
    for x in (X, X.astype(np.int32)):
        body = reduction(lambda x: jnp.argmax(x, axis=1), x).lambdas[0]
        assert is_associative(body)
        body = reduction(lambda x: jnp.argmin(x, axis=1), x).lambdas[0]
        assert is_associative(body)


def test_only_tiles_in_the_order_of_elements_are_joined() -> None:
    def affine(a: Any, b: Any) -> Any:
        return a[0] * b[0], b[0] * a[1] + b[1]

    start = (np.float32(1), np.float32(0))
    x = np.zeros((1, 4, 6, 2), np.float32)
    signature = reduction(lambda x: lax.reduce((x, x), start, affine, (0, 1, 2)), x)
    joined = [f.operands[0] for f in factors_of(signature) if f.reduce == JOIN]
    assert joined == [1]


def test_marks_say_what_is_there(x64: None) -> None:
    """Of elements with a mark each, only those marked count; none leave no mark."""
    body = reduction(lambda x: jnp.argmax(x, axis=1)).lambdas[0]
    made = from_nothing(body)
    emitter = Local()
    types = [body.types[v] for v in body.arguments[:2]]
    operands = [emitter.argument(type_.with_shape((2, 5))) for type_ in types]
    marks = emitter.argument(made.types[made.arguments[2]].with_shape((2, 5)))
    inits = [emitter.argument(ssa.type.with_shape(())) for ssa in (*operands, marks)]
    outs = [ssa.type.with_shape((2,)) for ssa in (*operands, marks)]
    attrs = {"dimensions": "array<i64: 1>"}
    results = emitter.op(REDUCE, (*operands, marks, *inits), outs, attrs, (made,))
    text = emitter.module("marked", emitter.arguments, results)
    x = np.array([[9, 1, 3, 3, 9], [9, 9, 9, 9, 9]], np.float32)
    there = np.array([[False, True, True, True, False], [False] * 5])
    places = np.tile(np.arange(5, dtype=jax.dtypes.canonicalize_dtype(int)), (2, 1))
    places = places.astype(types[1].dtype.replace("i", "int"))
    start = [np.float32(7), places.dtype.type(1), np.False_]
    best, place, marked = run(text, outs, [x, places, there, *start])
    assert (best[0], place[0], list(marked)) == (3, 2, [True, False])


def test_tiles_of_nothing_are_not_joined() -> None:
    def apply(x: Any) -> Any:
        return lax.reduce(x, np.int32(5), lax.bitwise_xor, (1, 2))

    for size, count in ((2, 1), (0, 0)):
        op = reduction(apply, np.zeros((4, size, 3), np.int32))
        joined = [f for f in factors_of(op) if f.reduce == JOIN]
        assert len(joined) == count, size
