"""Windows that slide: pooling, cumulative sums, and the way back through a maximum."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax

from partir.fuzz.programs.sketch import Sketch, Var, identity


def _window(sketch: Sketch, value: Var) -> dict[str, Any]:
    shape = [
        sketch.rng.choice([1, 1, 2, 3]) if sketch.chance(0.9) else max(size, 1)
        for size in value.shape
    ]
    return {
        "window_dimensions": shape,
        "window_strides": [sketch.rng.choice([1, 1, 2]) for _ in shape],
        "padding": [
            (sketch.rng.choice([0, 0, 1, n - 1]), sketch.rng.choice([0, 0, 1, n - 1]))
            for n in shape
        ],
    }


def pool(sketch: Sketch) -> None:
    """Sums, maxima, minima or products over windows, dilated at times."""
    value = sketch.any(lambda v: v.rank > 0 and not (v.is_bool or v.is_complex))
    window = _window(sketch, value)
    if sketch.chance(0.3):
        window["base_dilation"] = [sketch.rng.choice([1, 2]) for _ in value.shape]
        window["window_dilation"] = [sketch.rng.choice([1, 2]) for _ in value.shape]
    way = sketch.rng.choice(["add", "add", "max", "min", "mul"])
    combine, number = getattr(lax, way), identity(way, value.dtype)
    sketch.do(lambda x: lax.reduce_window(x, number, combine, **window), value)


def backward(sketch: Sketch) -> None:
    """The gradient of a maximum over windows: select and scatter."""
    value = sketch.any(lambda v: v.rank > 0 and v.dtype in ("float32", "float64"))
    window = _window(sketch, value)
    least = identity("max", value.dtype)

    def forward(x: Any) -> Any:
        return lax.reduce_window(x, least, lax.max, **window)

    pooled = sketch.one(forward, value)
    cotangent = sketch.like(pooled.shape, pooled.dtype)
    sketch.do(lambda x, ct: jax.vjp(forward, x)[1](ct)[0], value, cotangent)


def cumulative(sketch: Sketch) -> None:
    """Sums, products and extremes so far."""
    value = sketch.any(lambda v: v.rank > 0 and not v.is_bool)
    found = [lax.cumsum, lax.cumsum, lax.cumprod]
    found += [] if value.is_complex else [lax.cummax, lax.cummin]
    found += [lax.cumlogsumexp] if value.is_float else []
    run = sketch.rng.choice(found)
    dim, backwards = sketch.rng.randrange(value.rank), sketch.chance(0.3)
    sketch.do(lambda x: run(x, dim, reverse=backwards), value)


SHARES = {pool: 2.0, backward: 0.7, cumulative: 1.5}
