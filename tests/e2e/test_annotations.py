"""Layouts that the model itself asks for: sharding constraints and shard_maps."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec as P

import partir
from partir.partition.check import check

MESH = {"B": 4, "M": 2}
ROWS = partir.ManualPartition({"x": 0}, axis="B", name="rows")


def constrained(x: Any, w: Any) -> Any:
    hidden = jax.lax.with_sharding_constraint(x @ w, P("B", "M"))
    return jnp.sin(hidden).sum()


def all_manual(x: Any, w: Any) -> Any:
    def local(x: Any, w: Any) -> Any:
        return jax.lax.psum(x @ w, "M") * (1 + jax.lax.axis_index("B"))

    specs = {"in_specs": (P("B", "M"), P("M", None)), "out_specs": P("B", None)}
    return jnp.sin(jax.shard_map(local, **specs)(x, w)).sum()


def partly_manual(x: Any, w: Any) -> Any:
    def local(x: Any, w: Any) -> Any:
        positive = jnp.where(x @ w > 0, 1.0, 0.5) * (2 + jax.lax.axis_index("M"))
        return jax.lax.psum(positive, "M")

    specs = {"in_specs": (P(None, "M"), P("M", None)), "out_specs": P(None, None)}
    mapped = jax.shard_map(local, **specs, axis_names={"M"}, check_vma=False)
    return jnp.sin(mapped(x, w)).sum()


@pytest.fixture
def arrays() -> Any:
    rng = np.random.default_rng(0)
    return rng.standard_normal((8, 4)), rng.standard_normal((4, 8))


def expected(fn: Any, arrays: Any) -> Any:
    types = (AxisType.Auto,) * 2
    with jax.set_mesh(jax.make_mesh((4, 2), ("B", "M"), axis_types=types)):
        return jax.jit(fn)(*arrays)


@pytest.mark.parametrize("schedule", [[], [ROWS]], ids=["alone", "with a tactic"])
@pytest.mark.parametrize(
    ("fn", "reduces", "spec"),
    [
        (constrained, 1, P("B")),
        (all_manual, 2, P("B", "M")),
        (partly_manual, 1, P(None, "M")),
    ],
)
@pytest.mark.usefixtures("x64")
def test_the_models_own_layout_is_kept(
    fn: Any, reduces: int, spec: P, schedule: Any, arrays: Any
) -> None:
    record = partir.partition(fn, MESH, schedule, args=arrays)
    for step in record.steps:
        check(step.state)
    assert record.steps[0].name == "the model's own"
    assert record.steps[0].collectives["all_reduce"] == reduces
    if not schedule:
        assert record.in_specs[0] == spec
    made = record.compile()(*arrays)
    np.testing.assert_allclose(made, expected(fn, arrays), rtol=1e-9)


def test_axes_that_the_mesh_does_not_have_are_left_out(arrays: Any) -> None:
    text = """
    module {
      sdy.mesh @mesh = <["data"=4]>
      func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
        %0 = sdy.sharding_constraint %x <@mesh, [{"data"}, {}]> : tensor<8x4xf32>
        return %0 : tensor<8x4xf32>
      }
    }"""
    program = partir.load(text)
    assert partir.partition(program, {"B": 4}, []).in_specs == (P(),)
    assert partir.partition(program, {"data": 4}, []).in_specs == (P("data"),)


def test_a_shard_map_needs_the_mesh_that_it_was_written_for() -> None:
    text = """
    module {
      sdy.mesh @mesh = <["a"=2]>
      func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
        %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"a"}]>]
            out_shardings=[<@mesh, [{"a"}]>] manual_axes={"a"} (%l: tensor<4xf32>) {
          %1 = stablehlo.add %l, %l : tensor<4xf32>
          sdy.return %1 : tensor<4xf32>
        } : (tensor<8xf32>) -> tensor<8xf32>
        return %0 : tensor<8xf32>
      }
    }"""
    program = partir.load(text)
    record = partir.partition(program, {"a": 2}, [])
    assert record.in_specs == (P("a"),)
    np.testing.assert_array_equal(record.compile()(np.ones(8, "f4"))[0], np.full(8, 2))
    with pytest.raises(partir.PartitionError, match="shard_map over mesh a=2"):
        partir.partition(program, {"b": 2}, [])


def test_axes_of_a_constraint_in_another_order_than_the_meshs() -> None:
    """A value is the same in every layout; that it is another one is said."""

    def doubled(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(2 * x, P(("M", "B")))

    x = np.arange(16.0, dtype="f4")
    record = partir.partition(doubled, MESH, [], args=(x,))
    assert record.out_specs == P(("B", "M"))
    (note,) = record.steps[0].notes
    assert "has axes M, B in this order; its tiles are laid out over B, M" in note
    assert "test_annotations.py" in note
    assert note in str(record)
    np.testing.assert_array_equal(record.compile()(x), 2 * x)


def numbered(in_specs: P, out_specs: P) -> Any:
    """A shard_map whose tiles depend on the devices that have them."""

    def local(x: Any) -> Any:
        place = 100 * jax.lax.axis_index("B") + 10 * jax.lax.axis_index("M")
        return x + place.astype(x.dtype)

    def model(x: Any) -> Any:
        specs = {"in_specs": in_specs, "out_specs": out_specs}
        return jax.shard_map(local, **specs)(x) * 2

    return model


def test_axes_of_a_shard_map_in_an_order_of_its_own() -> None:
    fn, x = numbered(P(("M", "B")), P(("M", "B"))), np.arange(16.0, dtype="f4")
    made = partir.partition(fn, MESH, [ROWS], args=(x,)).compile()(x)
    np.testing.assert_array_equal(made, expected(fn, (x,)))
    both = numbered(P(("M", "B")), P(("B", "M")))
    with pytest.raises(partir.PartitionError, match="the same order in all its in_sp"):
        partir.partition(both, MESH, [], args=(x,))


def over(mesh: jax.sharding.Mesh) -> Any:
    """A model with a shard_map over a mesh of its own, and a constraint beside it."""

    def model(x: Any, w: Any) -> Any:
        specs = {"in_specs": (P("B", "M"), P("M", None)), "out_specs": P("B", None)}
        local = jax.shard_map(lambda x, w: jax.lax.psum(x @ w, "M"), mesh=mesh, **specs)
        made = jax.lax.with_sharding_constraint(local(x, w), P("B"))
        return jnp.sin(made).sum()

    return model


@pytest.mark.usefixtures("x64")
def test_a_shard_map_with_a_mesh_of_its_own(arrays: Any) -> None:
    types = (AxisType.Auto,) * 2
    fn = over(jax.make_mesh((4, 2), ("B", "M"), axis_types=types))
    record = partir.partition(fn, MESH, [ROWS], args=arrays)
    assert record.in_specs[0] == P("B", "M")
    made = record.compile()(*arrays)
    np.testing.assert_allclose(made, np.sin(arrays[0] @ arrays[1]).sum(), rtol=1e-9)


@pytest.mark.parametrize(
    ("names", "types"),
    [(("B", "M"), AxisType.Explicit), (("b", "m"), AxisType.Auto)],
    ids=["explicit", "other names"],
)
def test_a_shard_map_with_another_mesh(names: Any, types: Any, arrays: Any) -> None:
    fn = over(jax.make_mesh((4, 2), names, axis_types=(types,) * 2))
    with pytest.raises(partir.PartitionError, match="Leave its mesh= out"):
        partir.partition(fn, MESH, [ROWS], args=arrays)


def module(ops: str) -> str:
    """A StableHLO module of these ops, from %x to %y."""
    type_ = "tensor<8x4xf32>"
    return f"""
    module {{
      sdy.mesh @mesh = <["B"=4, "M"=2]>
      func.func @main(%x: {type_}) -> {type_} {{
        {ops.replace("TYPE", type_)}
        return %y : {type_}
      }}
    }}"""


LEFT_BY_OTHERS = {
    "a layout": ("%y = sdy.reshard %x <@mesh, [{'B'}, {?}]> : TYPE", P("B")),
    "a group": (
        "sdy.sharding_group %x group_id=1 : TYPE\n%y = stablehlo.sine %x : TYPE",
        P(),
    ),
    "a name": (
        "%y = sdy.named_computation<'f'>(%x) (%a: TYPE) {\n"
        "%b = stablehlo.sine %a : TYPE\nsdy.return %b : TYPE } : (TYPE) -> TYPE",
        P(),
    ),
    "a placement": ("%y = stablehlo.custom_call @MoveToHost(%x) : (TYPE) -> TYPE", P()),
}


@pytest.mark.parametrize(
    "what",
    [
        *("a layout", "a group", "a name"),
        pytest.param(
            "a placement",
            marks=pytest.mark.needs_jax("0.10", "XLA:CPU had no MoveToHost before"),
        ),
    ],
)
def test_what_other_partitioners_leave_in_a_module(what: str) -> None:
    ops, spec = LEFT_BY_OTHERS[what]
    program = partir.load(module(ops.replace("'", '"')))
    assert partir.partition(program, MESH, []).in_specs == (spec,)
    columns = partir.ManualPartition({"arg0": 1}, axis="M", name="columns")
    record = partir.partition(program, MESH, [columns], strict=True)
    assert record.out_specs[0] == P(*(spec or (None,)), "M")
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    (made,) = record.compile()(x)
    np.testing.assert_allclose(made, np.sin(x) if "sine" in ops else x, rtol=1e-6)


def test_a_shard_map_lowered_for_another_partitioner() -> None:
    call = "%y = stablehlo.custom_call @SPMDFullToShardShape(%x) : (TYPE) -> TYPE"
    with pytest.raises(partir.PartitionError, match="jax_use_shardy_partitioner on"):
        partir.load(module(call))
