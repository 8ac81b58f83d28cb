"""Tags: they name values, through every transformation, in the user's dimensions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, P, lax

import partir
from partir import ManualPartition

MESH = {"B": 4, "M": 2}
X, W = (jax.ShapeDtypeStruct((8, 16), "float32"),) * 2
WIDE = jax.ShapeDtypeStruct((16, 16), "float32")


class Look:
    """A tactic of the user's own that keeps what it sees."""

    name = "look"

    def __init__(self, pattern: str = "**") -> None:
        self.pattern = pattern
        self.seen: list[tuple[str, tuple[int, ...]]] = []

    def apply(self, partition: partir.Partition) -> None:
        named = {value.name for value in partition.values("**")}
        assert named
        for value in partition.values(self.pattern):
            self.seen.append((value.name, value.shape))


def tags_of(fn: Any, *args: Any) -> list[tuple[str, tuple[int, ...]]]:
    program = partir.trace(fn, *args)
    return [
        (tag.name, tuple(program.types[tag.value].shape[d] for d in tag.dims))
        for tag in program.tags
    ]


def hidden(x: Array, w: Array) -> Array:
    return jnp.sum(jnp.tanh(partir.tag(x @ w, "hidden")))


def test_tag_changes_nothing() -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    assert jax.jit(lambda x: partir.tag(x, "x") + 1)(x).tolist() == (x + 1).tolist()
    tagged = partir.tag({"a": x, "b": 1}, "tree")
    assert np.asarray(tagged["a"]).tolist() == x.tolist()
    assert tagged["b"] == 1


def test_tag_is_tiled_like_an_argument() -> None:
    tactic = ManualPartition({"hidden": 1}, axis="M")
    p = partir.partition(hidden, MESH, [tactic], args=(X, WIDE))
    assert p.in_specs == (P(), P(None, "M"))


def test_tag_of_a_tree_has_its_keys() -> None:
    def fn(x: Array) -> Array:
        made = partir.tag({"q": x * 2, "k": [x * 3]}, "heads")
        return made["q"] @ made["k"][0].T

    assert tags_of(fn, X) == [("heads/k/0", (8, 16)), ("heads/q", (8, 16))]


def test_grad_names_the_cotangent() -> None:
    found = tags_of(jax.grad(hidden, argnums=1), X, WIDE)
    assert found == [("hidden", (8, 16)), ("hidden/grad", (8, 16))]


def test_the_cotangent_can_be_tiled_alone() -> None:
    def fn(x: Array, w: Array) -> Array:
        return jnp.sum(partir.tag(x @ w, "hidden") ** 2)

    tactic = ManualPartition({"hidden/grad": 0}, axis="B")
    p = partir.partition(jax.grad(fn), MESH, [tactic], args=(X, WIDE))
    assert p.in_specs[0] == P("B")


def test_second_derivatives_trace() -> None:
    def fn(x: Array) -> Array:
        return jnp.sum(partir.tag(jnp.sin(x), "s") ** 3)

    def twice(x: Array) -> Array:
        return jax.grad(lambda x: jnp.sum(jax.grad(fn)(x) ** 2))(x)

    names = {name for name, _ in tags_of(twice, X)}
    assert {"s", "s/grad"} <= names
    assert not any(name.endswith("/grad/grad") for name in names)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_vmap_keeps_the_users_dimensions(axis: int) -> None:
    """The batch dimension may end up anywhere, also in the middle."""

    def one(x: Array) -> Array:
        return partir.tag(x, "inner") * 2

    sizes = [3, 5]
    sizes.insert(axis, 4)
    x = jax.ShapeDtypeStruct(tuple(sizes), "float32")
    mapped = jax.vmap(one, in_axes=axis, out_axes=axis)
    assert tags_of(mapped, x) == [("inner", (3, 5))]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_vmap_tiles_the_users_dimension(axis: int, dim: int) -> None:
    def one(x: Array) -> Array:
        return partir.tag(x, "inner") * 2

    x = jax.ShapeDtypeStruct((8, 8, 8), "float32")
    mapped = jax.vmap(one, in_axes=axis, out_axes=axis)
    tactic = ManualPartition({"inner": dim}, axis="B")
    p = partir.partition(mapped, MESH, [tactic], args=(x,))
    kept = [d for d in range(3) if d != axis]
    want = P(*["B" if d == kept[dim] else None for d in range(kept[dim] + 1)])
    assert p.in_specs == (want,)


