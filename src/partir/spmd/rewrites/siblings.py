"""Which moves of one value are siblings: needed beside each other, not in turn.

A weight is gathered for the forward and for the backward pass: what reads it in the
latter has needed its product in the former. Three products that read one activation
are siblings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from partir.spmd.program import Collective, Compute, Control, SpmdOp
from partir.spmd.rewrites.sweep import reads_of


class _Past(NamedTuple):
    """What a value is made of, as sets of moves: numbers whose bits stand for them."""

    holds: int = 0  # something of these is in it
    forms: int = 0  # it is another form of these
    needs: int = 0  # it needs a product with these


_NOTHING = _Past()


class Siblings:
    """What the readers of moves need, found in one sweep, as far as it is asked for."""

    def __init__(
        self, ops: Sequence[SpmdOp], moves: Iterable[int], last: Mapping[int, int]
    ) -> None:
        """Of a block: results of moves that are asked about, and last reads of all."""
        self._ops, self._last = ops, last
        self._place = 0
        self._bits = {value: 1 << number for number, value in enumerate(moves)}
        self._until = {bit: last[value] for value, bit in self._bits.items()}
        self._pasts: dict[int, _Past] = {}
        self._needs: dict[int, int] = {}

    def are(self, first: int, second: int) -> bool:
        """Whether what reads the second needs no product with the first."""
        bit = self._bits[second]
        while self._place <= self._until[bit]:
            self._step(self._ops[self._place])
            self._place += 1
        return not self._needs.get(bit, 0) & self._bits[first]

    def _step(self, op: SpmdOp) -> None:
        if type(op) is Control and not op.blocks:  # a barrier: one waits for another
            for read, made in zip(op.operands, op.results, strict=True):
                self._pasts[made] = past = self._pasts.get(read, _NOTHING)
                self._read_until(past.forms, self._last[made])
            return
        reads = tuple(reads_of(op)) if type(op) is Control else op.operands
        known = [self._pasts[value] for value in reads if value in self._pasts]
        bit = self._bits.get(op.results[0], 0) if type(op) is Collective else 0
        if not known and not bit:
            return
        holds = forms = needs = 0
        for past in known:
            holds, forms = holds | past.holds, forms | past.forms
            needs |= past.needs
        same = forms if len(reads) == len(op.results) == 1 else 0
        for form in _each(forms):
            self._needs[form] = self._needs.get(form, 0) | needs
        if same:
            self._read_until(same, self._last[op.results[0]])
        if holds and _multiplies(op):
            needs, holds = needs | holds, 0
        past = _Past(holds | bit, same | bit, needs)
        self._pasts.update(dict.fromkeys(op.results, past))

    def _read_until(self, forms: int, place: int) -> None:
        """One more form of these moves is read until there."""
        for form in _each(forms):
            self._until[form] = max(self._until[form], place)


def _each(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest
        bits ^= lowest


_MULTIPLIES = "multiplies"


def _multiplies(op: SpmdOp) -> bool:
    """Whether it sums products of operands, or may do so."""
    if not isinstance(op, Compute):
        return not isinstance(op, Collective)
    found: bool | None = op.nest.cache.get(_MULTIPLIES)
    if found is None:
        found = op.nest.cache[_MULTIPLIES] = any(
            factor.reduce and sum(dim is not None for dim in factor.operands) > 1
            for factor in op.nest.factors
        )
    return found
