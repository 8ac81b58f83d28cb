"""How two devices divide a chain's argument, and how they meet again.

Where a chain is reduced, the source has a dimension in front that its devices divide,
and reduces over it where devices meet. Where it is gathered, devices divide the rows,
and the source has no part in it; the last tile may be short, and then ends in NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from partir.fuzz.chains.kinds import COMBINED, ROOM, Array, Given
from partir.fuzz.chains.text import Tensor, Writer
from partir.mesh import Mesh

MESH = Mesh({"B": 2})
DRAWS = 4  # of numbers: a maximum or an index can hide a mistake from one of them
_ROWS, _COLUMNS = 4, 3  # of a device
_WHOLE = (((),), (), ((), ()), ((), ()))  # tilings of the arguments w, i, j, m
_COMMON = (
    Tensor("w", (ROOM,)),
    Tensor("i", (), "i32"),
    Tensor("j", (3, 1), "i32"),
    Tensor("m", (6, 3)),
)
Tilings = Sequence[Sequence[Sequence[str]]]


class Drawn(NamedTuple):
    """Numbers of all arguments, of both devices."""

    x: Array
    given: Given


def drawn(seed: int) -> list[Drawn]:
    """Several draws; indices may be outside."""
    rng = np.random.default_rng(seed)
    return [
        Drawn(
            rng.normal(size=(2, _ROWS, _COLUMNS)),
            Given(
                rng.normal(size=ROOM),
                rng.normal(size=(2, ROOM)),
                rng.normal(size=(6, 3)),
                int(rng.choice([-1, 0, 1, 2, 9])),
                rng.choice([-1, 0, 1, 2, 3, 9], size=3),
            ),
        )
        for _ in range(DRAWS)
    ]


@dataclass
class ChainDraft:
    """A chain as far as it is written, with its numbers.

    Attributes:
        numbers: of its value, by draw, then by device; `given` likewise.
        lead: how many dimensions of the value devices divide beside the chain's own.
    """

    text: Writer
    value: Tensor
    numbers: list[Array]
    given: list[Given]
    devices: int
    lead: int = 0

    def together(self) -> list[tuple[Array, Array]]:
        """The numbers of both devices, by draw."""
        return list(zip(self.numbers[::2], self.numbers[1::2], strict=True))


class Mode(Protocol):
    """How devices divide and meet."""

    tilings: Tilings

    def source(self, draws: Sequence[Drawn]) -> ChainDraft:
        """Where the chain of the source begins."""

    def local(self, draws: Sequence[Drawn]) -> ChainDraft:
        """Where the chain of each device begins."""

    def meet(self, draft: ChainDraft) -> None:
        """Both devices have the same from here on."""


class ReducedTerms:
    """Devices have terms of a sum, or of a maximum."""

    tilings: Tilings = ((("B",), (), ()), (("B",), ()), *_WHOLE)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def source(self, draws: Sequence[Drawn]) -> ChainDraft:
        """Terms along a dimension in front."""
        text = Writer(*_terms(2))
        numbers, given = [one.x for one in draws], [one.given for one in draws]
        return ChainDraft(text, text.named["x"], numbers, given, devices=1, lead=1)

    def local(self, draws: Sequence[Drawn]) -> ChainDraft:
        """One term, without that dimension."""
        text = Writer(*_terms(1))
        x, p = (text.op("reshape", [one], one.shape[1:]) for one in _terms(1)[:2])
        text.named["p"] = p
        numbers = [term for one in draws for term in one.x]
        given = [one.given._replace(p=p) for one in draws for p in one.given.p]
        return ChainDraft(text, x, numbers, given, devices=2)

    def meet(self, draft: ChainDraft) -> None:
        """The sum or maximum of all terms; what each device has alone is gone."""
        del draft.text.named["p"]
        if draft.devices == 1:
            draft.value = draft.text.reduce(self.kind, draft.value, 0)
            draft.numbers = [
                COMBINED[self.kind].reduce(x, axis=0) for x in draft.numbers
            ]
        else:
            draft.value = draft.text.all_reduce(self.kind, draft.value)
            found = [COMBINED[self.kind](*terms) for terms in draft.together()]
            draft.numbers = [x for x in found for _ in range(2)]
        draft.lead = 0


def _terms(count: int) -> tuple[Tensor, ...]:
    x = Tensor("x", (count, _ROWS, _COLUMNS))
    return x, Tensor("p", (count, ROOM)), *_COMMON


class GatheredRows:
    """Devices have tiles of the rows."""

    tilings: Tilings = ((("B",), ()), *_WHOLE)

    def __init__(self, rows: int) -> None:
        self.missing = 2 * _ROWS - rows

    def source(self, draws: Sequence[Drawn]) -> ChainDraft:
        """All rows, without those that the last tile is short of."""
        rows = 2 * _ROWS - self.missing
        numbers = [one.x.reshape(-1, _COLUMNS)[:rows] for one in draws]
        return self._draft(rows, numbers, [one.given for one in draws], 1)

    def local(self, draws: Sequence[Drawn]) -> ChainDraft:
        """A tile, in which rows that are missing may hold anything."""
        numbers = [tile.copy() for one in draws for tile in one.x]
        for tile in numbers[1::2]:
            tile[_ROWS - self.missing :] = np.nan
        given = [one.given for one in draws for _ in range(2)]
        return self._draft(_ROWS, numbers, given, 2)

    def _draft(
        self, rows: int, numbers: list[Array], given: list[Given], devices: int
    ) -> ChainDraft:
        text = Writer(Tensor("x", (rows, _COLUMNS)), *_COMMON)
        return ChainDraft(text, text.named["x"], numbers, given, devices)

    def meet(self, draft: ChainDraft) -> None:
        """The rows of both devices; the source has them already."""
        if draft.devices == 1:
            return
        whole = draft.text.all_gather(draft.value)
        rows = whole.shape[0] - self.missing
        draft.value = draft.text.slice(whole, 0, 0, rows) if self.missing else whole
        found = [np.concatenate(tiles)[:rows] for tiles in draft.together()]
        draft.numbers = [x for x in found for _ in range(2)]


MODES: dict[str, Mode] = {
    "sum": ReducedTerms("add"),
    "max": ReducedTerms("maximum"),
    "gather": GatheredRows(8),
    "short": GatheredRows(7),
}
