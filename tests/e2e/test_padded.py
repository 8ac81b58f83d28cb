"""Arguments and state whose size does not divide, padded by choice."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir import ManualPartition, padded
from partir.execute.padded_arrays import Uneven
from partir.mesh import Mesh
from tests.e2e.compare import QUICK, assert_same

pytestmark = pytest.mark.usefixtures("double")

WORDS = 13


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def means(x: Array, w: Array) -> Array:
    return jnp.tanh(x @ w).mean(0)


@pytest.mark.parametrize("rows", [10, 11, 13, 8])
def test_rows_of_an_argument(rows: int) -> None:
    """As the last batch of an epoch; nan in the padding would show."""
    x, w = normal(0, rows, 3), normal(1, 3, 5)
    tactic = ManualPartition({"x": padded(0)}, axis="B", name="BP")
    p = partir.partition(means, {"B": 4}, [tactic], args=(x, w), compiler_options=QUICK)
    assert p.in_specs[0] == jax.P("B")
    assert p.collectives["all_reduce"] == 1
    run = p.compile()
    assert_same(run(x, w), means(x, w))
    placed = p.shard(x)
    assert placed.shape == (-(-rows // 4) * 4, 3)
    garbage = jnp.where(np.arange(len(placed))[:, None] < rows, placed, jnp.nan)
    assert_same(run(jax.device_put(garbage, placed.sharding), w), means(x, w))
    assert_same(run(jnp.asarray(x), w), means(x, w))


def test_a_call_inside_of_jit() -> None:
    x, w = normal(0, 10, 3), normal(1, 3, 5)
    tactic = ManualPartition({"x": padded(0)}, axis="B")
    run = partir.jit(means, {"B": 4}, [tactic])
    assert_same(jax.jit(lambda x, w: run(x, w) * 2)(x, w), means(x, w) * 2)


def loss(params: dict[str, Array], tokens: Array) -> Array:
    hidden = params["table"][tokens]
    logits = hidden @ params["table"].T
    chosen = jnp.take_along_axis(logits, tokens[:, None], 1)
    return jnp.mean(jax.nn.logsumexp(logits, 1) - chosen[:, 0])


def step(params: Any, tokens: Array) -> tuple[Any, Array]:
    value, grads = jax.value_and_grad(loss)(params, tokens)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


@pytest.mark.parametrize("mesh", [{"M": 4}, {"M": 3}, {"M": 2, "N": 2}])
def test_state_stays_padded_from_call_to_call(mesh: dict[str, int]) -> None:
    """A vocabulary that does not divide; three steps, the state handed on."""
    schedule = [
        ManualPartition({"params/table": padded(0)}, axis=axis, name=axis)
        for axis in mesh
    ]
    run = partir.jit(step, mesh, schedule, donate_argnums=0, compiler_options=QUICK)
    tokens = np.arange(8) % WORDS
    params: Any = {"table": normal(0, WORDS, 4)}
    record = run.partitioned(params, tokens)
    state, wanted = params, params
    for _ in range(3):
        state, value = run(state, tokens)
        wanted, expected = step(wanted, tokens)
        assert_same(value, expected)
        whole, _ = record.unpadded((state, value))
        assert_same(whole, wanted)
    assert len(run._known) == 1  # no second trace for the padded shape
    size = state["table"].shape[0]
    assert size % record.mesh.size == 0
    assert size > WORDS
    assert record.steps[-1].spmd.out_tilings[0][0] == tuple(mesh)


def test_an_array_as_large_as_a_padded_one_is_not_padded() -> None:
    """Batches of 10 lie as 12 rows; those of 12 have 12."""

    def function(x: Array) -> tuple[Array, Array]:
        return x + 1, x.sum()

    def rows(count: int) -> np.ndarray:
        return np.ones((count, 1))

    tactic = ManualPartition({"x": padded(0)}, axis="B")
    run = partir.jit(function, {"B": 4}, [tactic], donate_argnums=0)
    state, first = run(rows(10))
    _, second = run(state)  # padded, as it came back
    assert (state.shape, first, second) == ((12, 1), 10, 20)
    assert [run(rows(n))[1] for n in (12, 10, 12, 11)] == [12, 10, 12, 11]
    with pytest.raises(partir.PartitionError, match=r"may be \(1[01], 1\), padded, or"):
        run(run(rows(10))[0])
    alone = run.partitioned(rows(10)).compile()
    assert alone(alone(rows(10))[0])[1] == 20
    with pytest.raises(partir.PartitionError, match="partitioned for"):
        alone(rows(12))


def test_it_is_recorded(tmp_path: Any) -> None:
    x, w = normal(0, 10, 3), normal(1, 3, 5)
    tactic = ManualPartition({"x": padded(0)}, axis="B", name="BP")
    p = partir.partition(means, {"B": 4}, [tactic], args=(x, w))
    assert "tile('x', 0, 'B', padded=True)" in str(p.schedule())
    p.save(tmp_path / "rows.json")
    again = [partir.load_schedule(tmp_path / "rows.json")]
    assert partir.partition(means, {"B": 4}, again, args=(x, w)).in_specs == p.in_specs


def test_messages() -> None:
    x, w = normal(0, 10, 3), normal(1, 3, 5)
    plain = ManualPartition({"x": 0}, axis="B")
    with pytest.raises(partir.PartitionError, match=r"partir\.padded\(0\) pads it"):
        partir.partition(means, {"B": 4}, [plain], args=(x, w))
    empty = ManualPartition({"x": padded(1)}, axis="B")  # 3 over 8: some would be empty
    with pytest.raises(partir.PartitionError, match="does not divide"):
        partir.partition(means, {"B": 8}, [empty], args=(x, w))
    with pytest.raises(partir.PartitionError, match="number of a dimension"):
        padded("rows")  # type: ignore[arg-type]
    p = partir.partition(
        means, {"B": 4}, [ManualPartition({"x": padded(0)}, axis="B")], args=(x, w)
    )
    on_device = jax.device_put(x, jax.devices()[0])
    with pytest.raises(partir.PartitionError, match="place it first"):
        p.compile()(on_device, w)
    with pytest.raises(partir.PartitionError, match="partitioned for"):
        p.compile()(x[:7], w)
    with pytest.raises(partir.PartitionError, match="all that a call of means"):
        p.unpadded((x, w))


@pytest.mark.parametrize("parts", [(4,), (2, 3), (3, 2, 2)])
def test_padding_and_cutting(parts: tuple[int, ...]) -> None:
    axes = tuple("ABC"[: len(parts)])
    mesh = Mesh(dict(zip(axes, parts, strict=True)))
    x = np.arange(2 * 29.0).reshape(2, 29)
    uneven = Uneven.of(x.shape, ((), axes), mesh)
    assert uneven is not None
    for array in (x, jnp.asarray(x)):
        longer = uneven.pad(array)
        assert longer.shape == uneven.padded
        assert longer.shape[1] % mesh.size == 0
        np.testing.assert_array_equal(uneven.cut(longer), x)
    assert Uneven.of((2, 24), ((), axes), mesh) is None
