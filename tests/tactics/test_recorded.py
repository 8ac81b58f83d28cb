"""Schedules from what was done: they reproduce the partition, and can be saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, P, lax

import partir
from partir import ManualPartition
from partir.cli import demo_model
from partir.cli.demo import demo_schedule

MESH = {"B": 4, "M": 2}


def shape(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, "float32")


class Own:
    """A tactic from a function."""

    name = "own"

    def __init__(self, act: Any) -> None:
        self.apply = act


def require_same(fn: Any, tactics: Any, args: Any, folder: Path, **options: Any) -> Any:
    """Partition, save, load, partition again: nothing may differ."""
    first = partir.partition(fn, MESH, tactics, args=args, **options)
    first.save(folder / "saved.json")
    loaded = partir.load_schedule(folder / "saved.json")
    for schedule in (first.schedule(), loaded):
        again = partir.partition(fn, MESH, schedule, args=args, **options)
        assert [s.name for s in again.steps] == [s.name for s in first.steps]
        for one, two in zip(first.steps, again.steps, strict=True):
            assert one.state.tilings == two.state.tilings
            assert one.collectives == two.collectives
        assert again.core_text() == first.core_text()
        assert again.spmd_text() == first.spmd_text()
    return first


def test_training_step(tmp_path: Path) -> None:
    args = jax.eval_shape(
        lambda: (
            *demo_model.init(1, jax.random.key(0)),
            *demo_model.batch(jax.random.key(1)),
        )
    )
    step, tactics = demo_model.train_step, demo_schedule()
    require_same(step, tactics, args, tmp_path, donate_argnums=(0, 1))


def test_tag_under_vmap(tmp_path: Path) -> None:
    """The user's dimension 1 is the value's dimension 2."""

    def one(x: Array) -> Array:
        return jnp.tanh(partir.tag(jnp.sin(x), "inner")) * 2

    tactic = ManualPartition({"inner": 1}, axis="B")
    mapped = jax.vmap(one, in_axes=1, out_axes=1)
    p = require_same(mapped, [tactic], (shape(8, 8, 8),), tmp_path)
    assert p.in_specs == (P(None, None, "B"),)


def test_tags_in_a_scan(tmp_path: Path) -> None:
    """One is the loop's own argument, the other an inner value."""

    def fn(x: Array, weights: Array) -> Array:
        def layer(x: Array, w: Array) -> tuple[Array, None]:
            x = partir.tag(x, "before")
            return partir.tag(jnp.tanh(x @ w), "after"), None

        return lax.scan(layer, x, weights)[0]

    before = ManualPartition({"before": 0}, axis="B", name="before")
    after = ManualPartition({"after": 1}, axis="M", name="after")
    args = (shape(8, 16), shape(3, 16, 16))
    require_same(fn, [before, after], args, tmp_path)


def test_tag_in_several_layers(tmp_path: Path) -> None:
    def layers(x: Array, w: Array) -> Array:
        for _ in range(3):
            x = partir.tag(jnp.tanh(x @ w), "activations")
        return x

    tactic = ManualPartition({"activations": 1, "x": 0}, axis="B")
    require_same(layers, [tactic], (shape(8, 8), shape(8, 8)), tmp_path)


def test_negative_dimensions_outputs_and_pins(tmp_path: Path) -> None:
    def fn(x: Array, w: Array, b: Array) -> Any:
        return x @ w, b * 2

    tactics = [
        ManualPartition({"b": partir.REPLICATED}, axis="B", name="whole"),
        ManualPartition({"x": -2}, axis="B", outputs={"out/0": -1}, name="rows"),
        ManualPartition({"b": -1}, axis="M", name="columns"),
    ]
    require_same(fn, tactics, (shape(8, 8), shape(8, 8), shape(8)), tmp_path)


def test_choices_and_gathers_at_uses(tmp_path: Path) -> None:
    def resolve(partition: partir.Partition) -> None:
        for conflict in partition.conflicts():
            partition.choose(conflict, conflict.factors[-1], conflict.axis)

    def gather(partition: partir.Partition) -> None:
        partition.atomic("w", "M", at="uses")
        partition.tile("w", 0, "M")

    both = ManualPartition({"x": 0, "w": 1}, axis="B", name="both")
    p = require_same(
        lambda x, w: x @ w,
        [both, Own(resolve), Own(gather)],
        (shape(8, 8), shape(8, 8)),
        tmp_path,
    )
    kinds = [action.kind for step in p.steps for action in step.actions]
    assert kinds == ["tile", "tile", "choose", "atomic", "tile"]


def test_choice_for_carried_state(tmp_path: Path) -> None:
    """Conflicts between a result and the argument that it succeeds have names too."""

    def fn(state: Array, x: Array) -> Array:
        return x * 2

    def resolve(partition: partir.Partition) -> None:
        for conflict in partition.conflicts():
            partition.choose(conflict, conflict.factors[0], conflict.axis)

    both = ManualPartition({"state": 0}, axis="B", outputs={"out": 1}, name="both")
    args = (shape(8, 8), shape(8, 8))
    p = require_same(fn, [both, Own(resolve)], args, tmp_path, donate_argnums=0)
    assert [str(action) for action in p.steps[1].actions] == [
        "choose('the state carried in state', 0, 'B')"
    ]


def test_propagation_within_a_tactic_orders_axes(tmp_path: Path) -> None:
    def act(partition: partir.Partition) -> None:
        partition.tile("x", 0, "M")
        partition.propagate()
        partition.tile("x", 0, "B")

    p = require_same(lambda x: x * 2, [Own(act)], (shape(8, 8),), tmp_path)
    assert p.in_specs == (P(("M", "B")),)


