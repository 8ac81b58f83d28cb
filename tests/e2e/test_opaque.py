"""Functions kept whole run on tiles and agree with one device, gradients included."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir import ManualPartition
from partir.frontend.opaque_calls import local_functions
from partir.frontend.parsing import parse_module
from partir.spmd.stablehlo.sequential import sequential_text
from tests.e2e.compare import MESH, assert_same
from tests.e2e.kernels import attention, plain_attention
from tests.programs import run_text

pytestmark = pytest.mark.usefixtures("double")

HEADS = "b h _ _, b h _ _, b h _ _ -> b h _ _"
flash = partir.opaque(attention, HEADS, name="flash")

BATCH = ManualPartition({"x": 0}, axis="B", name="batch")
SHARDED_HEADS = ManualPartition({"params/out": 0}, axis="M", name="heads")


def normal(seed: int, *shape: int) -> Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def parameters() -> dict[str, Array]:
    names = ("q", "k", "v")
    made = {name: normal(i, 12, 4, 8) / 4 for i, name in enumerate(names)}
    return {**made, "out": normal(4, 4, 8, 12) / 4}


def layer(attend: Callable[..., Array], params: dict[str, Array], x: Array) -> Array:
    q, k, v = (jnp.einsum("bsm,mhd->bhsd", x, params[n]) for n in ("q", "k", "v"))
    return x + jnp.einsum("bhsd,hdm->bsm", attend(q, k, v), params["out"])


def loss(attend: Callable[..., Array], params: dict[str, Array], x: Array) -> Array:
    return jnp.mean(layer(attend, params, x) ** 2)


def step(params: dict[str, Array], x: Array) -> Any:
    return jax.value_and_grad(functools.partial(loss, flash))(params, x)


def agree(
    function: Callable[..., Any], schedule: Any, *args: Any, **options: Any
) -> partir.Partitioned:
    """Partitioned and on one device."""
    p = partir.partition(function, MESH, schedule, args=args, **options)
    assert_same(p.compile()(*args), jax.jit(function)(*args))
    return p


def agree_sequentially(p: partir.Partitioned, *args: Any) -> None:
    """The loops one by one."""
    expected = p.compile()(*args)
    kept = local_functions(p.program.opaque)  # type: ignore[attr-defined]
    text = sequential_text(p.steps[-1].state, kept)
    made = run_text(text, p.program, args)
    for got, want in zip(made, jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


# A Pallas kernel


def test_kernel_and_its_gradient() -> None:
    args = parameters(), normal(5, 8, 16, 12)
    p = agree(step, [BATCH, SHARDED_HEADS], *args, strict=True)
    # As for attention written out: the loss, four gradients, and one for the heads.
    counts = {"all_reduce": 6}
    assert p.collectives == dict.fromkeys(p.collectives, 0) | counts
    agree_sequentially(p, *args)
    written = functools.partial(loss, plain_attention)
    assert_same(jax.jit(step)(*args), jax.value_and_grad(written)(*args))


def test_backward_pass_uses_what_was_saved() -> None:
    p = partir.partition(step, MESH, [BATCH], args=(parameters(), normal(5, 8, 16, 12)))
    calls = [line for line in p.stablehlo().splitlines() if '"func.call"' in line]
    forward, backward = calls
    assert "@flash_fwd_0" in forward
    assert "-> (tensor<2x4x16x8xf64>, tensor<2x4x16x1xf64>)" in forward
    assert "@flash_bwd_1" in backward
    assert "tensor<2x4x16x1xf64>, tensor<2x4x16x8xf64>) -> (tensor<2x4x16x8xf64>, " in (
        backward
    )


def test_backward_pass_tiled_otherwise() -> None:
    """It is in the loops of the forward pass, for what was saved means nothing else."""

    def gradient(q: Array, k: Array, v: Array) -> Any:
        return jax.value_and_grad(lambda q: jnp.sum(flash(q, k, v) ** 2))(q)

    whole = {"out/1": partir.REPLICATED}
    heads = ManualPartition({"q": 1}, outputs=whole, axis="M", name="heads")
    args = [normal(i, 4, 4, 8, 8) for i in range(3)]
    p = agree(lambda q, k, v: gradient(q, k, v), [heads], *args)
    assert p.collectives["all_gather"] > 0


def test_single_precision_is_as_good_as_on_one_device() -> None:
    args = parameters(), normal(5, 8, 16, 12)
    exact = jax.jit(step)(*args)
    narrow = jax.tree.map(lambda a: a.astype("float32"), args)
    p = partir.partition(step, MESH, [BATCH, SHARDED_HEADS], args=narrow)

    def errors(results: Any) -> list[float]:
        pairs = zip(jax.tree.leaves(results), jax.tree.leaves(exact), strict=True)
        return [float(np.linalg.norm(np.asarray(a, float) - b)) for a, b in pairs]

    ours, theirs = errors(p.compile()(*narrow)), errors(jax.jit(step)(*narrow))
    scale = [1e-7 * float(np.linalg.norm(leaf)) for leaf in jax.tree.leaves(exact)]
    for mine, alone, least in zip(ours, theirs, scale, strict=True):
        assert mine <= 2 * max(alone, least)


def test_layers_share_one_function() -> None:
    def deep(params: dict[str, Array], x: Array) -> Any:
        for _ in range(3):
            x = layer(flash, params, x)
        return jnp.mean(x**2)

    args = parameters(), normal(5, 8, 16, 12)
    p = agree(jax.grad(deep), [BATCH, SHARDED_HEADS], *args)
    assert p.stablehlo().count('"func.call"') == 6
    assert len(p.program.opaque) == 2  # type: ignore[attr-defined]


def scanned(params: dict[str, Array], x: Array) -> Array:
    def body(x: Array, one: dict[str, Array]) -> tuple[Array, None]:
        return jax.checkpoint(functools.partial(layer, flash))(one, x), None

    return jnp.mean(jax.lax.scan(body, x, params)[0] ** 2)


def test_inside_scan_and_remat() -> None:
    stacked = jax.tree.map(lambda a: jnp.stack([a, a * 0.5]), parameters())
    heads = ManualPartition({"params/out": 1}, axis="M", name="heads")
    args = stacked, normal(5, 8, 16, 12)
    agree(jax.value_and_grad(scanned), [BATCH, heads], *args)


@pytest.mark.parametrize("nested", [False, True])
def test_vmap_adds_a_dimension(nested: bool) -> None:
    def one(q: Array, k: Array, v: Array) -> Array:
        return jnp.sum(flash(q, k, v) ** 2)

    gradient = jax.vmap(jax.grad(one), in_axes=(0, None, 1))
    if nested:
        gradient = jax.grad(lambda *a: jax.vmap(one, in_axes=(0, None, 1))(*a).sum())
    q, k = normal(0, 4, 2, 4, 8, 8), normal(1, 2, 4, 8, 8)
    v = normal(2, 2, 4, 4, 8, 8)
    examples = ManualPartition({"q": 0}, axis="B", name="examples")
    heads = ManualPartition({"k": 1}, axis="M", name="heads")
    p = agree(lambda q, k, v: gradient(q, k, v), [examples, heads], q, k, v)
    assert p.in_specs[2] == jax.P(None, "B", "M")


def test_inside_a_shard_map_of_the_model() -> None:
    def mapped(x: Array) -> Array:
        spec = jax.P("B", "M")
        local = jax.shard_map(
            lambda x: flash(x, x, x), in_specs=spec, out_specs=spec, check_vma=False
        )
        return 2 * local(x)

    x = normal(0, 8, 4, 8, 8)
    p = partir.partition(mapped, MESH, [], args=(x,))
    assert_same(p.compile()(x), 2 * attention(x, x, x))


def test_outside_it_is_the_function_itself() -> None:
    q, k, v = (normal(i, 2, 3, 8, 4) for i in range(3))
    assert_same(flash(q, k, v), attention(q, k, v))
    assert_same(jax.jit(flash)(q, k, v), jax.jit(attention)(q, k, v))
    text = jax.jit(jax.grad(lambda *a: flash(*a).sum())).lower(q, k, v).as_text()
    assert "partir" not in text


def test_lowered_for_a_tpu_without_one() -> None:
    kernel = partir.opaque(
        functools.partial(attention, interpret=False), HEADS, name="flash"
    )

    def gradient(x: Array, k: Array) -> Any:
        return jax.grad(lambda x: kernel(x, k, k).sum())(x)

    x = jax.ShapeDtypeStruct((8, 4, 128, 128), "float32")
    with jax.enable_x64(False):
        program = partir.trace_for("tpu", gradient, x, x)
    heads = ManualPartition({"k": 1}, axis="M", name="heads")
    p = partir.partition(program, MESH, [BATCH, heads], strict=True)
    parse_module(p.stablehlo())
    kernels = [
        line for line in p.stablehlo().splitlines() if "@tpu_custom_call" in line
    ]
    assert len(kernels) == 2
    assert all("tensor<2x2x128x128xf32>" in line for line in kernels)


# Other functions


def test_linear_algebra() -> None:
    solve = partir.opaque(
        lambda a, b: jnp.linalg.solve(a, b[..., None])[..., 0], "b _ _, b _ -> b _"
    )

    def residual(x: Array, y: Array) -> Any:
        return jax.grad(lambda x, y: jnp.sum(solve(x, y) ** 2), argnums=(0, 1))(x, y)

    x = normal(0, 8, 5, 5) + 5 * jnp.eye(5)
    p = agree(residual, [BATCH], x, normal(1, 8, 5), strict=True)
    assert sum(p.collectives.values()) == 0


def test_foreign_function_with_a_rule() -> None:
    """What jnp.linalg.cholesky calls on a CPU, called by hand."""
    jnp.linalg.cholesky(jnp.eye(2))  # LAPACK is looked for at its first use

    def cholesky(x: Array) -> Array:
        types = (
            jax.ShapeDtypeStruct(x.shape, x.dtype),
            jax.ShapeDtypeStruct(x.shape[:1], "int32"),
        )
        columns = (0, 2, 1)
        call = jax.ffi.ffi_call(
            "lapack_dpotrf_ffi",
            types,
            input_layouts=[columns],
            output_layouts=[columns, None],
        )
        return jnp.tril(call(x, uplo=np.uint8(ord("L")))[0])

    x = normal(0, 8, 5, 5)
    x = x @ x.transpose(0, 2, 1) + jnp.eye(5)
    with partir.rule("lapack_dpotrf_ffi", "b _ _ -> b _ _, b"):
        p = agree(lambda x: cholesky(x), [BATCH], x, strict=True)
    assert sum(p.collectives.values()) == 0
    assert_same(cholesky(x), jnp.linalg.cholesky(x))


def project(x: Array, w: Array) -> Array:
    return x @ w


PROJECTED = "b d, d f -> b f sum=d"
CONTRACTED = ManualPartition({"w": 0}, axis="M", name="contracted")


def test_reduction() -> None:
    kept = partir.opaque(project, PROJECTED)
    p = agree(
        lambda x, w: jnp.tanh(kept(x, w)),
        [BATCH, CONTRACTED],
        normal(0, 8, 6),
        normal(1, 6, 4),
    )
    assert p.collectives["all_reduce"] == 1
    assert p.in_specs == (jax.P("B", "M"), jax.P("M"))


def test_gradient_of_a_reduction() -> None:
    """Rows are summed for the weights; nothing for the rows along what is summed."""
    kept = partir.opaque(project, PROJECTED)

    def gradient(x: Array, w: Array) -> Any:
        return jax.grad(lambda x, w: jnp.sum(kept(x, w) ** 2), (0, 1))(x, w)

    args = normal(0, 8, 6), normal(1, 6, 4)
    p = agree(gradient, [BATCH, CONTRACTED], *args)
    agree_sequentially(p, *args)
    assert p.collectives["all_reduce"] == 2
    assert p.out_specs == (jax.P("B", "M"), jax.P("M"))


def test_gradient_of_a_maximum_is_taken_by_rows() -> None:
    """The parts' largest elements are not the whole's: columns change for rows."""
    largest = partir.opaque(lambda x: x.max(axis=1), "b d -> b max=d", name="largest")

    def gradient(x: Array) -> Any:
        return jax.value_and_grad(lambda x: jnp.sum(largest(x) ** 2))(x)

    columns = ManualPartition({"x": 1}, axis="M", name="columns")
    p = agree(gradient, [BATCH, columns], normal(0, 8, 6))
    assert p.collectives["all_gather"] == 0
    assert p.collectives["all_to_all"] > 0


def test_forward_mode_and_second_derivatives() -> None:
    def derivatives(fn: Callable[..., Array], x: Array, w: Array) -> Any:
        def total(x: Array, w: Array) -> Array:
            return jnp.sum(fn(x, w) ** 3)

        tangent = jax.jvp(total, (x, w), (jnp.ones_like(x), w))[1]
        curved = jax.jvp(jax.grad(total), (x, w), (jnp.cos(x), w))[1]
        twice = jax.grad(lambda x: jnp.sum(jax.grad(total, 1)(x, w) ** 2))(x)
        return tangent, curved, twice, jax.jacfwd(total)(x, w), jax.jacrev(fn)(x, w)

    def dense(x: Array, w: Array) -> Array:
        return jnp.tanh(x @ w)

    kept = functools.partial(derivatives, partir.opaque(dense, "b _, _ f -> b f"))
    args = normal(0, 8, 3), normal(1, 3, 4)
    agree(lambda x, w: kept(x, w), [BATCH], *args)
    assert_same(
        jax.jit(kept)(*args), jax.jit(functools.partial(derivatives, dense))(*args)
    )


def test_grouped_heads() -> None:
    def attend(q: Array, k: Array, v: Array) -> Array:
        k, v = (jnp.repeat(a, q.shape[1] // a.shape[1], axis=1) for a in (k, v))
        return plain_attention(q, k, v)

    kept = partir.opaque(attend, f"{HEADS} grouped=h", name="grouped")

    def gradient(q: Array, k: Array, v: Array) -> Any:
        return jax.grad(lambda *a: jnp.sum(kept(*a) ** 2), (0, 1, 2))(q, k, v)

    q, k, v = normal(0, 4, 8, 6, 4), normal(1, 4, 2, 6, 4), normal(2, 4, 2, 6, 4)
    examples = ManualPartition({"q": 0}, axis="B", name="examples")
    heads = ManualPartition({"q": 1}, axis="M", name="heads")
    p = agree(gradient, [examples, heads], q, k, v, strict=True)
    assert p.out_specs == (jax.P("B", "M"),) * 3
    assert sum(p.collectives.values()) == 0


def test_trees_options_keys_and_integers() -> None:
    def pick(tree: dict[str, Array], key: Array, *, scale: float) -> Any:
        noise = jax.vmap(lambda k: jax.random.normal(k, (3,)))(key)
        gain = tree["x"] * scale + noise
        return {"y": gain, "n": tree["n"] + 1}

    kept = partir.opaque(pick, "b, b _, b -> b, b _")

    def gradient(x: Array, n: Array, key: Array) -> Any:
        def total(x: Array) -> Any:
            made = kept({"x": x, "n": n}, key, scale=3.0)
            return jnp.sum(made["y"] ** 2), made["n"]

        return jax.grad(total, has_aux=True)(x)

    keys = jax.random.split(jax.random.key(0), 8)
    args = normal(0, 8, 3), jnp.arange(8), keys
    p = partir.partition(gradient, MESH, [BATCH], args=args, strict=True)
    assert_same(p.compile()(*args), jax.jit(gradient)(*args))


def test_residuals_that_have_no_names_are_computed_again() -> None:
    """The mean over what is split can't be saved: each part has its own."""

    def fn(x: Array) -> Array:
        return jnp.sum(jnp.exp(jnp.sin(x).sum(axis=1)))

    kept = partir.opaque(fn, "b _ -> () sum=b", name="total")
    p = agree(lambda x: jax.grad(kept)(x), [BATCH], normal(0, 8, 3))
    assert sum(p.collectives.values()) == 0


