"""Memory beside the matrix units: what it holds needs no place in the device's memory.

The compiler for TPUs keeps what lives briefly in VMEM, as much as there is room for,
and what lives longer if part of VMEM stays free all the while: arguments are fetched
there. While a loop runs, these are the values that it carries or leaves alone, however
long they live, and what its body needs, if all of that is little enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from partir.simulate.memory.buffer_reuse import Buffer


@dataclass(frozen=True, slots=True)
class NearMemory:
    """How much there is, and for how many kernels something stays there at any rate.

    `share` is how much of it may be full where something stays longer.
    """

    bytes: float = 0.0
    kernels: int = 20
    share: float = 0.5

    def hidden(self, buffers: Iterable[Buffer], inner: np.ndarray) -> np.ndarray:
        """Bytes that it holds at each place; `inner` is what loops need there.

        >>> lives = [(8, 0, 1, 1), (4, 1, 2, 1), (4, 0, 99, 1), (2, 2, 99, 1)]
        >>> NearMemory(10.0).hidden(lives, np.zeros(100))[:4].tolist()
        [8.0, 10.0, 4.0, 0.0]
        >>> NearMemory(10.0, share=0.6).hidden(lives, np.zeros(100))[:4].tolist()
        [8.0, 10.0, 6.0, 2.0]
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
        held = np.minimum(held, self.bytes)
        long = [buffer for buffer in small if buffer[2] - buffer[1] > self.kernels]
        return self._filled(held, long, np.cumsum(inner > 0))

    def _filled(
        self, held: np.ndarray, long: Sequence[Buffer], loops: np.ndarray
    ) -> np.ndarray:
        """With what lives longer, the briefest first; `loops` counts those so far."""
        for size, first, last, times in sorted(long, key=lambda b: b[2] - b[1]):
            span, looped = held[first : last + 1], loops[first : last + 1]
            if looped[-1] > (loops[first - 1] if first else 0):
                continue
            if span.max() + size * times <= self.bytes * self.share:
                span += size * times
        return held


def _alive(buffers: Iterable[Buffer], places: int) -> np.ndarray:
    """Bytes of buffers at each place."""
    change = np.zeros(places + 1)
    for size, first, last, times in buffers:
        change[first] += size * times
        change[min(last, places - 1) + 1] -= size * times
    alive: np.ndarray = np.cumsum(change)[:places]
    return alive


NO_NEAR_MEMORY = NearMemory()
