"""jax's meshes: Explicit axes, another order of devices, a mesh that is set."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import partir
from tests.e2e.compare import MESH, assert_same
from tests.versions import explicit

BP = partir.ManualPartition({"x": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"w": 1}, axis="M", name="MP")
TYPES = [AxisType.Auto, AxisType.Explicit]

pytestmark = pytest.mark.usefixtures("double")


def step(w: Array, x: Array) -> tuple[Array, Array]:
    def loss_fn(w: Array) -> Array:
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    loss, grad = jax.value_and_grad(loss_fn)(w)
    return w - grad, loss


def make() -> tuple[Array, Array]:
    w, x = jax.random.normal(jax.random.key(0), (2, 16, 16))
    return w, x


def placed(mesh: jax.sharding.Mesh, array: Array, *spec: Any) -> Array:
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("donate", [False, True])
def test_arrays_on_a_mesh_of_jax(kind: AxisType, donate: bool) -> None:
    mesh = jax.make_mesh((4, 2), ("B", "M"), axis_types=(kind, kind))
    w, x = make()
    jitted = partir.jit(
        step, mesh, [BP, MP], donate_argnums=0 if donate else (), carry={"out/0": "w"}
    )
    theirs, ours = w, placed(mesh, w, None, "M")
    for _ in range(3):
        before, batch = ours, placed(mesh, x, "B")
        ours, loss = jitted(ours, batch)
        theirs, expected = jax.jit(step)(theirs, x)
        assert_same((ours, loss), (theirs, expected))
        assert before.is_deleted() == donate
        assert ours.sharding.mesh == mesh
    (compiled,) = jitted._compiled.values()
    assert compiled.jitted._cache_size() == 1
    ahead = jitted.lower(w, x).compile()
    assert_same(ahead(ours, batch), jax.jit(step)(theirs, x))


def test_host_arrays_and_keys_on_explicit_axes() -> None:
    mesh = explicit(B=4, M=2)
    keys = jax.random.split(jax.random.key(0), 4)
    rows = partir.ManualPartition({"x": 0, "keys": 0}, axis="B", name="rows")

    def fn(x: Array, keys: Array, scale: float) -> tuple[Array, Array, Array]:
        noise = jax.vmap(lambda key: jax.random.normal(key, (16,)))(keys)
        return x * scale + noise.sum(0), keys, scale * 2

    jitted = partir.jit(fn, mesh, [rows])
    x = np.arange(128.0).reshape(8, 16)
    expected = jax.jit(fn)(x, keys, 2.0)
    made = jitted(x, keys, 2.0)
    assert_same(made, expected)
    assert_same(jitted(x, made[1], 2.0), expected)
    assert_same(jitted(made[0], made[1], made[2]), jax.jit(fn)(*expected))
    (compiled,) = jitted._compiled.values()
    assert compiled.jitted._cache_size() <= 2  # one, and one that was given up


def test_arrays_of_the_other_kind_of_axes() -> None:
    """Explicit ones for a program on Auto axes, and the other way."""
    w, x = make()
    expected = jax.jit(step)(w, x)
    meshes = [jax.make_mesh((4, 2), ("B", "M"), axis_types=(k, k)) for k in TYPES]
    for ours, theirs in (meshes, meshes[::-1]):
        jitted = partir.jit(step, ours, [BP, MP], donate_argnums=0)
        for _ in ("cold", "warm"):
            columns = placed(theirs, w, None, "M")
            assert_same(jitted(columns, placed(theirs, x, "B")), expected)
            assert columns.is_deleted()


@pytest.mark.parametrize("kind", TYPES)
def test_inside_set_mesh(kind: AxisType) -> None:
    mesh = jax.make_mesh((4, 2), ("B", "M"), axis_types=(kind, kind))
    w, x = make()
    expected = jax.jit(step)(w, x)
    jitted = partir.jit(step, mesh, [BP, MP], carry={"out/0": "w"})
    with jax.set_mesh(mesh):
        made = jitted(jax.device_put(w, P(None, "M")), jax.device_put(x, P("B")))
        assert_same(made, expected)
        again = jitted(made[0], jax.device_put(x, P("B")))
        outer = jax.jit(lambda w, x: jitted(w, x)[1] + 1)(w, x)
        assert_same(outer, expected[1] + 1)
        assert_same(made[1] + 1, expected[1] + 1)
    outer = jax.jit(lambda w, x: jitted(w, x)[1])(w, x)
    assert_same(outer, expected[1])
    assert len(jitted._known) == 1
    assert_same(again, jax.jit(step)(expected[0], x))
    assert_same(jitted(w, x), expected)


def test_another_order_of_devices_and_axes() -> None:
    devices = np.array(jax.devices())[[3, 1, 0, 2, 7, 5, 6, 4]].reshape(2, 4)
    mesh = jax.sharding.Mesh(devices, ("M", "B"))
    w, x = make()
    expected = jax.jit(step)(w, x)
    for ours, given in ((mesh, None), (MESH, mesh), (MESH, list(devices.ravel()))):
        jitted = partir.jit(step, ours, [BP, MP], devices=given, carry={"out/0": "w"})
        assert_same(jitted(w, x), expected)
    columns = placed(mesh, w, None, "M")
    jitted = partir.jit(step, MESH, [BP, MP], devices=mesh)
    assert_same(jitted(columns, placed(mesh, x, "B")), expected)


def test_part_of_the_devices() -> None:
    w, x = make()
    jitted = partir.jit(step, {"B": 2, "M": 2}, [BP, MP], devices=jax.devices()[4:])
    made = jitted(w, x)
    assert made[0].sharding.device_set == set(jax.devices()[4:])
    assert_same(made, jax.jit(step)(w, x))


def test_axes_that_nothing_uses_and_axes_of_size_one() -> None:
    w, x = make()
    mesh = {"unused": 2, "B": 4, "M": 1}
    assert_same(partir.jit(step, mesh, [BP, MP])(w, x), jax.jit(step)(w, x))


def test_too_few_devices_and_wrong_meshes() -> None:
    w, x = make()
    with pytest.raises(partir.PartitionError, match=r"needs 16 devices.*there are 8"):
        partir.jit(step, {"B": 8, "M": 2}, [BP, MP])(w, x)
    other = explicit(B=8)
    with pytest.raises(partir.PartitionError, match="axes must be the same"):
        partir.jit(step, MESH, [BP, MP], devices=other)(w, x)


def test_a_committed_array_is_never_moved() -> None:
    w, x = make()
    mesh = explicit(B=4, M=2)
    jitted = partir.jit(step, mesh, [BP, MP])
    for _ in ("cold", "warm"):
        for wrong in (
            jax.device_put(w, jax.devices()[0]),
            placed(mesh, w, "M"),
            placed(explicit(M=2), w, None, "M"),
        ):
            with pytest.raises(partir.PartitionError, match=r'"w" lies.*wants.*"M|\'M'):
                jitted(wrong, x)
        jitted(w, x)
