"""Where the best schedule is known (``benchmarks/models/mlp.py``), it is predicted."""

from __future__ import annotations

import pytest

import partir
from benchmarks.models.experts import MODELS


@pytest.mark.parametrize(
    ("name", "best"), [("wide MLP", {"MP alone"}), ("tall MLP", {"BP+Z2", "BP+Z3"})]
)
def test_best_schedule_on_one_axis(name: str, best: set[str]) -> None:
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
