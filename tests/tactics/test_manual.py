"""ManualPartition: what each kind of wish does, and which pattern counts."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, P, lax

import partir
from partir import FIRST_DIVISIBLE_DIM, REPLICATED, UNKNOWN, ManualPartition

MESH = {"B": 4, "M": 2}


def shape(*sizes: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def parts(params: dict[str, Array], x: Array) -> dict[str, Array]:
    """Arguments that have nothing to do with each other."""
    return {**params, "x": x * 2}


def independent(*tactics: Any, **params: tuple[int, ...]) -> partir.Partitioned:
    made = {name: shape(*sizes) for name, sizes in params.items()}
    return partir.partition(parts, MESH, list(tactics), args=(made, shape(8, 8)))


def skipped(partitioned: partir.Partitioned, step: int = -1) -> list[str]:
    actions = partitioned.steps[step].actions
    return [action.target for action in actions if action.kind == "skip"]


# Patterns


def test_last_matching_pattern_counts() -> None:
    wishes = {"params/*": 0, "params/w2": 1, "params/w3": UNKNOWN}
    p = independent(ManualPartition(wishes, axis="B"), w1=(8, 8), w2=(8, 8), w3=(8, 8))
    assert p.in_specs[0] == {"w1": P("B"), "w2": P(None, "B"), "w3": P()}


def test_order_of_patterns_is_all_that_counts() -> None:
    wishes = {"params/w2": 1, "params/*": 0}
    p = independent(ManualPartition(wishes, axis="B"), w1=(8, 8), w2=(8, 8))
    assert p.in_specs[0] == {"w1": P("B"), "w2": P("B")}


def test_optional_may_match_nothing() -> None:
    wishes = {partir.optional("opt_state/**"): 0, partir.optional("params/*"): 0}
    p = independent(ManualPartition(wishes, axis="B"), w=(8, 8))
    assert p.in_specs[0] == {"w": P("B")}


def test_globs_are_anchored_and_know_parts() -> None:
    wishes = {"params/layer_*/w": 0, "**/b": 0}

    def fn(params: Any, b: Array) -> Any:
        return params, b * 2

    params = {
        "layer_0": {"w": shape(8), "b": shape(8)},
        "layer_1": {"w": shape(8), "w2": shape(8)},
        "w": shape(8),
        "Layer_2": {"w": shape(8)},
    }
    tactic = ManualPartition(wishes, axis="B")
    p = partir.partition(fn, MESH, [tactic], args=(params, shape(8)))
    assert p.in_specs == (
        {
            "layer_0": {"w": P("B"), "b": P("B")},
            "layer_1": {"w": P("B"), "w2": P()},
            "w": P(),
            "Layer_2": {"w": P()},
        },
        P("B"),
    )


def test_regular_expressions_match_whole_names() -> None:
    wishes = {re.compile(r"params/w[12]"): 0}
    p = independent(ManualPartition(wishes, axis="B"), w1=(8,), w2=(8,), w12=(8,))
    assert p.in_specs[0] == {"w1": P("B"), "w2": P("B"), "w12": P()}


def test_optional_regular_expression() -> None:
    wishes = {partir.optional(re.compile("nothing.*")): 0}
    assert independent(ManualPartition(wishes, axis="B"), w=(8,)).steps[0].actions == ()


# Dimensions


def test_negative_dimension() -> None:
    p = independent(ManualPartition({"params/w": -1}, axis="B"), w=(3, 5, 8))
    assert p.in_specs[0]["w"] == P(None, None, "B")


def test_same_dimension_again_is_no_action() -> None:
    rows = ManualPartition({"params/w": 0}, axis="B", name="rows")
    again = ManualPartition({"params/w": -2}, axis="B", name="again")
    p = independent(rows, again, w=(8, 8))
    assert p.in_specs[0]["w"] == P("B")
    assert p.steps[1].actions == ()


def test_later_tactics_nest_deeper() -> None:
    one, two = ({"params/w": 0},) * 2
    p = independent(
        ManualPartition(one, axis="M"), ManualPartition(two, axis="B"), w=(8, 8)
    )
    assert p.in_specs[0]["w"] == P(("M", "B"))


def test_outputs() -> None:
    tactic = ManualPartition({}, axis="B", outputs={"out/w": 1, "out/x": REPLICATED})
    p = independent(tactic, w=(8, 8))
    assert p.out_specs == {"w": P(None, "B"), "x": P()}
    assert p.in_specs[0]["w"] == P(None, "B")  # the same value


def test_outputs_propagate_backward() -> None:
    tactic = ManualPartition({}, axis="B", outputs={"out/x": 0})
    assert independent(tactic, w=(8, 8)).in_specs[1] == P("B")


# Wishes


def test_unknown_says_nothing() -> None:
    p = independent(ManualPartition({"params/*": UNKNOWN}, axis="B"), w=(8,))
    assert p.steps[0].actions == ()


def test_replicated_stops_propagation() -> None:
    whole = ManualPartition({"params/w": REPLICATED}, axis="B", name="whole")
    rows = ManualPartition({"x": 1}, axis="B", name="rows")

    def fn(params: dict[str, Array], x: Array) -> Array:
        return x @ params["w"]

    args = ({"w": shape(8, 8)}, shape(8, 8))
    free = partir.partition(fn, MESH, [rows], args=args)
    kept = partir.partition(fn, MESH, [whole, rows], args=args)
    assert free.in_specs[0]["w"] == P("B")
    assert kept.in_specs[0]["w"] == P()


def test_replicated_is_per_axis() -> None:
    whole = ManualPartition({"params/w": REPLICATED}, axis="B")
    columns = ManualPartition({"params/w": 1}, axis="M")
    assert independent(whole, columns, w=(8, 8)).in_specs[0]["w"] == P(None, "M")


def test_callable_is_asked_for_each_value() -> None:
    asked = []

    def rule(name: str, sizes: tuple[int, ...], dtype: str) -> Any:
        asked.append((name, sizes, dtype))
        return {1: UNKNOWN, 2: 1, 3: FIRST_DIVISIBLE_DIM}[len(sizes)]

    p = independent(
        ManualPartition({"params/*": rule}, axis="B"), a=(8,), b=(8, 8), c=(3, 8, 4)
    )
    assert asked == [
        ("params/a", (8,), "float32"),
        ("params/b", (8, 8), "float32"),
        ("params/c", (3, 8, 4), "float32"),
    ]
    assert p.in_specs[0] == {"a": P(), "b": P(None, "B"), "c": P(None, "B")}


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool", "float8_e4m3fn"])
def test_callables_see_numpys_dtype_names(dtype: str) -> None:
    seen = []

    def rule(name: str, sizes: tuple[int, ...], dtype: str) -> Any:
        seen.append(dtype)
        return UNKNOWN

    tactic = ManualPartition({"x": rule}, axis="B")
    partir.partition(lambda x: x, MESH, [tactic], args=(shape(8, dtype=dtype),))
    assert seen == [dtype]


def test_prng_key_shows_its_own_shape_and_dtype() -> None:
    seen = []

    def rule(name: str, sizes: tuple[int, ...], dtype: str) -> Any:
        seen.append((sizes, dtype))
        return FIRST_DIVISIBLE_DIM

    tactic = ManualPartition({"keys": rule}, axis="B")
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 8))
    p = partir.partition(lambda keys: keys, MESH, [tactic], args=(keys,))
    assert seen == [((8,), "key<fry>")]
    assert p.in_specs == (P("B"),)


# FIRST_DIVISIBLE_DIM

FIRST = ManualPartition({"params/*": FIRST_DIVISIBLE_DIM}, axis="B", name="first")


def test_first_divisible_dimension_of_any_rank() -> None:
    p = independent(FIRST, a=(4,), b=(3, 4), c=(6, 2, 8, 4), d=())
    specs = {"a": P("B"), "b": P(None, "B"), "c": P(None, None, "B"), "d": P()}
    assert p.in_specs[0] == specs
    assert skipped(p) == ["params/d"]


def test_first_divisible_counts_what_is_left() -> None:
    columns = ManualPartition({"params/w": 0}, axis="M")
    p = independent(columns, FIRST, w=(4, 8))
    assert p.in_specs[0]["w"] == P("M", "B")  # 2 rows are left of 4


def test_first_divisible_nests_where_enough_is_left() -> None:
    columns = ManualPartition({"params/w": 0}, axis="M")
    assert independent(columns, FIRST, w=(8, 8)).in_specs[0]["w"] == P(("M", "B"))


def test_first_divisible_leaves_what_is_tiled() -> None:
    columns = ManualPartition({"params/w": 1}, axis="B")
    p = independent(columns, FIRST, w=(8, 8))
    assert p.in_specs[0]["w"] == P(None, "B")
    assert skipped(p) == ["params/w"]


def test_first_divisible_leaves_what_is_pinned() -> None:
    whole = ManualPartition({"params/w": REPLICATED}, axis="B")
    p = independent(whole, FIRST, w=(8, 8))
    assert p.in_specs[0]["w"] == P()
    assert skipped(p) == ["params/w"]


def test_first_divisible_leaves_what_does_not_divide() -> None:
    p = independent(FIRST, w=(7, 6, 2))
    assert p.in_specs[0]["w"] == P()
    assert skipped(p) == ["params/w"]


# Stacked layers


def stacked_step(params: Array, state: Any, x: Array) -> Any:
    """Scan over stacked layers, and Adam-like state of the same shape."""

    def loss(params: Array) -> Array:
        return jnp.sum(lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, params)[0])

    grads = jax.grad(loss)(params)
    mu = 0.9 * state["mu"] + grads
    nu = 0.9 * state["nu"] + grads * grads
    return params - mu / (jnp.sqrt(nu) + 1e-8), {"mu": mu, "nu": nu}


def test_first_divisible_passes_over_stacked_layers() -> None:
    weights = shape(4, 8, 8)  # four layers, which the axis would divide
    args = (weights, {"mu": weights, "nu": weights}, shape(8, 8))
    wishes = {"params": FIRST_DIVISIBLE_DIM, "state/*": FIRST_DIVISIBLE_DIM}
    tactic = ManualPartition(wishes, axis="B", name="Z3")
    p = partir.partition(stacked_step, MESH, [tactic], args=args)
    want = P(None, "B")
    assert p.in_specs[:2] == (want, {"mu": want, "nu": want})
    assert skipped(p) == []


def test_stacked_layers_can_be_tiled_by_number() -> None:
    weights = shape(4, 8, 8)
    args = (weights, {"mu": weights, "nu": weights}, shape(8, 8))
    tactic = ManualPartition({"params": 0}, axis="B", name="layers")
    p = partir.partition(stacked_step, MESH, [tactic], args=args)
    assert p.in_specs[0] == P("B")


def test_first_divisible_skips_a_value_of_stacked_layers_only() -> None:
    def fn(scales: Array, x: Array) -> Array:
        return lax.scan(lambda c, s: (c * s, None), x, scales)[0]

    tactic = ManualPartition({"scales": FIRST_DIVISIBLE_DIM}, axis="B")
    p = partir.partition(fn, MESH, [tactic], args=(shape(8), shape(8, 8)))
    assert p.in_specs == (P(), P())
    assert skipped(p) == ["scales"]


# Inner values by address


def inner(x: Array, w: Array) -> Array:
    return jnp.tanh(x @ w) @ w


def test_address_of_an_inner_value() -> None:
    tactic = ManualPartition({"%inner/tanh/0": 1}, axis="B")
    p = partir.partition(inner, MESH, [tactic], args=(shape(8, 8), shape(8, 8)))
    assert "tanh" in p.core_text().split("#tile<1>", 1)[1]
    assert [a.target for a in p.steps[0].actions] == ["%inner/tanh/0"]


def test_address_patterns() -> None:
    for pattern in ("%**/tanh/*", "%*/tanh/0", re.compile("%.*tanh.*")):
        tactic = ManualPartition({pattern: 0}, axis="B")
        args = (shape(8, 8), shape(8, 8))
        p = partir.partition(inner, MESH, [tactic], args=args)
        assert p.in_specs == (P("B"), P())


def test_plain_patterns_do_not_reach_inner_values() -> None:
    tactic = ManualPartition({"**": UNKNOWN}, axis="B")
    p = partir.partition(inner, MESH, [tactic], args=(shape(8, 8), shape(8, 8)))
    assert p.steps[0].actions == ()
