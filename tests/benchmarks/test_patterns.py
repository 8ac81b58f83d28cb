"""The patterns of tiled dimensions, and how their costs are read off XLA's text."""

from __future__ import annotations

import jax
import pytest

from benchmarks.patterns.catalogue import PATTERNS
from benchmarks.patterns.compare import Case
from benchmarks.patterns.compiled_text import bytes_sent

TEXT = """\
HloModule jit_both

%step (carry: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %x = f32[8,4]{1,0} get-tuple-element(%carry), index=1
  ROOT %s = f32[8,4]{1,0} all-reduce(%x), replica_groups=[2,4]<=[8], to_apply=%add
}

%cheap (a: f32[16]) -> f32[16] {
  ROOT %c = f32[16]{0} collective-permute(%a), source_target_pairs={{0,1},{1,0}}
}

ENTRY %main (x: f32[8,4]) -> f32[8,4] {
  %loop = (s32[], f32[8,4]{1,0}) while(%t), condition=%until, body=%step, \
backend_config={"known_trip_count":{"n":"5"}}
  %both = f32[16]{0} conditional(%p, %a, %a), branch_computations={%cheap, %step}
  %pair = (bf16[8]{0}, s64[8]{0}) all-gather(%u, %v), replica_groups={{0,1,2,3}}
  ROOT %r = f32[2]{0} reduce-scatter(%w), dimensions={0}, to_apply=%add
}
"""


def test_loops_are_multiplied_and_the_dearest_branch_counts() -> None:
    reduced = 2 * (8 * 4 * 4) * 3 // 4
    gathered = (8 * 2 + 8 * 8) * 3 // 4
    scattered = 2 * 4 * 7
    assert bytes_sent(TEXT, 8) == 5 * reduced + reduced + gathered + scattered


def test_a_third_is_held_out() -> None:
    held_out = sum(pattern.held_out for pattern in PATTERNS.values())
    assert 0.25 < held_out / len(PATTERNS) < 0.42


@pytest.mark.parametrize("name", PATTERNS)
def test_shapes_fit(name: str) -> None:
    pattern = PATTERNS[name]
    assert jax.tree.leaves(jax.eval_shape(pattern.fn, *pattern.args))
    assert pattern.dims.keys() <= set(Case(pattern).names)


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_is_proved(name: str) -> None:
    """With its gradient: what proves one may hide another from the verifier."""
    assert not Case(PATTERNS[name]).partitioned.verify().not_proved


@pytest.mark.quick
def test_one_pattern_agrees_with_one_device() -> None:
    case = Case(PATTERNS["second_difference"])
    assert case.largest_error() < 1e-4  # XLA's own sine differs by version
    assert not case.compare().worse
