"""Products: dot_general with all kinds of dimensions, and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jax import lax

from partir.fuzz.programs.sketch import NoFit, Sketch, Var

_WIDER = {
    "int8": ("int32", "int16"),
    "uint8": ("int32", "uint32"),
    "int4": ("int8", "int32"),
    "bool": ("int32",),
    "int16": ("int32",),
    "bfloat16": ("float32",),
    "float16": ("float32",),
    "float32": ("float64",),
    "int32": ("int64",),
}


def _preferred(sketch: Sketch, value: Var) -> str | None:
    wider = _WIDER.get(value.dtype)
    return sketch.rng.choice(wider) if wider and sketch.chance(0.4) else None


def dot(sketch: Sketch) -> None:
    """Batch, contracting and free dimensions by lot, in any order on either side."""
    left = sketch.any(lambda v: v.rank > 0 and v.size > 0)
    roles = [sketch.rng.choice("bccff") for _ in left.shape]
    batch = [d for d, role in enumerate(roles) if role == "b"]
    contract = [d for d, role in enumerate(roles) if role == "c"]
    free = [
        sketch.rng.choice(sketch.sizes) for _ in range(sketch.rng.choice([0, 1, 1, 2]))
    ]
    sizes = [left.shape[d] for d in (*batch, *contract)] + free
    order = sketch.rng.sample(range(len(sizes)), len(sizes))
    right = sketch.like([sizes[i] for i in order], left.dtype)
    where = [order.index(i) for i in range(len(sizes))]
    other_batch, rest = where[: len(batch)], where[len(batch) :]
    numbers = ((contract, rest[: len(contract)]), (batch, other_batch))
    preferred = _preferred(sketch, left)

    def apply(x: Any, y: Any) -> Any:
        return lax.dot_general(x, y, numbers, preferred_element_type=preferred)

    if _work(left, free) > 20_000:
        raise NoFit
    sketch.do(apply, left, right)


def _work(left: Var, free: Sequence[int]) -> int:
    return left.size * math.prod(free)


def chain(sketch: Sketch) -> None:
    """A product and another one of it: gradients and layers look so."""
    dtype = sketch.dtype()
    rows, inner, middle, out = (sketch.rng.choice(sketch.sizes) for _ in range(4))
    x, w = sketch.like((rows, inner), dtype), sketch.like((inner, middle), dtype)
    v = sketch.like((middle, out), dtype)
    numbers = (((1,), (0,)), ((), ()))
    hidden = sketch.one(lambda a, b: lax.dot_general(a, b, numbers), x, w)
    preferred = _preferred(sketch, hidden)
    sketch.do(
        lambda a, b: lax.dot_general(a, b, numbers, preferred_element_type=preferred),
        hidden,
        v,
    )


def convolution(sketch: Sketch) -> None:
    """One or two spatial dimensions, strides, padding, both dilations, both groups."""
    spatial = sketch.rng.choice([1, 1, 2])
    dtype = sketch.dtype()
    groups = sketch.rng.choice([1, 1, 1, 2, 4])
    batches = sketch.rng.choice([1, 1, 2]) if groups == 1 else 1
    batch = batches * sketch.rng.choice([1, 2, 4])
    features = groups * sketch.rng.choice([1, 2, 4])
    outs = groups * batches * sketch.rng.choice([1, 2])
    image = [sketch.rng.choice(sketch.sizes[:2]) for _ in range(spatial)]
    window = [sketch.rng.choice([1, 2, 3, *image[:1]]) for _ in range(spatial)]
    sides = ["NCHW"[: 2 + spatial], "OIHW"[: 2 + spatial]]
    layout = [_shuffled(sketch, side) for side in (*sides, sides[0])]
    left = _arranged(
        dict(zip(sides[0], (batch, features, *image), strict=True)), layout[0]
    )
    right = _arranged(
        dict(zip(sides[1], (outs, features // groups, *window), strict=True)), layout[1]
    )

    def each(options: Sequence[int]) -> list[int]:
        return [sketch.rng.choice(options) for _ in range(spatial)]

    options: dict[str, Any] = {
        "window_strides": each([1, 1, 2]),
        "padding": [
            (sketch.rng.choice([0, 1, 2, -1]), sketch.rng.choice([0, 1, 2]))
            for _ in range(spatial)
        ],
        "lhs_dilation": each([1, 1, 1, 2]),
        "rhs_dilation": each([1, 1, 1, 2]),
        "feature_group_count": groups,
        "batch_group_count": batches,
        "dimension_numbers": tuple(layout),
    }
    x, k = sketch.like(left, dtype), sketch.like(right, dtype)
    sketch.do(lambda a, b: lax.conv_general_dilated(a, b, **options), x, k)


def _shuffled(sketch: Sketch, letters: str) -> str:
    if sketch.chance(0.5):
        return letters
    return "".join(sketch.rng.sample(letters, len(letters)))


def _arranged(sizes: dict[str, int], order: str) -> tuple[int, ...]:
    return tuple(sizes[letter] for letter in order)


def transform(sketch: Sketch) -> None:
    """A Fourier transform of the last dimension."""
    value = sketch.any(lambda v: v.rank > 0 and v.size > 0)
    real = value.dtype in ("float32", "float64")
    if not (real or value.is_complex):
        raise NoFit
    kinds = [lax.FftType.RFFT] if real else [lax.FftType.FFT, lax.FftType.IFFT]
    kind = sketch.rng.choice(kinds)
    sketch.do(lambda x: lax.fft(x, kind, (x.shape[-1],)), value)


SHARES = {dot: 6.0, chain: 1.5, convolution: 2.5, transform: 0.4}
