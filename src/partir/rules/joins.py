"""Partial results: what tiles of a reduced dimension give, joined by the op itself.

Where no monoid of XLA's collectives recombines results, every iteration's are laid one
behind the other, in the order of the tiles, and reduced once more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.rules.local import Emitter, Ssa
from partir.rules.nest import Nest
from partir.rules.reach import tile_lengths

Splats = Sequence[str | None]
Types = tuple[TensorType, ...]


class Join(ABC):
    """How an op makes partial results of a tile, and its results of all of them.

    Partial results lie along `dim`, which results may lack: `adds` says so.
    """

    adds = False

    @abstractmethod
    def dim(self, nest: Nest) -> int:
        """The dimension along which partial results lie."""

    @abstractmethod
    def rows(self, nest: Nest) -> tuple[int, int]:
        """How many rows one iteration gives, and how many all have together."""

    @abstractmethod
    def partial(
        self, nest: Nest, emitter: Emitter, operands: Sequence[Ssa], splats: Splats
    ) -> tuple[Ssa, ...]:
        """Emit one iteration's partial results."""

    @abstractmethod
    def whole(self, nest: Nest, laid: Types, results: Types) -> Signature:
        """The op that makes results of partial ones laid one behind the other."""

    def starts(self, nest: Nest) -> tuple[int, ...]:
        """Operands of the op that `whole` reads as well, behind the partial results."""
        return ()

    def types(self, nest: Nest, results: Types, rows: int) -> Types:
        """Types of partial results with so many rows, given those of results."""
        dim, made = self.dim(nest), []
        for type_ in results:
            shape = list(type_.shape)
            shape[dim : dim + (not self.adds)] = [rows]
            made.append(type_.with_shape(tuple(shape)))
        return tuple(made)


_joins: dict[str, Join] = {}


def joined_by(kind: str, join: Join) -> None:
    """Register how partial results of an op kind are made and joined."""
    _joins[kind] = join


def join_of(nest: Nest) -> Join:
    """How partial results of an op are made and joined."""
    return _joins[nest.signature.kind]


def partial_types(nest: Nest, results: Types) -> Types:
    """Types of one iteration's partial results, given those of results."""
    join = join_of(nest)
    return join.types(nest, results, join.rows(nest)[0])


def laid_types(nest: Nest, results: Types) -> Types:
    """Types of all partial results, given those of results."""
    join = join_of(nest)
    return join.types(nest, results, join.rows(nest)[1])


def whole_of(nest: Nest, results: Types) -> Signature:
    """The op that joins partial results into results of these types."""
    return join_of(nest).whole(nest, laid_types(nest, results), results)


def iterations(nest: Nest) -> int:
    """How many partial results there are."""
    return math.prod(loop.size for loop in nest.joins)


def is_short(nest: Nest) -> bool:
    """Whether some tile of what is joined is not full."""
    return any(loop.factor.size % loop.size for loop in nest.joins)


def lengths(nest: Nest) -> list[int]:
    """How much each iteration has of what is joined, the innermost loop fastest.

    A second dimension is cut only where the first has one row left.
    """
    made, loops = [1], list(nest.joins)
    while loops:
        dims = loops[0].factor.operands
        chain = [loop for loop in loops if loop.factor.operands == dims]
        loops = loops[len(chain) :]
        parts = tile_lengths(chain[0].factor.size, [loop.size for loop in chain])
        made = [outer * inner for outer in made for inner in parts]
    return made
