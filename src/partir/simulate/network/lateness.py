"""How long nodes that end a step together wait for the latest of them."""

from __future__ import annotations


def lateness(nodes: int) -> float:
    """How much later the latest of some nodes is than one of them, in its own mean.

    What delays a node (its host, its share of the network) is seldom long: if times
    are exponentially distributed, the latest of n takes ``1 + 1/2 + ... + 1/n`` times
    the mean. One node's own lateness is part of what is measured of a device.

    >>> lateness(1), lateness(2), round(lateness(8), 2)
    (0.0, 0.5, 1.72)
    """
    return sum((1 / n for n in range(2, nodes + 1)), 0.0)
