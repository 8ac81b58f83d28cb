"""Schedules that experts would write: nothing is left whole, the best is predicted."""

from __future__ import annotations

import pytest

import partir
from benchmarks.models.experts import MODELS, Model

PUBLISHED = [MODELS[name] for name in ("T32", "scanned T32", "UNet", "GNS", "IT32")]


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.name)
def test_strict_is_silent(model: Model) -> None:
    """Nothing is whole that was meant to be tiled."""
    fn, args = model.small_case()
    program = partir.trace(fn, *args)
    for name, schedule in model.schedules_on(model.small_mesh).items():
        mesh = dict(model.small_mesh)
        p = partir.partition(
            program, mesh, schedule, donate_argnums=model.donate, strict=True
        )
        assert 1.0 <= p.work <= p.mesh.size, name
        assert min(p.work_by_axis.values()) >= 1.0, name


@pytest.mark.parametrize(
    ("name", "best"), [("wide MLP", {"MP alone"}), ("tall MLP", {"BP+Z2", "BP+Z3"})]
)
def test_best_schedule_on_one_axis(name: str, best: set[str]) -> None:
    """Where it is known (`benchmarks/models/mlp.py`), it is predicted."""
    model = MODELS[name]
    target = model.targets[0]
    assert list(target.axes) == ["B"]
    fn, args = model.full_case(target)
    program = partir.trace(fn, *args)
    seconds = {}
    for schedule, tactics in model.schedules_on(target.axes).items():
        done = partir.partition(
            program, target.mesh, tactics, donate_argnums=(0, 1), device=target.device
        )
        seconds[schedule] = done.estimate.seconds
    assert min(seconds, key=seconds.__getitem__) in best
    others = [taken for schedule, taken in seconds.items() if schedule not in best]
    assert min(others) > max(seconds[schedule] for schedule in best)


def test_schedules_of_a_target_divide_its_batch() -> None:
    """48 sequences over 16 devices, not over 32; a mesh without M has no MP."""
    model = MODELS["T32"]
    both, one = model.targets[0], model.targets[2]
    assert (both.axes, both.batch) == ({"B": 16, "M": 2}, 48)
    split = "BP+BP(M)+Z3+Z3(M)"
    assert split in model.schedules_on(both.axes)
    assert split not in model.schedules_on(both.axes, both.batch)
    assert set(model.schedules_on(one.axes, one.batch)) == {"BP", "BP+Z2", "BP+Z3"}
