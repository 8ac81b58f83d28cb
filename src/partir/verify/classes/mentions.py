"""Operands that read one index in several of their dimensions.

What tables tie together is one variable (`components.py`), which an operand may have in
several dimensions: of what each device scatters, the device and the place. A reduction
over devices reads it at all devices and at one place: these are two variables again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from partir.verify.classes.rows import Rows
from partir.verify.classes.terms import Dims, Variable


class SplitDims(NamedTuple):
    """An operand's dimensions, and what its variables stand for."""

    dims: Dims
    rows: Mapping[Variable, Rows]  # by free and bound place
    bound: frozenset[Variable]  # new ones, which stand for all rows
    kept: Mapping[Variable, tuple[Variable, Rows]]  # new ones of free places alone


def split_dims(
    dims: Dims, columns: Mapping[Variable, Rows], sizes: Sequence[int]
) -> SplitDims | None:
    """Variables that occur once each; None if they can't be told apart.

    `columns` has, for each variable, the rows of all dimensions that mention it;
    `sizes` are how many rows the dimensions have.
    """
    made, rows = list(dims), dict[Variable, Rows]()
    bound: set[Variable] = set()
    kept: dict[Variable, tuple[Variable, Rows]] = {}
    for variable, held in columns.items():
        places = [n for n, dim in enumerate(dims) if variable in dim]
        if len(places) == 1:
            rows[variable] = held[..., 0]
            continue
        over = 0
        for number, place in enumerate(places):
            name, own = (variable, "mention", number), held[..., number]
            if dims[place] != (variable,):
                return None
            made[place] = (name,)
            if (own == own[:, :1]).all():
                kept[name] = (variable, own[:, 0])
            elif are_all(own, sizes[place]):
                bound.add(name)
                over += 1
            else:
                return None
        if over != 1 or len(places) != 2:
            return None
    return SplitDims(tuple(made), rows, frozenset(bound), kept)


def are_all(rows: Rows, size: int) -> bool:
    """Whether these are all rows of a dimension, once each, in any order."""
    if size < 1 or rows.shape[-1] != size:
        return False
    return bool((np.sort(rows, -1) == np.arange(size)).all())