# What can't be


def refused(function: Callable[..., Any], *args: Any) -> str:
    def export() -> None:
        partir.partition(function, MESH, [BATCH], args=args).stablehlo()

    with pytest.raises(partir.PartitionError) as error:
        export()
    return str(error.value)


X = jax.ShapeDtypeStruct((8, 6), "float64")


def test_rule_must_fit_the_arrays() -> None:
    kept = partir.opaque(project, PROJECTED)
    assert refused(lambda x: kept(x[0], x), X) == (
        'partir.opaque(project): rule "b d, d f -> b f sum=d": operand 0 is '
        'float64[6] with 1 dimensions, the rule names 2: "b d"'
    )


def test_sizes_must_follow_the_operands() -> None:
    kept = partir.opaque(lambda x: jnp.zeros((8, 6)) + x.sum(), "b _ -> b _", name="f")
    message = refused(lambda x: kept(x), X)
    assert message.startswith(
        "partir.opaque(f) gives [8,6] for tiles [2,6], but by its rule "
        '"b _ -> b _" it gives [2,6]'
    )


def test_failing_at_local_shapes() -> None:
    kept = partir.opaque(lambda x: x + jnp.ones((8, 1)), "b _ -> b _", name="f")
    message = refused(lambda x: kept(x), X)
    assert message.startswith(
        "partir.opaque(f) can't be traced at its local shapes [2,6], which its rule "
        '"b _ -> b _" allows (whole: [8,6]). TypeError: '
    )


