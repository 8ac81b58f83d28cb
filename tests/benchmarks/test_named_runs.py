"""Whole models that shift, cut or pad a tiled dimension, as on one device."""

from __future__ import annotations

import jax
import pytest

from benchmarks.named_runs import RUNS, pipelined_transformer
from tests.e2e.compare import QUICK, assert_same

pytestmark = pytest.mark.usefixtures("x64")

# Runs in which nothing is gathered: only neighbours' edges and sums are moved.
NEIGHBOURLY = ("wave equation", "GPT-2")
NOISE = 1e-13  # of gradients that vanish


@pytest.mark.parametrize(
    "name", [name for name in RUNS if RUNS[name] is not pipelined_transformer]
)
def test_as_on_one_device(name: str) -> None:
    run = RUNS[name]()
    done = run.partitioned(compiler_options=QUICK)
    if name.startswith(NEIGHBOURLY):
        assert done.collectives["collective_permute"]
        assert not done.collectives["all_gather"]
        assert not done.replicated_ops
    expected = jax.jit(run.fn, compiler_options=QUICK)(*run.args)
    assert_same(done.compile()(*run.args), expected, NOISE)
