"""Families of ops that random programs are made of, each with its share."""

from __future__ import annotations

from collections.abc import Callable

from partir.fuzz.programs.families import (
    control,
    elementwise,
    gradients,
    linear,
    lookups,
    movement,
    names,
    order,
    products,
    reductions,
    windows,
)
from partir.fuzz.programs.sketch import Sketch

Family = Callable[[Sketch], None]

SHARES: dict[Family, float] = {
    **elementwise.SHARES,
    **movement.SHARES,
    **products.SHARES,
    **reductions.SHARES,
    **linear.SHARES,
    **windows.SHARES,
    **lookups.SHARES,
    **order.SHARES,
    **gradients.SHARES,
    **control.SHARES,
    **names.SHARES,
}
"""How often each is drawn. Those with bodies draw from here themselves."""
