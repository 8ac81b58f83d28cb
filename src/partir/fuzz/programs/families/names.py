"""Tags: names that models give to values, also within loops, batches and gradients."""

from __future__ import annotations

from typing import Any

import jax

from partir.frontend.tag import tag
from partir.fuzz.programs.sketch import Sketch


def tagged(sketch: Sketch) -> None:
    """A value with a name, which others may have too; at times through a batch."""
    value = sketch.any(lambda v: v.rank > 0)
    name = f"tag{sketch.rng.randrange(4)}"
    dim = sketch.rng.randrange(value.rank)
    batched = value.rank > 1 and sketch.chance(0.3)

    def named(x: Any) -> Any:
        return tag(x, name)

    sketch.do(jax.vmap(named, in_axes=dim, out_axes=dim) if batched else named, value)


SHARES = {tagged: 5.0}
