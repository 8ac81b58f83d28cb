"""Chains of ops on two devices: the verifier is right about them, and numpy is, too."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

import partir.fuzz.chains.judge as judge
from partir.fuzz.chains.__main__ import main
from partir.fuzz.chains.draw import OpChain
from partir.fuzz.chains.kinds import KINDS, ChainOp
from partir.fuzz.chains.modes import MODES, ChainDraft, drawn
from partir.fuzz.meaning.evaluate import evaluate
from partir.fuzz.meaning.lockstep import lockstep

SEEDS = range(0, 2 * len(KINDS) ** 2, 180)  # ops of several kinds


@pytest.mark.parametrize("mode", MODES)
def test_no_wrong_chain_is_proved_and_no_right_one_disproved(mode: str) -> None:
    found = [verdict for seed in SEEDS for verdict in judge.tried(seed, mode)]
    failed = [str(verdict) for verdict in found if verdict.failed]
    assert not failed, "\n".join(failed)
    counts = Counter(verdict.judged for verdict in found)
    assert counts["right and proved"] >= 3, counts
    assert counts["wrong and not proved"] >= 3, counts


def test_a_hole_is_printed_with_its_modules(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    credulous = SimpleNamespace(disproved=(), not_proved=())
    monkeypatch.setattr(judge, "prove", lambda *_: credulous)
    assert main(["--seeds", "0", "3", "--mode", "sum"]) == 1
    printed = capsys.readouterr().out
    hole = printed[printed.index("wrong and proved: sum, seed ") :]
    assert hole.count("func.func") >= 2
    assert "stablehlo.all_reduce" in hole


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_does_what_is_written(kind: str) -> None:
    """Each entry of the table, of matrices and of vectors, before a meeting."""
    rng = random.Random(0)
    lines = 0
    for mode in ("sum", "short"):
        for before in ((), (ChainOp("reduce", 1, ("add",)),)):
            op = ChainOp(kind, rng.randrange(2), KINDS[kind].draw(rng))
            lines += _compared(OpChain((*before, op), len(before) + 1), mode)
            lines -= _compared(OpChain(before, len(before)), mode)
    assert lines > 0, "it fits nowhere"


@pytest.mark.parametrize("mode", MODES)
def test_numpy_meets_as_it_is_written(mode: str) -> None:
    ops = (ChainOp("argument", 1, ("add", 1, "w")), ChainOp("join", 0, (2, True)))
    for meeting in range(3):
        _compared(OpChain(ops, meeting), mode)


def _compared(chain: OpChain, mode: str) -> int:
    """How many lines were compared with the interpreter."""
    how, draws = MODES[mode], drawn(1)[:1]
    lines = 0
    for begin in (how.source, how.local):
        given = _arguments(begin(draws))
        draft = judge.written(chain, how, begin(draws))
        text = draft.text.module(draft.value)
        made = evaluate(lockstep(text, 2) if draft.devices == 2 else text, given)
        for want, got in zip(draft.numbers, made, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        lines += len(draft.text.lines)
    return lines


def _arguments(draft: ChainDraft) -> list[np.ndarray]:
    """Numbers of a chain's arguments, by argument, then by device."""
    copies = list(zip(draft.numbers, draft.given, strict=True))
    return [
        np.reshape(
            x if one.name == "x" else getattr(given, one.name), one.shape
        ).astype("int32" if one.dtype == "i32" else "float32")
        for one in draft.text.arguments
        for x, given in copies
    ]
