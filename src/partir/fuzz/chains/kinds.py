"""The table of ops that chains are made of: how each is written, what numpy does.

An entry's functions take the spot in the tensor that the op is about, the operand, and
the options that were drawn. `written` gives None where an op does not fit; it is left
out then. Entries register themselves: `elementwise.py`, `reductions.py`, `movement.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from partir.fuzz.chains.text import Tensor, Writer

Array = np.ndarray[Any, Any]
Options = tuple[Any, ...]

ROOM = 12  # rows of the arguments `w` and `p`
NUMBERS = (0.0, 0.0, 7.0, 1.0)  # of paddings and masks
COMBINED: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
}


class Spot(NamedTuple):
    """Which dimension an op is about.

    Attributes:
        dim: where it is in the tensor.
        lead: how many dimensions are in front of those that ops are about.
    """

    dim: int
    lead: int

    def along(self, x: Array, rows: Array) -> Array:
        """Rows along the dimension, so that numpy repeats them along the others."""
        shape = [1] * x.ndim
        shape[self.dim] = rows.shape[-1]
        if rows.ndim > 1:
            shape[0] = rows.shape[0]
        return rows.reshape(shape)

    def rows(self, x: Array, start: int, end: int) -> Array:
        """Some rows along the dimension."""
        return np.take(x, range(start, end), self.dim)


class Given(NamedTuple):
    """Numbers of the arguments beside the chain's own, on one device."""

    w: Array  # the same on all devices
    p: Array  # of which each device has its own, until they meet
    m: Array  # a matrix
    i: int  # an index
    j: Array  # three of them


class Kind(NamedTuple):
    """An entry of the table.

    Attributes:
        draw: options of one such op.
        written: the op as text, of (Writer, Spot, Tensor, *options).
        computed: the op in numpy, of (Given, Spot, Array, *options).
    """

    draw: Callable[[random.Random], Options]
    written: Callable[..., Tensor | None]
    computed: Callable[..., Array]


KINDS: dict[str, Kind] = {}


def no_options(rng: random.Random) -> Options:
    """What kinds without options draw."""
    return ()


def register(
    name: str,
    written: Callable[..., Tensor | None],
    computed: Callable[..., Array],
    draw: Callable[[random.Random], Options] = no_options,
) -> None:
    """Add an entry to the table."""
    if name in KINDS:
        raise ValueError(f"{name} is registered twice")
    KINDS[name] = Kind(draw, written, computed)


class ChainOp(NamedTuple):
    """A step of a chain: its kind, the dimension that it is about, its options."""

    kind: str
    dim: int
    options: Options = ()

    def __str__(self) -> str:
        return f"{self.kind}@{self.dim}{list(self.options) or ''}"

    def spot(self, rank: int, lead: int) -> Spot:
        """Where it works on a tensor; of one that has too few dimensions, the first."""
        return Spot(lead + (self.dim if self.dim < rank - lead else 0), lead)

    def write(self, text: Writer, spot: Spot, x: Tensor) -> Tensor | None:
        """The op as text, if it fits."""
        return KINDS[self.kind].written(text, spot, x, *self.options)

    def compute(self, given: Given, spot: Spot, x: Array) -> Array:
        """The op in numpy."""
        return KINDS[self.kind].computed(given, spot, x, *self.options)
