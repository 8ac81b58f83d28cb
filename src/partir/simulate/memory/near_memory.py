"""Memory beside the matrix units: what it holds needs no place in the device's memory.

The compiler for TPUs keeps what lives briefly in VMEM, as much as there is room for.
While a loop runs, these are the values that it carries or leaves alone, however long
they live, and what its body needs, if all of that is little enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from partir.simulate.memory.buffer_reuse import Buffer


@dataclass(frozen=True, slots=True)
class NearMemory:
    """How much there is, and for how many kernels something stays there."""

    bytes: float = 0.0
    kernels: int = 20

    def hidden(self, buffers: Iterable[Buffer], inner: np.ndarray) -> np.ndarray:
        """Bytes that it holds at each place; `inner` is what loops need there.

        >>> lives = [(8, 0, 1, 1), (4, 1, 2, 1), (4, 0, 99, 1)]
        >>> NearMemory(10.0).hidden(lives, np.zeros(100))[:4].tolist()
        [8.0, 10.0, 4.0, 0.0]
        >>> loops = np.array([0.0, 0.0, 0.0, 2.0, 16.0])
        >>> NearMemory(10.0, kernels=2).hidden([(4, 0, 99, 1)], loops).tolist()
        [0.0, 0.0, 0.0, 6.0, 4.0]
        """
        if not self.bytes:
            return np.zeros(len(inner))
        small = [buffer for buffer in buffers if buffer[0] <= self.bytes]
        brief = [buffer for buffer in small if buffer[2] - buffer[1] <= self.kernels]
        fits = np.where(inner <= self.bytes, inner, 0.0)
        in_loops = _alive(small, len(inner)) + fits
        held = np.where(inner > 0, in_loops, _alive(brief, len(inner)))
        return np.minimum(held, self.bytes)


def _alive(buffers: Iterable[Buffer], places: int) -> np.ndarray:
    """Bytes of buffers at each place."""
    change = np.zeros(places + 1)
    for size, first, last, times in buffers:
        change[first] += size * times
        change[min(last, places - 1) + 1] -= size * times
    alive: np.ndarray = np.cumsum(change)[:places]
    return alive


NO_NEAR_MEMORY = NearMemory()