def test_vmap_of_grad() -> None:
    found = tags_of(
        jax.vmap(jax.grad(hidden), in_axes=(1, None)),
        jax.ShapeDtypeStruct((8, 5, 16), "float32"),
        WIDE,
    )
    assert found == [("hidden", (8, 16)), ("hidden/grad", (8, 16))]


def test_one_tag_in_several_layers() -> None:
    def layers(x: Array, w: Array) -> Array:
        for _ in range(3):
            x = partir.tag(jnp.tanh(x @ w), "activations")
        return x

    look = Look("activations")
    tactic = ManualPartition({"activations": 0}, axis="B")
    p = partir.partition(layers, MESH, [look, tactic], args=(X, WIDE))
    assert look.seen == [("activations", (8, 16))] * 3
    assert len(p.steps[1].actions) == 3


def scanned(x: Array, weights: Array) -> Array:
    def layer(x: Array, w: Array) -> tuple[Array, None]:
        x = partir.tag(x, "before")
        return partir.tag(jnp.tanh(x @ w), "after"), None

    return jnp.sum(lax.scan(layer, x, weights)[0])


STACKED = jax.ShapeDtypeStruct((3, 16, 16), "float32")


def test_scan_keeps_tags() -> None:
    assert tags_of(scanned, X, STACKED) == [("before", (8, 16)), ("after", (8, 16))]


@pytest.mark.parametrize("name", ["before", "after"])
def test_tag_in_a_scan_tiles_the_carry(name: str) -> None:
    tactic = ManualPartition({name: 0}, axis="B")
    p = partir.partition(scanned, MESH, [tactic], args=(X, STACKED))
    assert p.in_specs == (P("B"), P())


def test_grad_of_scan_keeps_tags() -> None:
    names = [name for name, _ in tags_of(jax.grad(scanned), X, STACKED)]
    assert sorted(set(names)) == ["after", "after/grad", "before", "before/grad"]


def test_remat_names_both_copies() -> None:
    fn = jax.grad(jax.checkpoint(hidden), argnums=1)
    found = tags_of(fn, X, WIDE)
    assert {name for name, _ in found} == {"hidden", "hidden/grad"}


def test_tag_inside_jit_and_custom_vjp() -> None:
    @jax.custom_vjp
    def double(x: Array) -> Array:
        return partir.tag(2 * x, "double")

    double.defvjp(lambda x: (double(x), None), lambda _, ct: (2 * ct,))
    found = tags_of(jax.grad(lambda x: jnp.sum(jax.jit(double)(x))), X)
    assert ("double", (8, 16)) in found


def test_tag_on_an_argument_answers_to_both_names() -> None:
    def fn(x: Array) -> Array:
        return partir.tag(x, "input") * 2

    look = Look("input")
    tactic = ManualPartition({"input": 0}, axis="B")
    p = partir.partition(fn, MESH, [look, tactic], args=(X,))
    assert look.seen == [("input", (8, 16))]
    assert p.in_specs == (P("B"),)


def test_callable_hears_the_tags_name() -> None:
    asked = []

    def rule(name: str, sizes: tuple[int, ...], dtype: str) -> Any:
        asked.append((name, sizes))
        return partir.UNKNOWN

    def one(x: Array) -> Array:
        return partir.tag(x, "inner") * 2

    x = jax.ShapeDtypeStruct((3, 4, 5), "float32")
    tactic = ManualPartition({"inner": rule}, axis="B")
    partir.partition(jax.vmap(one, in_axes=1), MESH, [tactic], args=(x,))
    assert asked == [("inner", (3, 5))]
