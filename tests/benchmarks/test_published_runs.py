"""The table of published runs: every row is a program, and predictions stay near."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.published_runs.run import EXCLUDED, Run, runs

BY_ID = {run.id: run for run in runs()}
PAGE = Path(__file__).parents[2] / "benchmarks/results/published_runs.md"


def predicted(run: Run) -> float:
    return run.predicted(run.partitioned.estimate_on(run.spec))


def test_all_rows_but_those_left_out_say_what_ran() -> None:
    assert len(BY_ID) == 80
    assert len(EXCLUDED) == 8
    for run in BY_ID.values():
        assert run.seconds > 0
        assert run.config.layers * run.sizes["stages"] == int(run.row["layers"])


@pytest.mark.parametrize("name", ["mt-v4-22b-x1", "mt-v5e-128b-x1", "tt-8b-128"])
def test_predictions_are_near(name: str) -> None:
    run = BY_ID[name]
    assert predicted(run) == pytest.approx(run.seconds, rel=0.1)


@pytest.mark.parametrize(
    "name",
    [
        "mt-v5p-256b-512",
        "v6e-llama3.1-70b-128",
        "tpu7x-llama3.1-70b-64",
        "seqsel-175B-full",
        "mpt-h100-70b-512",
    ],
)
def test_the_page_has_what_is_predicted_today(name: str) -> None:
    found = re.findall(
        rf"^{re.escape(name)} .* predicted +([\d.]+)", PAGE.read_text(), re.M
    )
    assert found
    assert predicted(BY_ID[name]) == pytest.approx(float(found[0]), rel=0.002)


def test_microbatches_are_summed_once() -> None:
    run = BY_ID["meg21-39B"]
    tensors = 10  # parameters, stacked, and the loss
    steps = run.partitioned.steps[0].collectives
    assert steps["all_reduce"] == tensors + 1


def test_looking_up_by_products_costs_flops() -> None:
    run = BY_ID["jt-llama2-7b-8"]
    assert run.config.one_hot
    plain = Run({**run.row, "embedding": ""})
    tokens = run.config.batch * run.config.sequence // 8
    product = 2 * tokens * run.config.vocabulary * run.config.width
    flops = run.partitioned.estimate_on(run.spec).flops
    fewer = plain.partitioned.estimate_on(plain.spec).flops
    assert flops - fewer == pytest.approx(2 * product, rel=0.05)  # and the gradient's


def test_slices_are_joined_by_the_network() -> None:
    run = BY_ID["mt-v5p-64b-128"]  # a pod has room for both
    assert run.mesh.links == {"slice": "network"}


def test_only_eager_frameworks_wait_for_the_host() -> None:
    eager = {run.row["framework"] for run in BY_ID.values() if run.spec.host_seconds}
    assert {name.split()[0] for name in eager} == {
        "Megatron-LM",
        "llm-foundry",
        "nanotron",
        "torchtitan",
    }
    assert not BY_ID["tt-8b-128-compile"].spec.host_seconds


def test_attention_without_a_mask_is_twice_the_work() -> None:
    run = BY_ID["mt-v5e-16b-x1"]  # causal=False, as MaxText had it then
    half = Run({**run.row, "attention": "flash"})
    assert not run.config.causal
    config, tokens = run.config, run.config.batch * run.config.sequence // 256
    product = 2 * tokens * config.sequence * config.heads * config.head_dim
    flops, fewer = (r.partitioned.estimate_on(r.spec).flops for r in (run, half))
    # Two products forward, again for the backward pass, then five.
    assert flops - fewer == pytest.approx(9 * config.layers * product / 2, rel=0.05)


def test_blocks_side_by_side_gather_their_input_once() -> None:
    run = BY_ID["mt-v5e-128b-x1"]
    after = Run({**run.row, "block": ""})
    once, twice = (r.partitioned.collectives["all_gather"] for r in (run, after))
    assert once < twice


def test_nobody_pads_the_vocabulary_of_nanotron() -> None:
    run = BY_ID["nt-1b-8-dp2-tp4-mb8"]
    assert run.config.vocabulary == 50260  # to be shared by four
    assert run.spec.aligned_bytes
    assert not BY_ID["jt-llama2-7b-8"].spec.aligned_bytes  # XLA pads
    padded = Run({**run.row, "vocab": "50304"})
    assert predicted(padded) < 0.95 * predicted(run)
