"""What the verifier says of a chain on devices, beside what numpy says."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from partir.frontend.load import load
from partir.fuzz.chains.draw import OpChain, chain, locals_of
from partir.fuzz.chains.kinds import Array
from partir.fuzz.chains.modes import MESH, MODES, ChainDraft, Mode, drawn
from partir.verify import Proof, prove

KINDS_OF_VERDICTS = (
    "right and proved",
    "right and not proved",
    "wrong and not proved",
    "wrong and proved",  # a hole
    "right and disproved",  # a false alarm
    "error",  # of the verifier
)
FAILURES = KINDS_OF_VERDICTS[3:]


@dataclass(frozen=True)
class Verdict:
    """A pair of programs, and how it was judged."""

    seed: int
    mode: str
    source: OpChain
    local: OpChain
    modules: tuple[str, str]
    judged: str
    said: str

    @property
    def failed(self) -> bool:
        """Whether it shows a mistake of the verifier."""
        return self.judged in FAILURES

    def __str__(self) -> str:
        head = f"{self.judged}: {self.mode}, seed {self.seed}\n{self.said}"
        chains = f"source: {self.source}\nlocal:  {self.local}"
        return "\n".join([head, chains, *self.modules])


def tried(seed: int, mode: str) -> Iterator[Verdict]:
    """All pairs of a seed whose results have the same shape."""
    rng, draws = random.Random(f"{seed} {mode}"), drawn(seed)
    how, source = MODES[mode], chain(seed, rng)
    whole = written(source, how, how.source(draws))
    for local in locals_of(rng, source):
        tiles = written(local, how, how.local(draws))
        if tiles.value.shape == whole.value.shape:
            modules = whole.text.module(whole.value), tiles.text.module(tiles.value)
            judged, said = _judged(how, modules, agree(whole, tiles))
            yield Verdict(seed, mode, source, local, modules, judged, said)


def written(chain: OpChain, mode: Mode, draft: ChainDraft) -> ChainDraft:
    """A whole chain, from where it begins."""
    for number, op in enumerate(chain.ops):
        if number == chain.meeting:
            mode.meet(draft)
        spot = op.spot(len(draft.value.shape), draft.lead)
        made = op.write(draft.text, spot, draft.value)
        if made is None:
            continue
        draft.value = made
        pairs = zip(draft.given, draft.numbers, strict=True)
        draft.numbers = [op.compute(given, spot, x) for given, x in pairs]
        if draft.numbers[0].shape != made.shape:
            raise AssertionError(f"{op} is written and computed in two ways")
    if chain.meeting == len(chain.ops):
        mode.meet(draft)
    return draft


def agree(source: ChainDraft, local: ChainDraft) -> bool:
    """Whether all devices have the source's numbers, in every draw."""
    expected = [x for x in source.numbers for _ in range(local.devices)]
    return _close(expected, local.numbers)


def _close(expected: Sequence[Array], made: Sequence[Array]) -> bool:
    pairs = zip(expected, made, strict=True)
    return all(np.allclose(x, y, rtol=1e-6, atol=1e-7) for x, y in pairs)


def _judged(mode: Mode, modules: tuple[str, str], right: bool) -> tuple[str, str]:
    """How the pair fared, and what the verifier said."""
    try:
        proof = _proof(mode, *modules)
    except Exception as error:  # whatever it is, a campaign goes on
        return "error", repr(error)
    if right and proof.disproved:
        return "right and disproved", str(proof)
    outcome = "not proved" if proof.not_proved else "proved"
    return f"{'right' if right else 'wrong'} and {outcome}", str(proof)


def _proof(mode: Mode, source: str, local: str) -> Proof:
    program = load(source)
    (port,) = program.results
    whole = ((),) * len(program.types[port.value].shape)
    return prove(program, local, MESH, mode.tilings, [whole])
