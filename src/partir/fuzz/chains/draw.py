"""Chains drawn by their seed, and changed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import partir.fuzz.chains.elementwise
import partir.fuzz.chains.movement
import partir.fuzz.chains.reductions  # noqa: F401  (kinds register themselves)
from partir.fuzz.chains.kinds import KINDS, Op

_MOST = 5  # ops of a chain


class Chain(NamedTuple):
    """Ops, and before which of them devices meet."""

    ops: tuple[Op, ...]
    meeting: int

    def __str__(self) -> str:
        names = [str(op) for op in self.ops]
        return " ".join([*names[: self.meeting], "|", *names[self.meeting :]])


def chain(rng: random.Random) -> Chain:
    """Any chain."""
    ops = [op for _ in range(rng.randrange(2, _MOST + 1)) for op in _any(rng)]
    return Chain(tuple(ops), rng.randrange(len(ops) + 1))


def changed(rng: random.Random, before: Chain) -> Chain:
    """Some of it changed, mostly; devices mostly meet elsewhere."""
    ops = _changed(rng, before.ops)
    stays = rng.random() < 0.3 and before.meeting <= len(ops)
    return Chain(ops, before.meeting if stays else rng.randrange(len(ops) + 1))


def _changed(rng: random.Random, ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """As it is, with ops that do nothing, two of it swapped, or one replaced."""
    share = rng.random()
    at = rng.randrange(len(ops))
    if share < 0.35:
        return ops
    if share < 0.45:
        return *ops[:at], *_nothing(rng), *ops[at:]
    if share < 0.8 and at + 1 < len(ops):
        return *ops[:at], ops[at + 1], ops[at], *ops[at + 2 :]
    return *ops[:at], *_any(rng), *ops[at + 1 :]


def _any(rng: random.Random) -> Sequence[Op]:
    """Any op; now and then, several that do nothing."""
    if rng.random() < 0.1:
        return _nothing(rng)
    kind = rng.choice(list(KINDS))
    return [Op(kind, rng.randrange(2), KINDS[kind].draw(rng))]


def _nothing(rng: random.Random) -> Sequence[Op]:
    """Ops that together leave a tensor as it was, which a proof may have to see."""
    dim, first = rng.randrange(2), rng.random() < 0.5
    number = rng.choice([0.0, 7.0])
    edges = (2, 0) if first else (0, 2)
    found = [
        [Op("pad", dim, (1, 1, number)), Op("slice", dim, (1, 1))],
        [Op("join", dim, (2, first)), Op("slice", dim, edges)],
        [Op("repeat", dim, ("maximum", 2))],
        [Op("reverse", dim), Op("reverse", dim)],
        [Op("transpose", dim), Op("transpose", dim)],
    ]
    return rng.choice(found)
