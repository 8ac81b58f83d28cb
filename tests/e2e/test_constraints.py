"""Sharding constraints in the model: one value may be in several layouts in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import PartitionSpec as P

import partir
from partir.partition.check import check
from partir.spmd.stablehlo.sequential import sequential_text
from tests.programs import run_text
from tests.refusals import message

MESH = {"B": 4, "M": 2}
OPEN = P.UNCONSTRAINED
X = np.arange(64.0).reshape(8, 8) / 64
Layout = Callable[[Array], Array]


def constrain(*specs: P) -> Layout:
    """Layouts one after the other."""

    def run(x: Array) -> Array:
        for spec in specs:
            x = jax.lax.with_sharding_constraint(x, spec)
        return x

    return run


def counts(record: partir.Partitioned) -> dict[str, int]:
    return {kind: n for kind, n in record.collectives.items() if n}


def partition(
    fn: Callable[..., Any], *tactics: Any, args: Any = (X,), **options: Any
) -> partir.Partitioned:
    """Well-formed after every step."""
    record = partir.partition(fn, MESH, list(tactics), args=args, **options)
    for step in record.steps:
        check(step.state)
    return record


def rows(**names: int) -> partir.ManualPartition:
    return partir.ManualPartition(names, axis="B", name="rows")


@pytest.mark.parametrize(
    ("specs", "collectives", "out"),
    [
        ([P("B")], {}, P("B")),
        ([P()], {"all_gather": 1}, P()),
        ([P("B"), P()], {"all_gather": 1}, P()),
        ([P("B"), P(None, "B")], {"all_to_all": 1}, P(None, "B")),
        ([P(), P("B")], {"all_gather": 1}, P("B")),
        ([P("B"), P("M")], {"all_gather": 1}, P("M")),
        ([P("B", OPEN)], {}, P("B")),
        ([P(OPEN, None)], {}, P("B")),
        ([P(None, OPEN)], {"all_gather": 1}, P()),
    ],
    ids=str,
)
@pytest.mark.usefixtures("x64")
def test_layouts_one_after_the_other(
    specs: list[P], collectives: dict[str, int], out: P
) -> None:
    layout = constrain(*specs)
    record = partition(lambda x: layout(jnp.sin(x)) + 0.0, rows(x=0), strict=True)
    assert counts(record) == collectives
    assert record.out_specs == out
    np.testing.assert_allclose(record.compile()(X), np.sin(X), rtol=1e-12)
    core = sequential_text(record.steps[-1].state)
    (made,) = run_text(core, record.program, (X,))
    np.testing.assert_allclose(made, np.sin(X), rtol=1e-12)


def test_two_layouts_of_one_value() -> None:
    def fn(x: Array) -> tuple[Array, Array]:
        return constrain(P("B"))(x), constrain(P(None, "B"))(x)

    record = partition(fn)
    assert record.in_specs == (P("B"),)
    assert record.out_specs == (P("B"), P(None, "B"))
    assert counts(record) == {"all_to_all": 1}


def test_whole_is_sliced_where_it_is_read() -> None:
    """A gradient that must be whole costs no more for an optimizer that is tiled."""

    def step(w: Array, x: Array) -> Array:
        grad = jax.grad(lambda w: ((w @ x) ** 2).sum())(w)
        return w - constrain(P())(grad)

    state = partir.ManualPartition({"w": 0}, axis="B", name="Z3")
    record = partition(step, rows(x=1), state, args=(X, X))
    assert record.out_specs == P("B")
    assert counts(record) == {"all_gather": 1, "reduce_scatter": 1}


# Counts


def block(layout: Layout) -> Callable[..., Any]:
    def run(x: Array, w: Any) -> Array:
        x = layout(x + jnp.tanh(x @ w["up"]) @ w["down"])
        return layout(x + jax.nn.relu(x @ w["up"]) @ w["down"])

    return run


def training(layout: Layout, scan: bool) -> Callable[..., Any]:
    run = block(layout)

    def loss(params: Any, x: Array) -> Array:
        if scan:
            x, _ = jax.lax.scan(lambda x, w: (run(x, w), None), layout(x), params)
        else:
            for i in range(2):
                x = run(x, jax.tree.map(lambda w, i=i: w[i], params))
        return (x**2).mean()

    def step(params: Any, x: Array) -> Any:
        grads = jax.grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    return step


MODEL_PARALLEL = partir.ManualPartition({"params/up": 2}, axis="M", name="MP")
PARAMS = {"up": np.stack([X, X]), "down": np.stack([X, X])}


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scan"])
def test_a_constraint_that_agrees_changes_nothing(scan: bool) -> None:
    tactics, args = (rows(x=0), MODEL_PARALLEL), (PARAMS, X)
    plain = partition(training(constrain(), scan), *tactics, args=args)
    assert plain.collectives["all_reduce"] > 4
    for spec in (P("B", None), P("B", OPEN), P(OPEN, None)):
        fn = training(constrain(spec), scan)
        record = partition(fn, *tactics, args=args, strict=True, device="tpu_v4")
        assert record.collectives == plain.collectives
        assert record.bytes_communicated == plain.bytes_communicated
        assert record.estimate.seconds == plain.estimate_on("tpu_v4").seconds


@pytest.mark.usefixtures("x64")
def test_a_carry_that_is_to_be_whole() -> None:
    def fn(x: Array, y: Array) -> Array:
        def body(x: Array, _: None) -> tuple[Array, None]:
            return constrain(P())(jnp.sin(x)), None

        return jax.lax.scan(body, x, None, length=3)[0] + y

    record = partition(fn, rows(y=0), args=(X, X))
    assert counts(record) == {}
    assert record.in_specs == (P(), P("B"))
    wanted = np.sin(np.sin(np.sin(X))) + X
    np.testing.assert_allclose(record.compile()(X, X), wanted, rtol=1e-12)


def test_what_a_loop_starts_from() -> None:
    def fn(x: Array) -> Array:
        zeros = constrain(P("B"))(jnp.zeros((8, 8)))
        return jax.lax.fori_loop(0, 3, lambda _, sums: sums + x, zeros)

    record = partition(fn)
    assert (record.in_specs, record.out_specs) == ((P("B"),), P("B"))
    assert counts(record) == {}


def test_search_keeps_what_the_model_says() -> None:
    fn = training(constrain(P("B", None)), scan=False)
    search = partir.AutomaticPartition(axes=["M"], evaluations=20, seed=0)
    record = partition(fn, search, args=(PARAMS, X), device="tpu_v4")
    homes = record.steps[-1].state.tilings
    constraints = [
        op.results[0]
        for op in record.program.ops
        if op.signature.name == "sharding_constraint"
    ]
    assert {homes[value] for value in constraints} == {(("B",), ())}


# Meshes and spellings


def loaded(sharding: str, mesh: str = '"B"=4, "M"=2') -> partir.Program:
    return partir.load(f"""module {{
      sdy.mesh @mesh = <[{mesh}]>
      sdy.mesh @empty = <[]>
      func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {{
        %0 = sdy.sharding_constraint %x <{sharding}> : tensor<8x8xf32>
        return %0 : tensor<8x8xf32>
      }}
    }}""")


@pytest.mark.parametrize(
    ("sharding", "out"),
    [
        ("@mesh, [{}, {}]", P()),
        ("@mesh, [{?}, {?}]", P("B", "M")),
        ('@mesh, [{"B", ?}p1, {?}]', P("B", "M")),
        ('@mesh, [{?}, {?}], replicated={"M"}', P("B")),
        ('@mesh, [{}, {}], unreduced={"B"}', P("B")),
        ('mesh<["B"=4]>, [{}, {}]', P(None, "M")),
        ('mesh<["other"=4]>, [{"other"}, {}]', P("B", "M")),
        ("@empty, [{}, {}]", P("B", "M")),
        ('@mesh, [{"B":(1)2}, {}]', P("B", "M")),
    ],
)
def test_what_a_sharding_says(sharding: str, out: P) -> None:
    columns = partir.ManualPartition({"arg0": 1}, axis="M", name="columns")
    record = partir.partition(loaded(sharding), MESH, [rows(arg0=0), columns])
    assert record.out_specs == (out,)
    assert record.in_specs == (P("B", "M"),)


def test_no_row_for_a_constraint_that_says_nothing() -> None:
    steps = partir.partition(loaded("@empty, [{}, {}]"), MESH, [rows(arg0=0)]).steps
    assert [step.name for step in steps] == ["rows"]


def test_keys_are_constrained_by_jax_and_say_nothing() -> None:
    def fn(key: Array, x: Array) -> Array:
        return x * jax.random.normal(jax.random.split(key)[0], x.shape)

    record = partition(fn, rows(x=0), args=(jax.random.key(0, impl="rbg"), X))
    assert [step.name for step in record.steps] == ["rows"]


# What tactics are told


def tagged(spec: P) -> Callable[[Array], Array]:
    return lambda x: partir.tag(constrain(spec)(jnp.sin(x)), "laid")


def refusal(spec: P, wish: dict[str, int], axis: str = "B") -> str:
    tactic = partir.ManualPartition(wish, axis=axis, name="T")
    return message(lambda: partition(tagged(spec), tactic))


def test_a_tactic_against_the_model() -> None:
    assert refusal(P(), {"laid": 0}) == (
        'tactic "T": laid can\'t be tiled on dimension 0 over axis "B": it is kept '
        'whole on that axis (by tactic "the model\'s own"). A later tactic never '
        "undoes an earlier one: tile it in the model itself"
    )
    assert (
        'already tiled on dimension 0 over it (by tactic "the model\'s own"). A later '
        "tactic never undoes an earlier one: say dimension 0 or nothing, or tile it in "
        "the model itself"
    ) in refusal(P("B"), {"laid": 1})
    through = 'tactic "the model\'s own", propagated through %tagged.<locals>.<lambda>/'
    assert through in refusal(P("B"), {"x": 1})


def test_a_tactic_against_a_closed_dimension() -> None:
    said = refusal(P("B", OPEN), {"laid": 0}, axis="M")
    assert "the model's own sharding constraint keeps that dimension whole" in said
    assert "tests/e2e/test_constraints.py:" in said


def test_a_dimension_that_does_not_divide_is_on_record() -> None:
    record = partition(tagged(P("B")), args=(np.ones((6, 8)),))
    (action,) = record.steps[0].actions
    assert (action.kind, action.target, action.axis) == ("skip", "out", "B")
    assert action.reason.startswith(
        "dimension 0 of float32[6,8] does not divide over an axis of size 4 (tests/"
    )
    assert f'skipped: out on "B" by "the model\'s own": {action.reason}' in str(record)
