"""`Pair`: calls that hand on residuals; what one saves, another resumes from.

No rule says in which order a residual holds what it is made of, only along which names
it falls into tiles. So it means something only to calls that are in the same loops over
these names. Calls that hand on the same kind of residuals share a *pair*.
"""

from __future__ import annotations

from dataclasses import dataclass

from partir.ir.core import Signature
from partir.ir.user_rule import PAIRS


@dataclass(frozen=True, slots=True)
class Pair:
    """A call's part in a pair.

    `names` are the residuals' in the call's own rule, in the same order in all calls of
    the pair. `positions` are the residuals among operands, then results, where known.
    """

    key: str
    names: tuple[str, ...]
    positions: tuple[int, ...]

    def __str__(self) -> str:
        """As an attribute holds it: ``0: b h: 2 3``."""
        places = " ".join(map(str, self.positions))
        return f"{self.key}: {' '.join(self.names)}: {places}"


def pairs_of(op: Signature) -> tuple[Pair, ...]:
    """The pairs that a call belongs to; of any other op none.

    >>> attrs = {PAIRS: '"0: b h: 2 3"'}
    >>> pairs_of(Signature.of("stablehlo.custom_call", attrs, (), ()))
    (Pair(key='0', names=('b', 'h'), positions=(2, 3)),)
    """
    text = op.attrs.get(PAIRS, "").strip('"')
    found = []
    for part in filter(None, text.split(";")):
        key, names, places = part.split(":")
        positions = tuple(map(int, places.split()))
        found.append(Pair(key.strip(), tuple(names.split()), positions))
    return tuple(found)
