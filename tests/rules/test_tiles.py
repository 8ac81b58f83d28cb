"""Every rule in the registry: tiles recombined are the whole."""

from __future__ import annotations

import pytest

import partir.rules  # noqa: F401  (registers every family)
import tests.rules.samples  # noqa: F401
from partir.rules.manual import KIND as MANUAL
from partir.rules.random import DRAW
from partir.rules.registry import kinds
from tests.rules.samples.sample import kinds as sampled_kinds, samples_of
from tests.rules.tiles import check, signature_nests

# The loops of these are given; test_random.py and tests/e2e have them.
KINDS = sorted({*kinds()} - {MANUAL, DRAW})


NEWER = pytest.mark.needs_jax("0.10", "StableHLO had no such op")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=NEWER) if k == "chlo.mulhi" else k for k in KINDS],
)
def test_tiles_recombined_are_the_whole(kind: str, x64: None) -> None:
    assert kind in sampled_kinds(), (
        f"{kind} has a rule but no sample: add one to tests/rules/samples"
    )
    samples = samples_of(kind)
    assert any(signature_nests(s.signature) for s in samples), (
        f"no sample of {kind} has a factor"
    )
    wrong = check(samples)
    assert not wrong, "\n".join(wrong)


def test_every_sample_has_a_rule() -> None:
    assert sampled_kinds() <= set(kinds())
