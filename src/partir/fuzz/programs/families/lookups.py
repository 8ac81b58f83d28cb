"""Look-ups and updates by index, in range and out of it, once and repeatedly."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from partir.fuzz.programs.sketch import NoFit, Sketch, Var

_MODES = ["clip", "fill", "promise_in_bounds"]


def _table(sketch: Sketch) -> Var:
    return sketch.any(lambda v: v.rank > 0 and all(v.shape))


def take(sketch: Sketch) -> None:
    """Rows or columns by number; then perhaps a product with something."""
    table = _table(sketch)
    ids = sketch.index(sketch.shape(0, 2))
    dim, mode = sketch.rng.randrange(table.rank), sketch.rng.choice(_MODES[:2])
    found = sketch.one(lambda x, i: jnp.take(x, i, dim, mode=mode), table, ids)
    if sketch.chance(0.4) and not table.is_bool:
        sketch.do(lax.mul, found, sketch.like(found.shape, found.dtype))


def take_along(sketch: Sketch) -> None:
    """An index of its own for every row."""
    table = _table(sketch)
    dim = sketch.rng.randrange(table.rank)
    shape = list(table.shape)
    shape[dim] = sketch.rng.choice([1, 2, shape[dim]])
    ids, mode = sketch.index(shape), sketch.rng.choice(_MODES[:2])
    sketch.do(lambda x, i: jnp.take_along_axis(x, i, dim, mode=mode), table, ids)


def points(sketch: Sketch) -> None:
    """Single elements, each by two indices."""
    table = sketch.any(lambda v: v.rank > 1 and all(v.shape))
    ids = sketch.index((sketch.rng.choice(sketch.sizes),))
    other = sketch.like(ids.shape, ids.dtype, "index")
    sketch.do(lambda x, i, j: x.at[i, j].get(mode="clip"), table, ids, other)


def windows(sketch: Sketch) -> None:
    """A dynamic slice, for every row at a place of its own, or for all at one."""
    table = _table(sketch)
    sizes = [sketch.rng.randrange(1, n + 1) for n in table.shape]
    if table.rank > 1 and sketch.chance(0.5):

        def one(row: Any, start: Any) -> Any:
            zeros = [jnp.zeros((), start.dtype)] * (table.rank - 2)
            return lax.dynamic_slice(row, [start, *zeros], sizes[1:])

        sketch.do(jax.vmap(one), table, sketch.index((table.shape[0],)))
        return
    starts = [sketch.index(()) for _ in sizes]
    kind = starts[0].dtype

    def apply(x: Any, *at: Any) -> Any:
        return lax.dynamic_slice(x, [a.astype(kind) for a in at], sizes)

    sketch.do(apply, table, *starts)


def written(sketch: Sketch) -> None:
    """A dynamic update of a part."""
    table = _table(sketch)
    shape = [
        sketch.rng.choice([n, sketch.rng.randrange(1, n + 1)]) for n in table.shape
    ]
    update, starts = sketch.like(shape, table.dtype), [sketch.index(()) for _ in shape]
    kind = starts[0].dtype

    def apply(x: Any, u: Any, *at: Any) -> Any:
        return lax.dynamic_update_slice(x, u, [a.astype(kind) for a in at])

    sketch.do(apply, table, update, *starts)


def scatter(sketch: Sketch) -> None:
    """Rows added, multiplied, compared; the same place may be met twice."""
    table = _table(sketch)
    if table.is_bool:
        raise NoFit
    count = sketch.rng.choice(sketch.sizes)
    ids = sketch.index((count,))
    dim = sketch.rng.randrange(table.rank)
    shape = [*table.shape[:dim], count, *table.shape[dim + 1 :]]
    updates = sketch.like(shape, table.dtype)
    ways = ["add", "add", "add", "multiply"]
    ways += [] if table.is_complex else ["max", "min"]
    way = sketch.rng.choice(ways)
    place = (slice(None),) * dim

    def apply(x: Any, i: Any, u: Any) -> Any:
        return getattr(x.at[(*place, i)], way)(u, mode="drop")

    sketch.do(apply, table, ids, updates)


def replaced(sketch: Sketch) -> None:
    """Rows replaced, each at most once: which of two would stay is open."""
    table = _table(sketch)
    size = table.shape[0]
    count = sketch.rng.randrange(1, size + 1)
    updates = sketch.like((count, *table.shape[1:]), table.dtype)
    first = sketch.rng.randrange(size + 2)

    def apply(x: Any, u: Any) -> Any:
        ids = (lax.iota(jnp.int32, count) + first) % (size + 2)
        return x.at[ids].set(u, mode="drop")

    sketch.do(apply, table, updates)


def per_row(sketch: Sketch) -> None:
    """A batch of look-ups or of sums into places."""
    table = sketch.any(lambda v: v.rank > 1 and all(v.shape) and not v.is_bool)
    count = sketch.rng.choice([1, 2, 3])
    ids = sketch.index((table.shape[0], count))
    if sketch.chance(0.5):
        look = jax.vmap(lambda row, i: row.at[i].get(mode="clip"))
        sketch.do(look, table, ids)
        return
    updates = sketch.like((table.shape[0], count, *table.shape[2:]), table.dtype)
    add = jax.vmap(lambda row, i, u: row.at[i].add(u, mode="drop"))
    sketch.do(add, table, ids, updates)


def one_hot(sketch: Sketch) -> None:
    """A look-up as a product with ones and zeros."""
    table = sketch.any(lambda v: v.rank == 2 and not v.is_bool)
    ids = sketch.index((sketch.rng.choice(sketch.sizes),))
    size = table.shape[0]

    def apply(x: Any, i: Any) -> Any:
        hot = (i[:, None].astype(jnp.int32) == jnp.arange(size)[None]).astype(x.dtype)
        return lax.dot_general(hot, x, (((1,), (0,)), ((), ())))

    sketch.do(apply, table, ids)


def general(sketch: Sketch) -> None:
    """Windows, single and batching dimensions in any roles, gathered or scattered."""
    table = sketch.any(lambda v: v.rank > 1 and all(v.shape))
    roles = [sketch.rng.choice(["batch", "one", "part", "whole"]) for _ in table.shape]
    free = [d for d, role in enumerate(roles) if role != "batch"]
    if not free:
        raise NoFit
    indexed = sketch.rng.sample(free, sketch.rng.randrange(1, len(free) + 1))
    batch = [d for d, role in enumerate(roles) if role == "batch"]
    places = [*(table.shape[d] for d in batch), sketch.rng.choice(sketch.sizes[:2])]
    ids = sketch.index((*places, len(indexed)))
    sizes = [
        _extent(sketch, role, n) for role, n in zip(roles, table.shape, strict=True)
    ]
    windows = [n for r, n in zip(roles, sizes, strict=True) if r in ("part", "whole")]
    offsets = sorted(sketch.rng.sample(range(len(places) + len(windows)), len(windows)))
    collapsed = tuple(d for d, role in enumerate(roles) if role == "one")
    common = (tuple(offsets), collapsed, tuple(indexed), tuple(batch))
    numbers = lax.GatherDimensionNumbers(*common, tuple(range(len(batch))))

    def look(x: Any, i: Any) -> Any:
        return lax.gather(x, i, numbers, sizes, mode="clip")

    found = sketch.one(look, table, ids)
    if sketch.chance(0.5) and not table.is_bool:
        updates = sketch.like(found.shape, table.dtype)
        back = lax.ScatterDimensionNumbers(*common, tuple(range(len(batch))))
        sketch.do(lambda x, i, u: lax.scatter_add(x, i, u, back), table, ids, updates)


def _extent(sketch: Sketch, role: str, size: int) -> int:
    """How much of a dimension a window sees."""
    if role in ("batch", "one"):
        return 1
    return size if role == "whole" else sketch.rng.randrange(1, size + 1)


SHARES = {
    general: 1.5,
    take: 3.0,
    take_along: 1.0,
    points: 1.0,
    windows: 1.5,
    written: 1.5,
    scatter: 2.5,
    replaced: 0.7,
    per_row: 1.0,
    one_hot: 0.7,
}
