"""A spec is found again from the times that it predicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from partir.errors import PartirError
from partir.simulate.calibration import Measurement, fit_spec, predict
from partir.simulate.device.spec import DeviceSpec

TRUE = DeviceSpec(
    name="true",
    flops_per_s=2e10,
    memory_bytes=1e9,
    memory_bytes_per_s=3e9,
    link_bytes_per_s=8e8,
    topology="shared",
    hop_seconds=0.0,
    matrix_efficiency=1.0,
    vector_flops_per_s=5e9,
    transcendental_flops=20.0,
    kernel_seconds=4e-6,
    collective_seconds=1e-4,
    step_seconds=7e-5,
    collective_efficiency={"all_gather": 1.0, "all_reduce": 0.5},
    overlap=False,
    combine_bytes=1e18,
)


def programs() -> list[Measurement]:
    def one(kind: str, **figures: float) -> Measurement:
        return Measurement(kind=kind, label=kind, seconds=1.0, **figures)  # type: ignore[arg-type]

    made = [
        one("call", kernels=0),
        one("launch", kernels=100),
        one("matmul", flops=1e9),
        one("matmul", flops=4e9),
        one("memory", memory_bytes=1e8),
        one("vector", flops=1e9),
        one("transcendental", transcendentals=1e8),
    ]
    for kind in ("all_gather", "all_reduce"):
        made += [one(kind, link_bytes=n, size=8) for n in (1.0, 1e6, 1e7)]
    return made


def test_a_spec_is_found_again() -> None:
    measured = [replace(m, seconds=predict(TRUE, 8, m)) for m in programs()]
    fit = fit_spec("found", 8, measured, memory_bytes=1e9, topology="shared")
    assert fit.worst_error < 0.01
    for name in ("flops_per_s", "memory_bytes_per_s", "vector_flops_per_s"):
        assert getattr(fit.spec, name) == pytest.approx(getattr(TRUE, name), rel=0.01)
    assert fit.spec.link_bytes_per_s == pytest.approx(8e8, rel=0.01)
    assert fit.spec.collective_efficiency["all_reduce"] == pytest.approx(0.5, rel=0.01)


def test_something_not_measured() -> None:
    with pytest.raises(PartirError, match="nothing of kind 'launch'"):
        fit_spec("none", 8, programs()[:1], memory_bytes=1e9)
