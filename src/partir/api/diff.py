"""`diff`: two partitions side by side."""

from __future__ import annotations

from partir.api.partitioned import Partitioned
from partir.errors import PartitionError
from partir.explain.compare import Difference, difference


def diff(a: Partitioned, b: Partitioned) -> Difference:
    """What changes from one partition to another.

    Layouts that differ, collectives lost and gained with their causes and lines, time,
    memory, bytes, work. The two may be of two schedules, two versions of a model, two
    meshes or two devices.

    Example:
        >>> import jax, partir
        >>> x = jax.ShapeDtypeStruct((8, 8), "float32")
        >>> def split(dim):
        ...     tactic = partir.ManualPartition({"x": dim}, axis="B", name="split")
        ...     return partir.partition(lambda x: x.sum(0), {"B": 4}, [tactic], (x,))
        >>> found = partir.diff(split(1), split(0))
        >>> [use.id for use in found.gained], [one.name for one in found.layouts]
        (['all_reduce#0'], ['x', 'out'])
    """
    for given in (a, b):
        if not isinstance(given, Partitioned):
            raise PartitionError(
                "diff takes two Partitioned, as partir.partition(…) or "
                f".partitioned(…) give them, got {given!r}"
            )
    return difference(a.steps, b.steps)
