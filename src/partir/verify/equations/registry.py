"""The table of equations, by op."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from partir.ir.core import Signature
from partir.verify.layouts.align import Equation

Make = Callable[[Signature], Equation]
_EQUATIONS: dict[str, Make] = {}


def equation(*names: str) -> Callable[[Make], Make]:
    """Register the equation of ops; without a dialect, of StableHLO."""

    def keep(make: Make) -> Make:
        for name in names:
            kind = name if "." in name else f"stablehlo.{name}"
            assert kind not in _EQUATIONS, kind
            _EQUATIONS[kind] = make
        return make

    return keep


def equation_of(signature: Signature) -> Equation | None:
    """What an op computes; None if the verifier does not know it."""
    make = _EQUATIONS.get(signature.kind)
    return None if make is None else make(signature)


def known_kinds() -> frozenset[str]:
    """All ops that have an equation here."""
    return frozenset(_EQUATIONS)


def rest(attrs: Mapping[str, str], *read: str) -> Hashable:
    """Attributes that an equation has not read: two ops are equal if these are."""
    return tuple(sorted((k, v) for k, v in attrs.items() if k not in read))
