"""What is known of layers like others is what would be found out of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest

import partir
from benchmarks.models import suite, transformer
from partir.frontend.device_local import read_device_local
from partir.ir.core import Op, Signature
from partir.ir.types import tensor
from partir.verify import ReadSource, compare
from partir.verify.classes.classes import Classes
from partir.verify.classes.rows import GARBAGE, RowTable
from partir.verify.classes.terms import ClassTerm
from partir.verify.layouts.layout import Digit, DigitLayout, View
from partir.verify.machine import plans
from partir.verify.machine.again import Again
from partir.verify.machine.machine import Machine

pytestmark = pytest.mark.quick


class _NeverAgain(Again):
    def view(self, op: Op, env: dict[int, Any]) -> View | None:
        return None

    def same(self, signature: Signature, views: Sequence[View]) -> None:
        return None


class _Forgetful(dict[Any, Any]):
    def get(self, key: Any, default: Any = None) -> Any:
        return default


def _env(p: Any, monkeypatch: pytest.MonkeyPatch, forgetful: bool) -> list[Any]:
    """What is known of all values, of the source and of what devices run."""
    machines: list[Machine] = []

    def kept(*args: Any, **kwargs: Any) -> Machine:
        machine = Machine(*args, **kwargs)
        if forgetful:
            machine.__dict__["again"] = _NeverAgain(machine.classes)
            machine.reductions, machine.bound = _Forgetful(), _Forgetful()
        machines.append(machine)
        return machine

    monkeypatch.setattr("partir.verify.proof.Machine", kept)
    spmd, local = p.spmd, read_device_local(p.stablehlo())
    source = ReadSource(p.program)
    found = compare(source, local, p.mesh, spmd.in_tilings, spmd.out_tilings)
    assert not found.not_proved
    return [machine.env for machine in machines]


@pytest.mark.parametrize("name", ["attention", "graph_network", "mixer", "scanned"])
def test_all_ops_are_read_as_if_each_were_the_first(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = next(one for one in suite.small() if one.name == name)
    *_, schedule = model.schedules().values()
    p = suite.partitioned(model, schedule, {"B": 4, "M": 2})
    quick, slow = (_env(p, monkeypatch, forgetful) for forgetful in (False, True))
    assert quick == slow


@pytest.mark.parametrize("schedule", ["BP+MP", "BP+MP+Z3"])
def test_layers_are_read_as_if_each_were_the_first(
    schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = transformer.Config.small(
        layers=2, width=32, head_dim=8, hidden=64, vocab=64, sequence=16
    )
    model = suite.transformer_model("transformer", config)
    p = suite.partitioned(model, model.schedules()[schedule], {"B": 4, "M": 2})
    quick, slow = (_env(p, monkeypatch, forgetful) for forgetful in (False, True))
    assert quick == slow


def test_ops_on_values_that_are_laid_out_alike_are_put_side_by_side_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[Any, ...]] = []

    class Counted(plans.Alignment):
        def __init__(self, equation: Any, layouts: Any) -> None:
            super().__init__(equation, layouts)
            made.append((equation.labels, layouts))

    monkeypatch.setattr(plans, "Alignment", Counted)
    args = tuple(jax.ShapeDtypeStruct((8, 4), "float32") for _ in "xy")
    tactic = partir.ManualPartition({"x": 0}, axis="B")
    p = partir.partition(
        lambda x, y: (x + y) * (x - y) / (x * y), {"B": 2}, [tactic], args=args
    )
    assert not p.proof().not_proved
    assert len(made) == len({*made}) == 2  # of the source, and of devices


@pytest.mark.parametrize("name", ["select", "dynamic_update_slice", "all_reduce"])
def test_what_looks_alike_where_nothing_is_known_may_be_another_value(
    name: str,
) -> None:
    """These ops look at what has made an operand, not only at what is known of it."""
    classes, number = Classes(), tensor((2,), "f32")
    term = ClassTerm("argument", 0, (), (), (), new=(2,), dtype="f32")
    node = classes.of(term)
    classes.seal()
    held, again = (Digit(0, 1, 2),), Again(classes)
    signature = Signature.of(f"stablehlo.{name}", {}, (number,), (number,))
    for rows, replayed in (([1, 0], True), ([1, GARBAGE], False)):
        table = RowTable(np.array(rows), 2)
        view = View(node, DigitLayout((held,), (), ((0, table),)))
        again.made(signature, [view], [view])
        assert (again.same(signature, [view]) is not None) is replayed
