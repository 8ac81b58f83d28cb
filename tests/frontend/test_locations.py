"""Source lines are the user's own, with the module path beside them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import optax
import pytest
from flax import nnx
from jax import Array

import partir
from partir.ir.source import Location, framework_of

HERE = "tests/frontend/test_locations.py"
X = jax.ShapeDtypeStruct((4, 8), "float32")


def line_of(text: str) -> int:
    """The first line of this file that holds a text."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def locations(program: partir.Program, kind: str = "dot_general") -> list[Location]:
    return [op.location for op in program.ops if op.signature.name == kind]


# Frameworks


class Block(nn.Module):
    @nn.compact
    def __call__(self, x: Array) -> Array:
        return x + nn.Dense(8, name="mlp")(nn.LayerNorm()(x))


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x: Array) -> Array:
        for i in range(2):
            x = Block(name=f"layer_{i}")(x)
        return x


class Nnx(nnx.Module):
    def __init__(self) -> None:
        self.inner = nnx.Linear(8, 8, rngs=nnx.Rngs(0))

    def __call__(self, x: Array) -> Array:
        return self.inner(x)


class Equinox(eqx.Module):
    inner: eqx.nn.Linear

    def __call__(self, x: Array) -> Array:
        return jax.vmap(self.inner)(x)


def haiku_net(x: Array) -> Array:
    return hk.nets.MLP([8, 8], name="head")(x)


HAIKU = hk.without_apply_rng(hk.transform(haiku_net))


def of_linen() -> Any:
    model = Linen()
    params = jax.eval_shape(model.init, jax.random.key(0), X)
    return model.apply, params


def of_nnx() -> Any:
    graph, params = nnx.split(Nnx())
    return (lambda params, x: nnx.merge(graph, params)(x)), params


def of_equinox() -> Any:
    return (lambda model, x: model(x)), Equinox(
        eqx.nn.Linear(8, 8, key=jax.random.key(0))
    )


def of_haiku() -> Any:
    return HAIKU.apply, jax.eval_shape(HAIKU.init, jax.random.key(0), X)


def training(apply: Callable[..., Any]) -> Callable[..., Any]:
    optimizer = optax.adam(1e-3)

    def step(params: Any, x: Array) -> Any:
        grads = jax.grad(lambda p: (apply(p, x) ** 2).sum())(params)
        updates, _ = optimizer.update(grads, optimizer.init(params))
        return optax.apply_updates(params, updates)

    return step


@pytest.mark.parametrize(
    ("make", "text", "scopes"),
    [
        (of_linen, "return x + nn.Dense", ["Linen/layer_0/mlp", "Linen/layer_1/mlp"]),
        (of_nnx, "return self.inner(x)", [""]),
        (of_equinox, "jax.vmap(self.inner)(x)", ["eqx.nn.Linear"]),
        (of_haiku, "hk.nets.MLP([8, 8]", ["head/linear_0", "head/linear_1"]),
    ],
)
def test_lines_of_frameworks_are_skipped(
    make: Callable[[], Any], text: str, scopes: list[str]
) -> None:
    apply, params = make()
    program = partir.trace(training(apply), params, X)
    found = locations(program)
    assert {where.line for where in found} == {line_of(text)}
    assert sorted({where.scope for where in found}) == scopes
    optimizer = locations(program, "sqrt")
    assert {where.line for where in optimizer} == {line_of("optimizer.update(grads")}
    lines = {where.line for where in [op.location for op in program.ops] if where.file}
    assert not any(op.location.framework for op in program.ops)
    assert lines <= {
        *range(line_of("class Block"), line_of("HAIKU = hk")),
        *range(line_of("def of_linen"), line_of("return step") + 1),
    }


def test_the_whole_stack_is_kept() -> None:
    model, params = of_linen()
    program = partir.trace(model, params, X)
    first, second = locations(program)
    assert str(first) == f"{HERE}:{first.line} in Linen/layer_0/mlp"
    assert (first.function, first.path) == (
        "Block.__call__",
        "jit(apply)/Linen/layer_0/mlp/dot_general",
    )
    framework, *own = map(str, first.frames)
    assert framework.startswith("flax/linen/linear.py:")
    assert framework.endswith(" (Dense.__call__)")
    assert own == [
        f"{HERE}:{first.line} (Block.__call__)",
        f"{HERE}:{line_of('x = Block(name=')} (Linen.__call__)",
        *own[2:],
    ]
    assert not any(frame.function == "<module>" for frame in first.frames)
    assert first.frames is second.frames


def test_a_stack_without_a_line_of_the_users() -> None:
    dense = nn.Dense(8)
    params = jax.eval_shape(dense.init, jax.random.key(0), X)
    (where,) = locations(partir.trace(dense.apply, params, X))
    assert where.framework == "flax"
    shown = f"flax/linen/linear.py:{where.line} in Dense"
    assert str(where) == f"{shown} (inside flax: no line of your own)"


def test_a_function_of_jax_itself() -> None:
    program = partir.trace(jnp.sin, X)
    assert str(program.ops[0].location) == "jit(sin)/sin"


# Calls


def test_a_function_that_jax_traced_for_another_caller() -> None:
    @jax.jit
    def first(x: Array) -> Array:
        return jax.nn.relu(x) @ x.T

    @jax.jit
    def second(x: Array) -> Array:
        x = jnp.sin(x)
        return jax.nn.relu(x) * 2

    for function in (first, second):
        program = partir.trace(jax.grad(lambda x, f=function: f(x).sum()), X)
        lines = {where.line for where in locations(program, "maximum")}
        text = "jax.nn.relu(x) " + ("@" if function is first else "*")
        assert lines == {line_of(text)}


