"""Partitioned programs that get mistakes: small ones, of all kinds of collectives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

import partir
from benchmarks.models import mlp, scanned, suite, transformer

MESH = {"B": 4, "M": 2}
SCHEDULES = ("BP+MP", "BP+MP+Z3")


def _shape(*sizes: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


class Prepared(NamedTuple):
    """A program, traced, and how it is to be partitioned."""

    program: Any
    mesh: dict[str, int]
    tactics: list[Any]
    options: dict[str, Any]

    def partitioned(self) -> Any:
        """Partition it."""
        return partir.partition(self.program, self.mesh, self.tactics, **self.options)


Named = tuple[str, Callable[[], Prepared]]


def _steps() -> Iterator[Named]:
    """Training steps of the benchmark models, at small sizes."""
    config = mlp.Config(blocks=2, width=8, hidden=8, batch=32)
    args = mlp.example_args(config)[0]
    small = transformer.Config.small(
        layers=1, width=32, head_dim=8, hidden=64, vocab=64, sequence=16
    )
    looped = scanned.example_args()[0]
    models = (
        suite.Model("mlp", mlp.train_step, args, mlp.BATCH, mlp.MODEL),
        suite.Model(
            "scanned", scanned.train_step, looped, scanned.BATCH, scanned.MODEL
        ),
        suite.transformer_model("transformer", small),
    )
    for model in models:
        for name in SCHEDULES:
            tactics = model.schedules()[name]
            yield f"{model.name} {name}", lambda m=model, t=tactics: _step(m, t)


def _step(model: suite.Model, tactics: list[Any]) -> Prepared:
    program = partir.trace(model.step, *model.args)
    return Prepared(program, MESH, tactics, {"donate_argnums": (0, 1)})


def _convolved(x: jax.Array, w: jax.Array) -> jax.Array:
    y = lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    pool = (1, 2, 2, 1)
    return lax.reduce_window(jnp.tanh(y), 0.0, lax.add, pool, pool, "VALID")


def _shifted(x: jax.Array) -> jax.Array:
    """Neighbours, an edge, and a roll."""
    padded = jnp.pad(x, ((0, 0), (2, 1)), constant_values=1.0)
    return jnp.roll(x, 3, 1) * padded[:, 1:-2] + x[:, ::-1]


def _branched(x: jax.Array, n: jax.Array) -> jax.Array:
    """A branch, a clamp, numbers of rows, and a loop of unknown length."""
    rows = jnp.clip(jnp.arange(x.shape[0]), 2, 9)[:, None].astype(x.dtype)
    y = lax.cond(n > 3, lambda v: jnp.exp(v), lambda v: v * 3 - rows, x)
    return lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 0.5 + y, c[1]), (0, y, x)
    )[2]


def _uneven(x: jax.Array, w: jax.Array) -> jax.Array:
    """Thirteen rows over four devices."""
    y = jnp.sin(x[:13] @ w)
    return jnp.mean(y * y, 0) + y.sum(0)


def _mixed(x: jax.Array, w: jax.Array) -> jax.Array:
    """Rows that go from one dimension to another."""
    y = jnp.cumsum(x, 1) @ w
    return jnp.sort(y, 0) / jnp.linalg.norm(y)


def _graded(fn: Callable[..., jax.Array], count: int) -> Callable[..., Any]:
    def both(*args: Any) -> Any:
        def loss(*inner: Any) -> jax.Array:
            return jnp.sum(jnp.sin(fn(*inner, *args[count:])))

        return jax.value_and_grad(loss, tuple(range(count)))(*args[:count])

    return both


def _functions() -> Iterator[Named]:
    images = (_shape(2, 16, 8, 2), _shape(3, 3, 2, 4))
    cases: tuple[tuple[str, Any, tuple[Any, ...], dict[str, int]], ...] = (
        ("windows", _graded(_convolved, 2), images, {"args/0": 1}),
        ("shifts", _graded(_shifted, 1), (_shape(4, 32),), {"args/0": 1}),
        ("branches", _branched, (_shape(16, 4), _shape(dtype="int32")), {"x": 0}),
        ("uneven", _uneven, (_shape(16, 8), _shape(8, 4)), {"x": 0}),
        ("moves", _mixed, (_shape(8, 16), _shape(16, 8)), {"x": 1}),
    )
    for name, fn, args, tiles in cases:
        yield name, lambda f=fn, a=args, t=tiles: _function(f, a, t)


def _function(fn: Any, args: tuple[Any, ...], tiles: dict[str, int]) -> Prepared:
    program = partir.trace(fn, *args)
    names = [port.name for port in program.arguments]
    chosen = {
        name if name in names else names[int(name.rpartition("/")[2])]: dim
        for name, dim in tiles.items()
    }
    tactics = [partir.ManualPartition(chosen, axis="B")]
    return Prepared(program, {"B": 4}, tactics, {})


ZOO = ("llama", "conv_attention", "vit", "bert", "graph_network")


def _zoo() -> Iterator[Named]:
    """Steps as authors wrote them, at tiny sizes and in 64-bit types."""
    from benchmarks.zoo import CASES

    for name in ZOO:
        yield f"zoo {name}", lambda n=name: _of_zoo(CASES[n])


def _of_zoo(build: Callable[[], Any]) -> Prepared:
    with jax.enable_x64(True):
        case = build()
        program = partir.trace(case.step, *case.args)
        return Prepared(program, MESH, list(case.schedule), {})


def named_programs(*only: str) -> Iterator[Named]:
    """Programs by name, to be traced; those alone with one of these in it."""
    for name, make in (*_functions(), *_steps(), *_zoo()):
        if not only or any(part in name for part in only):
            yield name, make


def programs(*only: str) -> Iterator[tuple[str, Any]]:
    """The same, partitioned."""
    for name, make in named_programs(*only):
        yield name, make().partitioned()
