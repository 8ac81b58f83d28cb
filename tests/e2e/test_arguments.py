"""Every way to pass arguments that jax.jit has."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from tests.e2e.compare import MESH, assert_same
from tests.versions import explicit

ROWS = partir.ManualPartition({partir.optional("x"): 0}, axis="B", name="rows")
X = np.arange(16.0).reshape(8, 2)

pytestmark = pytest.mark.usefixtures("double")


def agree(fn: Any, *args: Any, schedule: Any = (ROWS,), **kwargs: Any) -> Any:
    """Call it partitioned and under jax.jit; both must give the same."""
    made = partir.jit(fn, MESH, list(schedule))(*args, **kwargs)
    assert_same(made, jax.jit(fn)(*args, **kwargs))
    return made


def names(fn: Any, *args: Any, **kwargs: Any) -> list[str]:
    program = partir.partition(fn, MESH, [], args, kwargs).program
    return [port.name for port in program.arguments]


# Static arguments


def test_static_arguments_by_position_and_name() -> None:
    def fn(x: Array, power: int, *, mode: str = "add") -> Array:
        return x**power if mode == "power" else x + power

    by_number = partir.jit(fn, MESH, [ROWS], static_argnums=1, static_argnames="mode")
    by_name = partir.jit(fn, MESH, [ROWS], static_argnames=("power", "mode"))
    for step in (by_number, by_name):
        assert_same(step(X, 2), jnp.asarray(X + 2))
        assert_same(step(X, power=2), jnp.asarray(X + 2))
        assert_same(step(x=X, power=3, mode="power"), jnp.asarray(X**3))
        assert_same(step(X, 3, mode="power"), jnp.asarray(X**3))


def test_static_arguments_of_equal_value_and_other_type() -> None:
    step = partir.jit(lambda x, n: x + n, MESH, [ROWS], static_argnums=1)
    whole = np.arange(8)
    assert step(whole, 1).dtype == jnp.int64
    assert step(whole, 1.0).dtype == jnp.float64


def test_mistakes_about_static_arguments() -> None:
    def fn(x: Array, n: Any = 1) -> Array:
        return x

    for options, message in [
        ({"static_argnums": 5}, "static_argnums has 5.*takes 2"),
        ({"static_argnames": "m"}, 'static_argnames has "m"'),
        ({"donate_argnames": "z"}, 'donate_argnames has "z"'),
        ({"static_argnums": 1, "donate_argnums": 1}, '"n" is both static and donated'),
    ]:
        with pytest.raises(partir.PartitionError, match=message):
            partir.jit(fn, MESH, [ROWS], **options)
    step = partir.jit(fn, MESH, [ROWS], static_argnames="n")
    with pytest.raises(partir.PartitionError, match='"n" is a list, which has no hash'):
        step(X, [1])


# Positional, by name, defaults


def test_keyword_default_and_rest() -> None:
    def fn(x: Array, /, y: Array, *args: Array, z: float = 2.0, **kw: Array) -> Any:
        return x + y * z, args, kw

    agree(fn, X, X + 1)
    agree(fn, X, y=X)
    agree(fn, X, X, X, X + 3, z=0.5, w=X, v=np.ones(3))
    made = names(fn, X, X, X, X, z=1.0, w=X)
    assert made == ["x", "y", "args/0", "args/1", "kw/w", "z"]
    tiled = partir.ManualPartition({"args/0": 0, "kw/w": 0}, axis="B", name="tiled")
    agree(fn, X, X, X, w=X, schedule=[tiled])


def test_names_of_functions_without_named_parameters() -> None:
    assert names(lambda *xs, **more: (xs, more), X, a=X) == ["xs/0", "more/a"]
    assert names(lambda **more: more, a=X) == ["more/a"]
    assert names(jnp.add, X, X) == ["args/0", "args/1"]


# What arguments may be


def test_python_scalars_are_weakly_typed() -> None:
    x = jnp.ones((8, 2), jnp.bfloat16)
    _, scale = agree(lambda x, s: (x.astype(float) * s, s + 1), x, 2.0)
    assert scale.weak_type
    assert partir.jit(lambda x, s: x * s, MESH, [ROWS])(x, 2.0).dtype == jnp.bfloat16
    assert partir.jit(lambda x, s: x * s, MESH, [ROWS])(x, True).dtype == jnp.bfloat16
    strong = partir.jit(lambda x, s: x * s, MESH, [ROWS])(x, np.float32(2))
    assert strong.dtype == jnp.float32


def test_numpy_and_other_inputs() -> None:
    agree(lambda x, n, b: (x * n, b), X, np.int64(3), np.bool_(True))
    agree(lambda x: x.astype(int), np.arange(8, dtype=np.int8))
    agree(lambda x: jnp.conj(x), np.arange(8) * 1j)


@pytest.mark.parametrize("wide", [True, False])
def test_widths_follow_the_setting(wide: bool) -> None:
    with jax.enable_x64(wide):
        step = partir.jit(lambda x, n: (x * 2, x.sum() + n), MESH, [ROWS])
        made = step(X, 1)
        width = 64 if wide else 32
        assert {leaf.dtype for leaf in made} == {jnp.dtype(f"float{width}")}


def test_another_setting_is_another_program() -> None:
    """The arguments are the same; what is made inside is not."""
    x = np.ones(8, np.float32)
    step = partir.jit(lambda x: jnp.linspace(0.0, 1.0, 8) * x, MESH, [ROWS])
    for wide in (True, False, True):
        with jax.enable_x64(wide):
            assert step(x).dtype == jax.jit(step.__wrapped__)(x).dtype
            assert step(x).dtype == (jnp.float64 if wide else jnp.float32)


def test_nothing_and_empty_containers() -> None:
    def fn(x: Array, more: Any) -> Any:
        return {"x": x, "more": more, "none": None, "empty": [(), {}]}

    agree(fn, X, {"a": None, "b": (), "c": [None, {}]})
    agree(fn, X, None)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * 2,
        lambda x: {"a": [x, (x + 1, {"b": x.sum()})]},
        lambda x: None,
        lambda x: (),
        lambda x: (x, x),
        lambda x: (3, 2.5, True, jnp.ones(4), np.arange(3)),
    ],
)
def test_results_of_any_form(fn: Any) -> None:
    agree(fn, X)


def test_unused_arguments() -> None:
    def fn(a: Any, x: Array, b: Any) -> Array:
        return x + 1

    tiled = partir.ManualPartition({"b/u": 0}, axis="M", name="tiled")
    agree(fn, np.ones(3), X, {"u": np.ones(4), "v": 1.0}, schedule=[ROWS, tiled])
    assert names(fn, 1.0, X, {"u": X}) == ["a", "x", "b/u"]


def test_no_arguments() -> None:
    agree(lambda: jnp.arange(8) * 2)


def test_leaves_that_are_no_arrays_are_static() -> None:
    def fn(x: Array, how: Any) -> Any:
        return how["fn"](x), how["label"]

    how = {"fn": jnp.sin, "label": "sine"}
    made, label = partir.jit(fn, MESH, [ROWS])(X, how)
    assert label == "sine"
    assert_same(made, jnp.sin(X))


# Captured arrays


def test_captured_arrays_are_arguments() -> None:
    table, other = jnp.arange(32.0).reshape(2, 16), np.ones((16, 4))
    scalar = jnp.float64(3)

    def fn(x: Array) -> Array:
        def layer(carry: Array, row: Array) -> tuple[Array, None]:
            return carry + row * jax.jit(lambda t: t @ other)(table).sum(), None

        hidden = jax.checkpoint(lambda x: jnp.tanh(x @ table))(x)
        return jax.lax.scan(layer, hidden @ other, table[:, :4])[0] * scalar

    assert names(fn, X) == ["captured/0", "captured/1", "x"]
    columns = partir.ManualPartition({"captured/0": 1}, axis="M", name="columns")
    agree(fn, X, schedule=[ROWS, columns])


def test_captured_arrays_are_placed_at_the_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = np.arange(32.0).reshape(2, 16)

    def fn(x: Array) -> Array:
        return jnp.tanh(x @ table[:, :2])

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("these devices are only compiled for")

    shape = jax.ShapeDtypeStruct((8, 2), "float64")
    done = partir.partition(fn, MESH, [], args=(shape,))
    with monkeypatch.context() as patch:
        patch.setattr(jax, "device_put", refuse)
        compiled = done.compile()
        assert compiled.lower(shape).compile().memory_analysis() is not None
    x = jnp.ones(shape.shape)
    assert jnp.allclose(jax.jit(lambda x: compiled(x) + 1)(x), fn(x) + 1)
    assert jnp.allclose(compiled(x), fn(x))


def test_a_parameter_called_captured() -> None:
    table = jnp.ones(8)
    with pytest.raises(partir.PartitionError, match='rename the parameter "captured"'):
        names(lambda captured: captured[0] + table, [X[:, 0]])


# What functions may be


class Scale:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: Array) -> Array:
        return x * self.by

    def method(self, x: Array) -> Array:
        return x * self.by + 1

    @partir.jit(mesh=MESH, schedule=[ROWS], static_argnums=0)
    def decorated(self, x: Array) -> Array:
        return x * self.by - 1


def test_partials_objects_and_methods() -> None:
    def fn(a: Any, x: Array, b: float = 1.0) -> Array:
        return a * x + b

    agree(functools.partial(fn, 2.0), X)
    agree(functools.partial(fn, jnp.asarray(X), b=3.0), X)
    agree(Scale(2.0), X)
    agree(Scale(2.0).method, X)
    assert_same(Scale(3.0).decorated(X), jnp.asarray(X * 3 - 1))
    assert_same(Scale(4.0).decorated(X), jnp.asarray(X * 4 - 1))


def test_decorators() -> None:
    @partir.jit(mesh=MESH, schedule=[ROWS])
    def doubled(x: Array) -> Array:
        """Twice as much."""
        return 2 * x

    assert doubled.__name__ == "doubled"
    assert doubled.__doc__ == "Twice as much."
    assert repr(doubled) == "<partir.jit(doubled) on B=4,M=2: rows>"
    assert_same(doubled(X), jnp.asarray(2 * X))
    with pytest.raises(partir.PartitionError, match="partitioned already"):
        partir.jit(doubled, MESH, [ROWS])
    with pytest.raises(partir.PartitionError, match="takes a function"):
        partir.jit(3, MESH, [ROWS])


# Mistakes


def test_shapes_can_not_be_run() -> None:
    step = partir.jit(lambda x: x * 2, MESH, [ROWS])
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    for _ in ("cold", "warm"):
        with pytest.raises(partir.PartitionError, match='"x" is a shape, not an array'):
            step(shape)
        step(X)


def test_objects_that_are_arrays() -> None:
    class Lazy:
        def __jax_array__(self) -> Array:
            return jnp.asarray(X)

    step = partir.jit(lambda x: x * 2, MESH, [ROWS])
    for _ in ("cold", "warm"):
        assert_same(step(Lazy()), jnp.asarray(X * 2))


def test_captured_values_that_can_not_be() -> None:
    def outer(value: Array) -> Array:
        return partir.jit(lambda x: x + value, MESH, [ROWS])(X)

    with pytest.raises(partir.PartitionError, match="captures a value of a function"):
        jax.jit(outer)(X)
    value = jax.device_put(X, jax.NamedSharding(explicit(B=4, M=2), jax.P("B")))
    with pytest.raises(partir.PartitionError, match="mesh with Explicit axes: pass it"):
        outer(value)


def test_errors_of_the_function_are_its_own() -> None:
    def fn(x: Array) -> Array:
        raise ValueError("something in the model")

    with pytest.raises(ValueError, match="something in the model"):
        partir.jit(fn, MESH, [ROWS])(X)
    with pytest.raises(TypeError, match="positional argument"):
        partir.jit(lambda x: x, MESH, [ROWS])(X, X)
