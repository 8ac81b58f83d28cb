"""Memory beside the matrix units: what it holds needs no place in the device's memory.

The compiler for TPUs keeps what lives briefly in VMEM, as much as there is room for; in
the body of a loop, next to nothing that is large.
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
        """Bytes that it holds at each place, nothing where there is a loop.

        >>> lives = [(8, 0, 1, 1), (4, 1, 2, 1), (4, 0, 99, 1)]
        >>> NearMemory(10.0).hidden(lives, np.zeros(100))[:4].tolist()
        [8.0, 10.0, 4.0, 0.0]
        """
        places = len(inner)
        change = np.zeros(places + 1)
        for size, first, last, times in buffers if self.bytes else ():
            if size <= self.bytes and last - first <= self.kernels:
                change[first] += size * times
                change[last + 1] -= size * times
        held: np.ndarray = np.minimum(np.cumsum(change)[:places], self.bytes)
        return np.where(inner > 0, 0.0, held)


NO_NEAR_MEMORY = NearMemory()
