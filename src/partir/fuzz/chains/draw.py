"""Chains drawn by their seed, and changed.

The seed also counts pairs of kinds, and the chain has ops of these two in turn: as many
seeds as there are pairs have each of them once. In these, devices of the source meet
before the pair, in as many more after it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import partir.fuzz.chains.elementwise
import partir.fuzz.chains.movement
import partir.fuzz.chains.reductions  # noqa: F401  (kinds register themselves)
from partir.fuzz.chains.kinds import KINDS, ChainOp

_CHANGED = 3  # device-local programs whose ops are changed


class OpChain(NamedTuple):
    """Ops, and before which of them devices meet."""

    ops: tuple[ChainOp, ...]
    meeting: int

    def __str__(self) -> str:
        names = [str(op) for op in self.ops]
        return " ".join([*names[: self.meeting], "|", *names[self.meeting :]])


def chain(seed: int, rng: random.Random) -> OpChain:
    """The chain of a seed; ops of its pair are mostly about the same dimension."""
    kinds = list(KINDS)
    first = kinds[seed % len(kinds)]
    second = kinds[(2 * seed + seed // len(kinds)) % len(kinds)]
    dim = rng.randrange(2)
    pair = [_op(rng, first, dim), _op(rng, second, dim if rng.random() < 0.7 else None)]
    before = _any(rng) if rng.random() < 0.4 else []
    after = [op for _ in range(rng.randrange(3)) for op in _any(rng)]
    ops = (*before, *pair, *after)
    ends = len(before), len(before) + len(pair)
    return OpChain(ops, ends[seed // len(kinds) ** 2 % 2])


def locals_of(rng: random.Random, source: OpChain) -> Iterator[OpChain]:
    """Devices meet at any place of the chain; then, of some that are changed."""
    for meeting in range(len(source.ops) + 1):
        yield source._replace(meeting=meeting)
    for _ in range(_CHANGED):
        ops = _changed(rng, source.ops)
        stays = rng.random() < 0.3 and source.meeting <= len(ops)
        yield OpChain(ops, source.meeting if stays else rng.randrange(len(ops) + 1))


def _changed(rng: random.Random, ops: tuple[ChainOp, ...]) -> tuple[ChainOp, ...]:
    """With more ops, which do nothing; two of them swapped; or one replaced."""
    share = rng.random()
    at = rng.randrange(len(ops))
    if share < 0.2:
        return *ops[:at], *_nothing(rng), *ops[at:]
    if share < 0.7 and at + 1 < len(ops):
        return *ops[:at], ops[at + 1], ops[at], *ops[at + 2 :]
    return *ops[:at], *_any(rng), *ops[at + 1 :]


def _any(rng: random.Random) -> Sequence[ChainOp]:
    """Any op; now and then, several that do nothing."""
    if rng.random() < 0.1:
        return _nothing(rng)
    return [_op(rng, rng.choice(list(KINDS)))]


def _op(rng: random.Random, kind: str, dim: int | None = None) -> ChainOp:
    """An op of a kind, about any dimension if none is given."""
    place = rng.randrange(2) if dim is None else dim
    return ChainOp(kind, place, KINDS[kind].draw(rng))


def _nothing(rng: random.Random) -> Sequence[ChainOp]:
    """Ops that together leave a tensor as it was, which a proof may have to see."""
    dim, first = rng.randrange(2), rng.random() < 0.5
    number = rng.choice([0.0, 7.0])
    edges = (2, 0) if first else (0, 2)
    found = [
        [ChainOp("pad", dim, (1, 1, number)), ChainOp("slice", dim, (1, 1))],
        [ChainOp("join", dim, (2, first)), ChainOp("slice", dim, edges)],
        [ChainOp("repeat", dim, ("maximum", 2))],
        [ChainOp("reverse", dim), ChainOp("reverse", dim)],
        [ChainOp("transpose", dim), ChainOp("transpose", dim)],
    ]
    return rng.choice(found)
