"""Every rule in the registry: tiles recombined are the whole."""

from __future__ import annotations

import pytest

import partir.rules  # noqa: F401  (registers every family)
import tests.rules.samples  # noqa: F401
from partir.rules.manual import KIND as MANUAL
from partir.rules.random import DRAW
from partir.rules.registry import kinds
from tests.rules.samples.sample import kinds as sampled_kinds, samples_of
from tests.rules.tiles import check, describe, signature_nests

# The loops of these are given; test_random.py and tests/e2e have them.
KINDS = sorted({*kinds()} - {MANUAL, DRAW})


NEWER = pytest.mark.needs_jax("0.10", "StableHLO had no such op")


every_kind = pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=NEWER) if k == "chlo.mulhi" else k for k in KINDS],
)


@every_kind
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


@every_kind
def test_no_factor_is_longer_than_what_it_runs_along(kind: str) -> None:
    """Inside loops too: else a second axis would cut what is not there."""
    for sample in samples_of(kind):
        for nest in signature_nests(sample.signature):
            types = (*nest.operand_types, *nest.result_types)
            for factor in nest.factors:
                for position, type_ in enumerate(types):
                    dim = factor.dim(position)
                    if dim is not None and factor.reach_of(position) is None:
                        assert type_.shape[dim] % factor.size == 0, describe(nest)
