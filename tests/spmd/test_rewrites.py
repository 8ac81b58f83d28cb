"""Each collective rewrite on tiny programs: what becomes of the ops, and the values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from partir.mesh import Mesh
from partir.partition.state import State
from partir.rules.nest import Tiling
from partir.spmd.gathers import merge_gathers, widen_after_gather
from partir.spmd.lower import lower
from partir.spmd.program import Collective, Control, SpmdOp, SpmdProgram
from partir.spmd.rewrites import PASSES, drop_dead, rewrite, scatter_reduced_slices
from partir.spmd.sums import merge_sums
from partir.spmd.sweep import Pass, run_pass
from tests import functions
from tests.functions import ARGUMENTS
from tests.programs import partition, program_of, run_spmd
from tests.spmd.test_sequential import CASES as SCHEDULES, entered_at_random

M2, B4M2, B2M2 = {"M": 2}, {"B": 4, "M": 2}, {"B": 2, "M": 2}
WHOLE: Tiling = ((), ())
ROWS: Tiling = (("M",), ())


@dataclass
class Lowered:
    """A partitioned function before rewriting, with arguments and what it gives."""

    spmd: SpmdProgram
    args: Sequence[Any]
    expected: Sequence[Any]

    def after(self, *passes: Pass) -> list[str]:
        """Steps that these rewrites leave; their values are checked."""
        spmd = self.spmd
        for one in passes:
            made = run_pass(spmd, one)
            assert made.bytes_communicated <= spmd.bytes_communicated
            spmd = made
        assert_same(spmd, self.args, self.expected)
        return steps(spmd)

    @property
    def steps(self) -> list[str]:
        return steps(self.spmd)


def lowered(
    function: Callable[..., Any], *args: Any, to: Any = None, **how: Any
) -> Any:
    """A function partitioned as `how` says; results come tiled as `to`, or at home."""
    state = partition(program_of(function, *args), **how)
    return Lowered(at_home(state, to), args, jax.tree.leaves(jax.jit(function)(*args)))


def at_home(state: State, to: Sequence[Tiling] | None = None) -> SpmdProgram:
    results = state.graph.program.results
    return lower(state, to or [state.tilings[port.value] for port in results])


def steps(spmd: SpmdProgram) -> list[str]:
    """Ops and collectives in order, constants and their broadcasts left out."""
    shown = [_shown(spmd, op) for op in spmd.body.ops]
    return [step for step in shown if step not in ("constant", "broadcast_in_dim")]


def _shown(spmd: SpmdProgram, op: SpmdOp) -> str:
    if not isinstance(op, Collective):
        return spmd.program.ops[op.node].signature.name
    dim = f" {op.dim}" if op.dim >= 0 else ""
    return f"{op.kind}{dim} {' '.join(op.axes)}"


def assert_same(
    spmd: SpmdProgram, args: Sequence[Any], expected: Sequence[Any]
) -> None:
    """Every device holds its part of what one device gives."""
    made = run_spmd(spmd, args)
    for got, want in zip(made, expected, strict=True):
        assert got.dtype == want.dtype
        whole = np.asarray(want)
        scale = np.max(np.abs(whole.astype(float)), initial=1)
        for shard in got.addressable_shards:
            np.testing.assert_allclose(
                shard.data, whole[shard.index], rtol=1e-9, atol=1e-12 * scale
            )


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


X, Y, W, V = (floats(seed, 8, 8) for seed in range(4))
CONTRACTED = [("M", {"x": 1, "y": 1})]

pytestmark = pytest.mark.usefixtures("x64")


# scatter_reduced_slices


def product(x: Array, w: Array) -> Array:
    return x @ w


def test_a_reduced_slice_is_scattered() -> None:
    case = lowered(product, X, W, axes=M2, tactics=[("M", {"x": 1})], to=[ROWS])
    assert case.steps == ["dot_general", "all_reduce M", "all_slice 0 M"]
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", "reduce_scatter 0 M"]


def test_axes_that_are_not_sliced_are_still_reduced() -> None:
    tactics = [("B", {"x": 1}), ("M", {"x": 1})]
    case = lowered(product, X, W, axes=B4M2, tactics=tactics, to=[ROWS])
    assert case.steps == ["dot_general", "all_reduce B M", "all_slice 0 M"]
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", "reduce_scatter 0 M", "all_reduce B"]


def test_axes_that_are_not_reduced_are_sliced_first() -> None:
    case = lowered(
        product, X, W, axes=B4M2, tactics=[("M", {"x": 1})], to=[(("B", "M"), ())]
    )
    assert case.steps == ["dot_general", "all_reduce M", "all_slice 0 B M"]
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", "all_slice 0 B", "reduce_scatter 0 M"]


@pytest.mark.parametrize("axes", [("B", "M"), ("M", "B")])
def test_scattering_over_two_axes_keeps_their_order(axes: tuple[str, str]) -> None:
    tactics = [("B", {"x": 1}), ("M", {"x": 1})]
    case = lowered(product, X, W, axes=B4M2, tactics=tactics, to=[(axes, ())])
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", f"reduce_scatter 0 {' '.join(axes)}"]


def test_slices_of_two_dimensions_are_both_scattered() -> None:
    tactics = [("B", {"x": 1}), ("M", {"x": 1})]
    to = [(("M",), ("B",))]
    case = lowered(product, X, W, axes=B2M2, tactics=tactics, to=to)
    made = case.after(scatter_reduced_slices)
    assert made == ["dot_general", "reduce_scatter 0 M", "reduce_scatter 1 B"]


@pytest.mark.parametrize("reduce", [jnp.max, jnp.min, jnp.prod, jnp.any, jnp.all])
def test_other_monoids_are_scattered_too(reduce: Callable[..., Array]) -> None:
    def reduced(x: Array) -> Array:
        return reduce(x, axis=1)

    x = X > 0.5 if reduce in (jnp.any, jnp.all) else X
    case = lowered(reduced, x, axes=M2, tactics=[("M", {"x": 1})], to=[(("M",),)])
    assert case.after(scatter_reduced_slices)[-1] == "reduce_scatter 0 M"


def test_a_reduction_that_is_read_elsewhere_stays() -> None:
    def twice(x: Array, w: Array) -> tuple[Array, Array]:
        made = x @ w
        return made, jnp.sin(made)

    tactics = [("M", {"x": 1})]
    case = lowered(twice, X, W, axes=M2, tactics=tactics, to=[ROWS, WHOLE])
    assert "all_slice 0 M" in case.steps
    assert case.after(scatter_reduced_slices) == case.steps


# merge_sums


def test_a_sum_of_two_reductions_is_reduced_once() -> None:
    def two(x: Array, y: Array, w: Array, v: Array) -> Array:
        return x @ w + y @ v

    case = lowered(two, X, Y, W, V, axes=M2, tactics=CONTRACTED)
    assert case.steps.count("all_reduce M") == 2
    made = case.after(merge_sums)
    assert made == ["dot_general", "dot_general", "add", "all_reduce M"]


def test_a_sum_of_three_reductions_is_reduced_once() -> None:
    def three(x: Array, y: Array, w: Array, v: Array) -> Array:
        return x @ w + (y @ v - x @ v)

    case = lowered(three, X, Y, W, V, axes=M2, tactics=CONTRACTED)
    assert case.steps.count("all_reduce M") == 3
    made = case.after(merge_sums)
    assert made == [*["dot_general"] * 3, "subtract", "add", "all_reduce M"]


# What may stand between a reduction and the sum in which it meets another one.
LINEAR: dict[str, Callable[[Array], Array]] = {
    "transpose": lambda a: a.T,
    "reshape": lambda a: a.reshape(4, 16).reshape(8, 8),
    "scale": lambda a: a * 3.0,
    "divide": lambda a: a / 7.0,
    "negate": lambda a: -a,
    "reverse": lambda a: lax.rev(a, (0,)),
    "mask": lambda a: jnp.where(np.eye(8) > 0, a, jnp.zeros((8, 8))),
    "shift": lambda a: lax.pad(a, 0.0, ((1, -1, 0), (0, 0, 0))),
    "matrix product": lambda a: a @ np.triu(np.ones((8, 8))),
    "lookup": lambda a: a[np.array([3, 1, 1, 0, 7, 2, 2, 2])],
    "dynamic slice": lambda a: lax.dynamic_slice(a, (1, 0), (8, 8)),
}


LINEAR_NOT_SEEN: dict[str, Callable[[Array], Array]] = {
    "mask by a scalar": lambda a: jnp.where(np.arange(8) > 3, a, 0.0),
}


@pytest.mark.parametrize(
    "name",
    [
        *LINEAR,
        pytest.param(
            *LINEAR_NOT_SEEN,
            marks=pytest.mark.xfail(reason="a converted constant's value is forgotten"),
        ),
    ],
)
def test_sums_meet_behind_linear_ops(name: str) -> None:
    def meet(x: Array, y: Array, w: Array, v: Array) -> Array:
        return {**LINEAR, **LINEAR_NOT_SEEN}[name](x @ w) + y @ v

    case = lowered(meet, X, Y, W, V, axes=M2, tactics=CONTRACTED)
    assert case.steps.count("all_reduce M") == 2
    assert [s for s in case.after(merge_sums) if "all" in s] == ["all_reduce M"]


NOT_LINEAR: dict[str, Callable[[Array, Array], Array]] = {
    "tanh": lambda a, b: jnp.tanh(a) + b,
    "square": lambda a, b: a * a + b,
    "product of sums": lambda a, b: a * b,
    "matrix product of sums": lambda a, b: a @ b,
    "divide by": lambda a, b: 1.0 / a + b,
    "maximum": lambda a, b: jnp.maximum(a, b),
    "plus a constant": lambda a, b: (a + 1.0) @ (b + 1.0),
    "pad with ones": lambda a, b: jnp.pad(a, 1, constant_values=1.0)[1:9, 1:9] + b,
    "choice of ones": lambda a, b: jnp.where(np.arange(8) > 3, a, 1.0) + b,
    "chosen by it": lambda a, b: jnp.where(a > 0, 1.0, 2.0) + b,
    "narrowed": lambda a, b: a.astype(jnp.float32) + b.astype(jnp.float32),
    "integer division": lambda a, b: a.astype(int) // 2 + b.astype(int),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_sums_stay_before_what_is_not_linear(name: str) -> None:
    def stay(x: Array, y: Array, w: Array, v: Array) -> Array:
        return NOT_LINEAR[name](x @ w, y @ v)

    case = lowered(stay, X, Y, W, V, axes=M2, tactics=CONTRACTED)
    assert case.steps.count("all_reduce M") == 2
    assert case.after(merge_sums) == case.steps


def test_a_reduction_with_another_reader_stays() -> None:
    def both(x: Array, y: Array, w: Array, v: Array) -> tuple[Array, Array]:
        made = x @ w
        return made + y @ v, made

    case = lowered(both, X, Y, W, V, axes=M2, tactics=CONTRACTED)
    assert case.after(merge_sums) == case.steps


def test_reductions_over_different_axes_stay() -> None:
    def two(x: Array, y: Array, w: Array, v: Array) -> Array:
        return x @ w + y @ v

    tactics = [("B", {"x": 1}), ("M", {"y": 1})]
    case = lowered(two, X, Y, W, V, axes=B2M2, tactics=tactics)
    assert {"all_reduce B", "all_reduce M"} <= set(case.steps)
    assert case.after(merge_sums) == case.steps


def test_scattered_sums_meet_too() -> None:
    def two(x: Array, y: Array, w: Array, v: Array) -> Array:
        return x @ w + (y @ v).T

    tactics = [("M", {"x": 1, "y": 1, "result0": 0})]
    case = lowered(two, X, Y, W, V, axes=M2, tactics=tactics)
    assert case.steps.count("all_reduce M") == 2
    scattered = case.after(scatter_reduced_slices)
    assert [s for s in scattered if "reduce" in s] == [
        "reduce_scatter 0 M",
        "reduce_scatter 1 M",
    ]
    made = case.after(scatter_reduced_slices, merge_sums)
    assert [s for s in made if "all" in s or "reduce" in s] == ["reduce_scatter 0 M"]


@pytest.mark.xfail(reason="slices are scattered before sums are merged, not after")
def test_a_sum_that_is_then_sliced_is_scattered() -> None:
    def two(x: Array, y: Array, w: Array, v: Array) -> Array:
        return x @ w + y @ v

    case = lowered(two, X, Y, W, V, axes=M2, tactics=CONTRACTED, to=[ROWS])
    made = rewrite(case.spmd)
    assert steps(made) == ["dot_general", "dot_general", "add", "reduce_scatter 0 M"]


def test_what_is_made_smaller_is_reduced_afterwards() -> None:
    def smaller(x: Array, w: Array) -> tuple[Array, ...]:
        return jnp.sum(x @ w, axis=0), (x @ w.T)[:2]

    case = lowered(smaller, X, W, axes=M2, tactics=[("M", {"x": 1})])
    made = case.after(merge_sums)
    assert made == [
        *("dot_general", "reduce", "all_reduce M"),
        *("transpose", "dot_general", "slice", "all_reduce M"),
    ]


def test_a_sum_stays_before_an_op_whose_loop_has_its_axis() -> None:
    """The other operand is not the same on the whole group then."""

    def chain(x: Array, w: Array, v: Array) -> Array:
        return (x @ w) @ v

    case = lowered(chain, X, W, V, axes=M2, tactics=[("M", {"x": 1, "v": 1})])
    assert case.steps == ["dot_general", "all_reduce M", "dot_general"]
    assert case.after(merge_sums) == case.steps


def test_a_sum_stays_before_a_lookup_of_tiled_positions() -> None:
    def lookup(x: Array, w: Array, ids: Array) -> Array:
        return (x @ w).at[ids].get(mode="clip")

    ids = np.array([3, 1])
    case = lowered(lookup, X, W, ids, axes=M2, tactics=[("M", {"x": 1, "ids": 0})])
    assert case.steps[-1] == "gather"
    assert case.after(merge_sums) == case.steps


def test_a_dot_that_narrows_keeps_the_sum_before_it() -> None:
    """A reduction keeps the type in which the source program adds."""

    def narrow(x: Array, w: Array, v: Array) -> Array:
        made = lax.dot(x @ w, v, preferred_element_type=jnp.float32)
        return made[:1]

    x, w = np.round(X), np.round(W)
    case = lowered(narrow, x, w, np.round(V), axes=M2, tactics=[("M", {"x": 1})])
    assert case.after(merge_sums)[:2] == ["dot_general", "all_reduce M"]


# widen_after_gather

NARROW = X.astype(np.float32)


def test_the_narrow_form_is_gathered() -> None:
    def widen(x: Array) -> Array:
        return x.astype(jnp.float64)

    case = lowered(widen, NARROW, axes=M2, tactics=[("M", {"x": 0})], to=[WHOLE])
    assert case.steps == ["convert", "all_gather 0 M"]
    assert case.after(widen_after_gather) == ["all_gather 0 M", "convert"]


def test_gathers_of_two_dimensions_both_come_before_the_convert() -> None:
    def widen(x: Array) -> Array:
        return x.astype(jnp.float64)

    tactics = [("B", {"x": 0}), ("M", {"x": 1})]
    case = lowered(widen, NARROW, axes=B4M2, tactics=tactics, to=[WHOLE])
    assert case.steps == ["convert", "all_gather 0 B", "all_gather 1 M"]
    made = case.after(widen_after_gather)
    assert made == ["all_gather 0 B", "all_gather 1 M", "convert"]


def test_a_gather_of_one_axis_leaves_the_convert_tiled_on_the_other() -> None:
    def widen(x: Array) -> Array:
        return x.astype(jnp.float64)

    tactics = [("B", {"x": 0}), ("M", {"x": 0})]
    to = [(("B",), ())]
    case = lowered(widen, NARROW, axes=B4M2, tactics=tactics, to=to)
    assert case.steps == ["convert", "all_gather 0 M"]
    assert case.after(widen_after_gather) == ["all_gather 0 M", "convert"]


def test_a_narrowing_convert_stays_before_the_gather() -> None:
    def narrow(x: Array) -> Array:
        return x.astype(jnp.float32)

    case = lowered(narrow, X, axes=M2, tactics=[("M", {"x": 0})], to=[WHOLE])
    assert case.after(widen_after_gather) == case.steps


def test_a_wide_value_with_another_reader_stays() -> None:
    def both(x: Array) -> tuple[Array, Array]:
        wide = x.astype(jnp.float64)
        return wide, jnp.sin(wide)

    tactics = [("M", {"x": 0})]
    case = lowered(both, NARROW, axes=M2, tactics=tactics, to=[WHOLE, ROWS])
    assert case.after(widen_after_gather) == case.steps


# merge_gathers

GATHERED = {"tactics": [("M", {"w": 0})], "gathered": {"w": "M"}, "axes": M2}


@pytest.mark.xfail(reason="results of the block count as dead, so memory seems to peak")
def test_siblings_share_a_gather() -> None:
    def siblings(x: Array, y: Array, w: Array) -> tuple[Array, Array]:
        return x @ w, y @ w

    case = lowered(siblings, X, Y, W, **GATHERED)
    assert case.steps == ["all_gather 0 M", "dot_general"] * 2
    made = case.after(merge_gathers)
    assert made == ["all_gather 0 M", "dot_general", "dot_general"]


def test_siblings_whose_results_are_read_later_share_a_gather() -> None:
    def siblings(x: Array, y: Array, w: Array) -> Array:
        left, right = x @ w, y @ w
        return jnp.sin(left) * jnp.cos(right)

    case = lowered(siblings, X, Y, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers).count("all_gather 0 M") == 1


def test_forward_and_backward_gather_each() -> None:
    def chain(x: Array, w: Array) -> Array:
        return lax.dot_general(jnp.tanh(x @ w), w, (((1,), (1,)), ((), ())))

    case = lowered(chain, X, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers) == case.steps


@pytest.mark.xfail(reason="only the second gather's own reader is looked at")
def test_forward_and_backward_gather_each_if_one_is_transposed() -> None:
    def chain(x: Array, w: Array) -> Array:
        return jnp.tanh(x @ w) @ w.T

    case = lowered(chain, X, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers) == case.steps


def test_a_gather_is_not_kept_past_a_peak_of_memory() -> None:
    def peak(x: Array, y: Array, w: Array) -> tuple[Array, ...]:
        wide = jnp.tile(x, (1, 16))
        return x @ w, jnp.sum(jnp.sin(wide), axis=1), y @ w

    case = lowered(peak, X, Y, W, **GATHERED)
    assert case.steps.count("all_gather 0 M") == 2
    assert case.after(merge_gathers) == case.steps


def test_gathers_over_different_axes_stay() -> None:
    def siblings(x: Array, y: Array, w: Array) -> tuple[Array, Array]:
        return x @ w, jnp.sin(w)

    tactics = [("B", {"w": 0}), ("M", {"w": 0})]
    to = [WHOLE, (("B",), ())]
    case = lowered(siblings, X, Y, W, axes=B2M2, tactics=tactics, to=to)
    assert case.after(merge_gathers) == case.steps


# drop_dead


def test_what_nothing_reads_is_left_out() -> None:
    def several(x: Array, w: Array) -> tuple[Array, Array]:
        return jnp.sin(x), jnp.cos(x @ w)

    case = lowered(several, X, W, axes=M2, tactics=[("M", {"x": 1})])
    assert "all_reduce M" in case.steps
    body = replace(case.spmd.body, results=case.spmd.body.results[:1])
    kept = drop_dead(replace(case.spmd, body=body))
    assert steps(kept) == ["sine"]


def test_dead_ops_inside_a_loop_are_left_out() -> None:
    def loop(x: Array) -> Array:
        return lax.fori_loop(0, 3, lambda _, carry: jnp.sin(carry), x)

    spmd = lowered(loop, X, axes=M2, tactics=[("M", {"x": 0})]).spmd
    *before, control = spmd.body.ops
    assert isinstance(control, Control)
    condition, body = control.blocks
    dead = [op._replace(results=(len(spmd.types),)) for op in body.ops[-1:]]
    grown = replace(body, ops=(*body.ops, *dead))
    ops = (*before, replace(control, blocks=(condition, grown)))
    program = replace(
        spmd, types=(*spmd.types, spmd.types[0]), body=replace(spmd.body, ops=ops)
    )
    assert drop_dead(program).body == spmd.body


def test_ops_with_effects_stay() -> None:
    def printed(x: Array) -> Array:
        jax.debug.print("{}", x.sum())
        return jnp.sin(x)

    spmd = at_home(partition(program_of(printed, X), M2))
    assert steps(drop_dead(spmd)) == ["reduce", "custom_call", "sine"]


# All of them


def assert_rewritten(state: State, args: Sequence[Any], expected: Any) -> None:
    """No rewrite moves more bytes, and all of them together keep the values."""
    before = spmd = drop_dead(at_home(state))
    for one in PASSES:
        made = run_pass(spmd, one)
        assert made.bytes_communicated <= spmd.bytes_communicated, one.__name__
        spmd = made
    final = rewrite(before)
    assert final.bytes_communicated <= spmd.bytes_communicated
    assert_same(final, args, jax.tree.leaves(expected))


@pytest.mark.parametrize(
    ("function", "axes", "tactics"),
    [case for case in SCHEDULES if case[0] is not functions.train_step],
)
def test_rewrites_of_schedules(function: Any, axes: Any, tactics: Any) -> None:
    args = ARGUMENTS[function]()
    state = partition(program_of(function, *args), axes, tactics)
    assert_rewritten(state, args, jax.jit(function)(*args))


SMALL = [function for function in ARGUMENTS if function is not functions.train_step]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("function", SMALL, ids=lambda f: f.__name__)
def test_rewrites_of_loops_by_lot(function: Any, seed: int) -> None:
    args = ARGUMENTS[function]()
    mesh = Mesh({"B": 2, "M": 2, "C": 2})
    state = entered_at_random(program_of(function, *args), mesh, seed)
    assert_rewritten(state, args, jax.jit(function)(*args))
