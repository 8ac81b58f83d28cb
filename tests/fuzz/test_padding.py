"""Random programs on meshes that divide little, nan where nothing counts."""

from __future__ import annotations

import pytest

from partir import fuzz
from partir.fuzz import schedules
from partir.ir.types import TensorType
from partir.rules import slices
from partir.rules.monoids import identity
from partir.spmd.lowering import padding

NAN = {
    "f64": "0x7FF8000000000000",
    "f32": "0x7FC00000",
    "f16": "0x7E00",
    "bf16": "0x7FC0",
}
MESHES = (
    *({"A": size} for size in (3, 5, 6, 7)),
    *({"A": 3, "B": 2}, {"A": 2, "B": 3}, {"A": 2, "B": 2, "C": 2}),
)


def test_what_lies_behind_short_tiles_never_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = set()

    def garbage(monoid: str, type_: TensorType) -> str:
        used.add(type_.dtype)
        return NAN.get(type_.dtype) or identity(monoid, type_)

    for module in (slices, padding):
        monkeypatch.setattr(module, "identity", garbage)
    monkeypatch.setattr(schedules, "MESHES", MESHES)
    report = fuzz.run(6000, 16, every=0)
    assert not report.found, "\n".join(
        fuzz.written(found.case, found.failure) for found in report.found
    )
    assert used & NAN.keys()