def test_captured_values_and_effects() -> None:
    def captures(x: Array) -> Array:
        return partir.opaque(lambda y: y + x, "b _ -> b _", name="f")(x)

    assert "captures a value that is being traced" in refused(captures, X)

    def prints(x: Array) -> Array:
        jax.debug.print("{}", x)
        return x

    kept = partir.opaque(prints, "b _ -> b _")
    assert refused(kept, X).startswith("partir.opaque(prints) has effects (Debug)")


def test_a_copy_in_another_process_can_be_partitioned() -> None:
    args = jax.ShapeDtypeStruct((8, 4, 8, 8), "float64")
    program = pickle.loads(pickle.dumps(partir.trace(lambda x: flash(x, x, x), args)))
    p = partir.partition(program, MESH, [BATCH], strict=True)
    assert p.out_specs == jax.P("B")
    with pytest.raises(partir.PartitionError, match="function of the process that"):
        p.stablehlo()


def test_options_are_no_arrays() -> None:
    kept = partir.opaque(project, PROJECTED)
    assert 'keyword argument "w" is an option' in refused(lambda x: kept(x, w=x), X)
    assert "takes arrays, got 'fast'" in refused(lambda x: kept(x, "fast"), X)
    with pytest.raises(partir.PartitionError, match="opaque takes a function, got 3"):
        partir.opaque(3, "b -> b")  # type: ignore[arg-type]