def test_slices_of_two_scans_of_the_same_shapes() -> None:
    def both(x: Array, y: Array) -> tuple[Array, Array]:
        first = jax.lax.scan(lambda c, a: (c + a, None), x[0], x)[0]
        second = jax.lax.scan(lambda c, a: (c * a, None), y[0], y)[0]
        return first, second

    program = partir.trace(both, X, X)
    lines = [where.line for where in locations(program, "dynamic_slice")]
    assert lines == [line_of("first = jax.lax.scan"), line_of("second = jax.lax.scan")]


def test_calls_and_loops_keep_their_scopes() -> None:
    @jax.jit
    def attend(x: Array) -> Array:
        with jax.named_scope("attention"):
            return jnp.where(x > 0, x, 0) @ x.T @ x

    def body(x: Array, _: None) -> tuple[Array, None]:
        with jax.named_scope("layer"):
            return jax.checkpoint(lambda x: jnp.tanh(attend(x)))(x), None

    def model(x: Array) -> Array:
        with jax.named_scope("model"):
            return jax.lax.scan(body, x, None, length=3)[0].sum()

    program = partir.trace(jax.grad(model), X)
    products = locations(program)
    assert {where.scope for where in products} == {"model/layer/attention"}
    assert {where.line for where in products} == {line_of("jnp.where(x > 0, x, 0) @")}
    names = [frame.function.rpartition(".")[2] for frame in products[0].frames]
    assert (names[0], names[-1]) == ("attend", "model")
    assert len(set(names)) == len(names)
    (tanh,) = {where.scope for where in locations(program, "tanh")}
    assert tanh == "model/layer"


def test_what_the_user_set_about_locations() -> None:
    options = (
        "jax_include_full_tracebacks_in_locations",
        "jax_traceback_in_locations_limit",
    )
    before = [getattr(jax.config, option) for option in options]
    try:
        for option, value in zip(options, (False, 1), strict=True):
            jax.config.update(option, value)
        (where, _) = locations(partir.trace(*of_linen(), X))
        assert [getattr(jax.config, option) for option in options] == [False, 1]
    finally:
        for option, value in zip(options, before, strict=True):
            jax.config.update(option, value)
    assert where.line == line_of("return x + nn.Dense")


def test_a_copy_shares_stacks_too() -> None:
    program = pickle.loads(pickle.dumps(partir.trace(*of_linen(), X)))
    first, second = locations(program)
    assert first.frames
    assert first.frames is second.frames


def test_modules_from_elsewhere_keep_what_they_have() -> None:
    flax = "/opt/venv/lib/python3.12/site-packages/flax/linen/linear.py"
    stack = (
        f'callsite("Dense"("{flax}":7:0) at callsite("run"("/w/m.py":9:0) at "f"(#b)))'
    )
    program = partir.load(f"""
      #b = loc("/w/m.py":4:0)
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
        %0 = stablehlo.sine %x : tensor<4xf32> loc("jit(f)/net/sin"({stack}))
        %1 = stablehlo.tanh %0 : tensor<4xf32> loc("jit(f)/tanh"(#b))
        %2 = stablehlo.negate %1 : tensor<4xf32> loc("f"(#b))
        %3 = stablehlo.cosine %2 : tensor<4xf32> loc(fused["f"(#b), "g"(#b)])
        %4 = stablehlo.abs %3 : tensor<4xf32>
        return %4 : tensor<4xf32>
      }}""")
    assert [str(op.location) for op in program.ops] == [
        "/w/m.py:9 in net",
        "/w/m.py:4",
        "/w/m.py:4 (f)",
        "/w/m.py:4 (f)",
        "line 8",
    ]
    assert [frame.function for frame in program.ops[0].location.frames] == [
        "Dense",
        "run",
        "f",
    ]


# Scopes and files


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("", ""),
        ("add", ""),
        ("jit(f)/add", ""),
        ("jit(f)/jvp(net)/layer_0/jit(_where)/select_n", "net/layer_0"),
        ("jit(f)/vmap(jit(_take))/gather", ""),
        ("jit(f)/transpose(jvp(a/b))/mul", "a/b"),
        ("jit(f)/transpose(jvp())/while/body/closed_call/block/dot_general", "block"),
        ("jit(f)/body/cond/branch_1_fun/while/cond/lt", "body"),
        (
            "jit(f)/transpose(jvp(net))/mlp/jvp(net)/mlp/checkpoint"
            "/rematted_computation/sub",
            "net/mlp",
        ),
        ("jit(f)/transpose(jvp(net))/jvp(net)/remat2", "net"),
        ("jit(f)/transpose(jvp(net))/while/body/a/a/checkpoint/mul", "net/a"),
    ],
)
def test_scopes(path: str, scope: str) -> None:
    assert Location(path=path).scope == scope


@pytest.mark.parametrize(
    ("file", "framework"),
    [
        ("/home/me/model.py", None),
        ("/home/me/flax/model.py", None),
        ("/venv/lib/python3.11/site-packages/my_models/net.py", None),
        ("/venv/lib/python3.11/site-packages/optax/_src/update.py", "optax"),
        ("/usr/lib/python3.11/functools.py", "Python"),
        (optax.__path__[0] + "/_src/update.py", "optax"),
    ],
)
def test_files(file: str, framework: str | None) -> None:
    assert framework_of(file) == framework


def test_paths_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = Location("f", str(tmp_path / "nets" / "model.py"), 7)
    assert str(where) == f"{tmp_path}/nets/model.py:7 (f)"
    monkeypatch.chdir(tmp_path)
    assert str(where) == "nets/model.py:7 (f)"
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert str(where) == f"{tmp_path}/nets/model.py:7 (f)"
