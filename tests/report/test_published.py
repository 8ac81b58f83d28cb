"""Published schedules leave nothing whole that was meant to be tiled."""

from __future__ import annotations

import pytest

import partir
from benchmarks.models.experts import MODELS, Model

PUBLISHED = [MODELS[name] for name in ("T32", "scanned T32", "UNet", "GNS", "IT32")]


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.name)
def test_strict_is_silent(model: Model) -> None:
    fn, args = model.small_case()
    program = partir.trace(fn, *args)
    for name, schedule in model.schedules_on(model.small_mesh).items():
        mesh = dict(model.small_mesh)
        p = partir.partition(
            program, mesh, schedule, donate_argnums=model.donate, strict=True
        )
        assert 1.0 <= p.work <= p.mesh.size, name
        assert min(p.work_by_axis.values()) >= 1.0, name