def test_propagation_at_the_end_of_a_tactic_orders_axes(tmp_path: Path) -> None:
    def act(partition: partir.Partition) -> None:
        partition.tile("x", 0, "B")
        partition.tile("y", 0, "M")
        partition.propagate("M")

    def product(x: Array, y: Array) -> Array:
        return jnp.tanh(x) * jnp.tanh(y)

    args = shape(16, 4), shape(16, 4)
    first = require_same(product, [Own(act)], args, tmp_path)
    tilings = first.steps[-1].state.tilings
    assert tilings[first.program.results[0].value][0] == ("M", "B")


def test_what_the_model_decides_is_not_said_again(tmp_path: Path) -> None:
    def fn(x: Array, w: Array) -> Array:
        return jnp.sin(lax.with_sharding_constraint(x @ w, P("B", "M")))

    tactic = ManualPartition({"x": 0}, axis="B", name="BP")
    p = require_same(fn, [tactic], (shape(8, 8), shape(8, 8)), tmp_path)
    assert [step.name for step in p.steps] == ["the model's own", "BP"]


def test_undone_actions_are_not_recorded(tmp_path: Path) -> None:
    def act(partition: partir.Partition) -> None:
        mark = partition.mark()
        partition.tile("x", 0, "B")
        partition.propagate()
        partition.undo(mark)
        partition.tile("x", 1, "B")

    p = require_same(lambda x: x * 2, [Own(act)], (shape(8, 8),), tmp_path)
    assert [str(action) for action in p.steps[0].actions] == ["tile('x', 1, 'B')"]


def test_a_schedule_prints_its_actions() -> None:
    tactic = ManualPartition({"x": 0, "w": partir.REPLICATED}, axis="B", name="BP")
    args = (shape(8, 8), shape(8, 8))
    p = partir.partition(lambda x, w: x @ w, MESH, [tactic], args=args)
    (recorded,) = p.schedule().tactics
    assert str(recorded) == "BP:\n    tile('x', 0, 'B')\n    atomic('w', 'B')"


# Inputs of another function


def test_input_schedule_carries_a_layout_over() -> None:
    def train(params: dict[str, Array], x: Array) -> Array:
        return jnp.tanh(x @ params["w1"]) @ params["w2"]

    def evaluate(x: Array, params: dict[str, Array]) -> Array:
        return (x @ params["w2"]) @ params["w1"]

    tactics = [
        ManualPartition({"x": 0}, axis="B", name="BP"),
        ManualPartition({"params/w1": 1}, axis="M", name="MP"),
        ManualPartition({"params/*": partir.FIRST_DIVISIBLE_DIM}, axis="B", name="Z3"),
    ]
    params = {"w1": shape(16, 16), "w2": shape(16, 16)}
    trained = partir.partition(train, MESH, tactics, args=(params, shape(8, 16)))
    layout = trained.input_schedule("params/**")
    p = partir.partition(evaluate, MESH, layout, args=(shape(8, 16), params))
    assert trained.in_specs[0] == {"w1": P("B", "M"), "w2": P(("M", "B"))}
    assert p.in_specs[1] == trained.in_specs[0]


def test_input_schedule_leaves_tags_out() -> None:
    def fn(x: Array) -> Array:
        return partir.tag(jnp.sin(x), "x/inner") * 2

    tactic = ManualPartition({"x": 0}, axis="B")
    p = partir.partition(fn, MESH, [tactic], args=(shape(8),))
    layout = p.input_schedule("x/**")
    q = partir.partition(lambda x: x, MESH, layout, args=(shape(8),))
    assert q.in_specs == (P("B"),)


# Files


def test_the_file_is_data(tmp_path: Path) -> None:
    tactic = ManualPartition({"x": 0}, axis="B", name="BP")
    p = partir.partition(lambda x: x, MESH, [tactic], args=(shape(8),))
    p.save(tmp_path / "saved.json")
    action = {"kind": "tile", "target": "x", "axis": "B", "dim": 0, "at": "everywhere"}
    assert json.loads((tmp_path / "saved.json").read_text()) == {
        "format": "partir schedule 1",
        "tactics": [{"name": "BP", "actions": [action]}],
    }
    assert [path.name for path in tmp_path.iterdir()] == ["saved.json"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hello", "Expecting value"),
        ("[]", "has no attribute"),
        ("{}", "its format is not"),
        ('{"format": "partir schedule 1"}', "it has no 'tactics'"),
        (
            '{"format": "partir schedule 1", "tactics": [{"name": "a", "actions": '
            '[{"kind": "melt", "target": "x", "axis": "B"}]}]}',
            "is no action",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(text)
    with pytest.raises(partir.PartitionError, match=reason) as caught:
        partir.load_schedule(path)
    assert str(caught.value).startswith(f"{path} is not a saved schedule: ")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(partir.PartitionError, match=r"can't read .*none.json"):
        partir.load_schedule(tmp_path / "none.json")
    p = partir.partition(lambda x: x, MESH, [], args=(shape(8),))
    with pytest.raises(partir.PartitionError, match=r"can't write .*saved.json: No"):
        p.save(tmp_path / "missing" / "saved.json")


def test_a_name_that_another_program_lacks() -> None:
    tactic = ManualPartition({"x": 0}, axis="B", name="BP")
    p = partir.partition(lambda x: x, MESH, [tactic], args=(shape(8),))
    with pytest.raises(partir.PartitionError) as caught:
        partir.partition(lambda y: y, MESH, p.schedule(), args=(shape(8),))
    assert str(caught.value) == (
        'the recorded schedule names "x", which lambda does not have; nearest names: y'
    )
