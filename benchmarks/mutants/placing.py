"""Kinds of mistakes in placing: permutes, masks, offsets, edges, groups."""

from __future__ import annotations

import re

import numpy as np

from benchmarks.mutants.edit import Site, mistake
from partir.ir.attributes import i64_array, ints
from partir.ir.core import Op
from partir.verify.layouts.groups import dense


def _pairs(site: Site) -> np.ndarray | None:
    if site.name != "collective_permute":
        return None
    return dense(site.op.signature.attrs["source_target_pairs"])


def _with_pairs(site: Site, pairs: np.ndarray) -> Op | None:
    rows = ", ".join(f"[{a}, {b}]" for a, b in pairs.tolist())
    text = f"dense<[{rows}]> : tensor<{len(pairs)}x2xi64>"
    return site.changed(attrs={"source_target_pairs": text})


@mistake("permute the other way round")
def _turned(site: Site) -> Op | None:
    pairs = _pairs(site)
    if pairs is None or np.array_equal(np.sort(pairs, 0), np.sort(pairs[:, ::-1], 0)):
        return None
    return _with_pairs(site, pairs[:, ::-1])


@mistake("permute one device too far")
def _too_far(site: Site) -> Op | None:
    pairs = _pairs(site)
    if pairs is None or len(pairs) < 2:
        return None
    return _with_pairs(site, np.stack([pairs[:, 0], np.roll(pairs[:, 1], 1)], 1))


@mistake("one device gets nothing")
def _dropped(site: Site) -> Op | None:
    pairs = _pairs(site)
    if pairs is None or len(pairs) < 2:
        return None
    place = site.rng.randrange(len(pairs))
    return _with_pairs(site, np.delete(pairs, place, 0))


@mistake("devices of a group one further")
def _rotated(site: Site) -> Op | None:
    if site.name not in ("all_gather", "all_to_all", "reduce_scatter"):
        return None
    text = site.op.signature.attrs["replica_groups"]
    if '"' in text or "axis_ref" in text:
        return None
    groups = np.roll(dense(text), 1, 1)
    rows = ", ".join(str(row) for row in groups.tolist())
    kind = text.rpartition(" : ")[2]
    return site.changed(attrs={"replica_groups": f"dense<[{rows}]> : {kind}"})


@mistake("every device a group of its own")
def _alone(site: Site) -> Op | None:
    if site.name != "all_reduce":
        return None
    text = site.op.signature.attrs["replica_groups"]
    if '"' in text or "axis_ref" in text:
        return None
    count = dense(text).size
    rows = ", ".join(f"[{n}]" for n in range(count))
    made = f"dense<[{rows}]> : tensor<{count}x1xi64>"
    return site.changed(attrs={"replica_groups": made})


@mistake("mask left out")
def _mask(site: Site) -> Op | None:
    if site.name != "select":
        return None
    _, yes, no = site.op.operands
    return site.left_out(1) if yes != no else None


def _counts(site: Site, value: int) -> bool:
    """Whether a value is made of the device's number."""
    left, seen = [value], set[int]()
    while left:
        op = site.program.producers.get(left.pop())
        if op is None or op in seen or len(seen) > 40:
            continue
        seen.add(op)
        made = site.program.ops[op]
        if made.signature.name == "partition_id":
            return True
        if made.results and site.program.types[made.results[0]].dtype[0] in "iu":
            left += made.operands
    return False


@mistake("offset left out")
def _offset(site: Site) -> Op | None:
    if site.name not in ("add", "subtract"):
        return None
    if site.program.types[site.op.results[0]].dtype[0] not in "iu":
        return None
    places = [n for n, v in enumerate(site.op.operands) if _counts(site, v)]
    return site.left_out(1 - places[0]) if places else None


@mistake("offset of another axis")
def _axis(site: Site) -> Op | None:
    """The device's number divided, or left over, by another number."""
    if site.name not in ("remainder", "divide") or not _counts(
        site, site.op.operands[0]
    ):
        return None
    other = "divide" if site.name == "remainder" else "remainder"
    return site.changed(kind=f"stablehlo.{other}")


@mistake("offset of twice the tile")
def _tile(site: Site) -> Op | None:
    if site.name != "multiply" or not _counts(site, site.op.operands[0]):
        return None
    return site.changed(kind="stablehlo.add")


@mistake("reduction starts from another number")
def _start(site: Site) -> Op | None:
    if site.name not in ("reduce", "reduce_window") or len(site.op.operands) != 2:
        return None
    others = site.others(site.op.operands[1])
    if not others:
        return None
    return site.changed(operands=(site.op.operands[0], site.rng.choice(others)))


@mistake("padded with another number")
def _padding(site: Site) -> Op | None:
    if site.name != "pad":
        return None
    others = site.others(site.op.operands[1])
    if not others:
        return None
    return site.changed(operands=(site.op.operands[0], site.rng.choice(others)))


@mistake("pad one row further")
def _shifted(site: Site) -> Op | None:
    if site.name != "pad":
        return None
    attrs = site.op.signature.attrs
    low, high = ([*ints(attrs[f"edge_padding_{side}"])] for side in ("low", "high"))
    for dim in range(len(low)):
        if low[dim] or high[dim]:
            low[dim], high[dim] = low[dim] + 1, high[dim] - 1
            edges = {"edge_padding_low": low, "edge_padding_high": high}
            return site.changed(attrs={k: i64_array(v) for k, v in edges.items()})
    return None


@mistake("windows one row further")
def _windows(site: Site) -> Op | None:
    if site.name not in ("convolution", "reduce_window"):
        return None
    text = site.op.signature.attrs.get("padding", "")
    numbers = [*ints(text)] if text else []
    for place in range(0, len(numbers), 2):
        if numbers[place] != 0 or numbers[place + 1] != 0:
            numbers[place], numbers[place + 1] = (
                numbers[place] + 1,
                numbers[place + 1] - 1,
            )
            pairs = [numbers[n : n + 2] for n in range(0, len(numbers), 2)]
            kind = text.rpartition(" : ")[2]
            return site.changed(attrs={"padding": f"dense<{pairs}> : {kind}"})
    return None


@mistake("all_to_all the other way round")
def _all_to_all(site: Site) -> Op | None:
    if site.name != "all_to_all":
        return None
    attrs = site.op.signature.attrs
    names = ("split_dimension", "concat_dimension")
    split, concat = (attrs[name] for name in names)
    before, after = (
        t.shape for t in (*site.op.signature.operands, *site.op.signature.results)
    )
    if sorted(before) != sorted(after) or before == after or split == concat:
        return None
    return site.changed(attrs=dict(zip(names, (concat, split), strict=True)))


@mistake("edges of a clamp swapped")
def _clamp(site: Site) -> Op | None:
    if site.name != "clamp":
        return None
    low, value, high = site.op.operands
    return site.changed(operands=(high, value, low)) if low != high else None


@mistake("scatter combines otherwise")
def _scatter(site: Site) -> Op | None:
    if site.name != "scatter" or not site.op.signature.lambdas[0].ops:  # replaces
        return None
    from benchmarks.mutants.kinds import reducer

    return site.changed(lambdas=reducer(site, "stablehlo.maximum", "stablehlo.add"))


@mistake("dimensions transposed back")
def _inverse(site: Site) -> Op | None:
    if site.name != "transpose":
        return None
    order = ints(site.op.signature.attrs["permutation"])
    inverse = [order.index(n) for n in range(len(order))]
    shape = site.op.signature.operands[0].shape
    if tuple(shape[n] for n in inverse) != site.op.signature.results[0].shape:
        return None
    return site.changed(attrs={"permutation": i64_array(inverse)})


@mistake("barrier passes values on crosswise")
def _barrier(site: Site) -> Op | None:
    if site.name != "optimization_barrier":
        return None
    operands = list(site.op.operands)
    types = site.program.types
    for i in range(len(operands)):
        for j in range(i):
            if types[operands[i]] == types[operands[j]] and operands[i] != operands[j]:
                operands[i], operands[j] = operands[j], operands[i]
                return site.changed(operands=operands)
    return None


@mistake("slice with another stride")
def _stride(site: Site) -> Op | None:
    if site.name != "slice":
        return None
    attrs, shape = site.op.signature.attrs, site.op.signature.operands[0].shape
    starts, limits, strides = (
        [*ints(attrs[name])] for name in ("start_indices", "limit_indices", "strides")
    )
    for dim, size in enumerate(shape):
        rows = site.op.signature.results[0].shape[dim]
        if strides[dim] == 1 and rows > 1 and starts[dim] + 2 * rows - 1 <= size:
            strides[dim], limits[dim] = 2, starts[dim] + 2 * rows - 1
            edges = {"strides": strides, "limit_indices": limits}
            return site.changed(attrs={k: i64_array(v) for k, v in edges.items()})
    return None


@mistake("rounded to another type and back")
def _narrow(site: Site) -> Op | None:
    """A conversion that leaves the type as it is named, from a narrower one."""
    if site.name != "convert":
        return None
    found = re.fullmatch(r"f(32|64)", site.op.signature.results[0].dtype)
    others = [
        v
        for v in site.before
        if found
        and site.program.types[v].shape == site.op.signature.results[0].shape
        and site.program.types[v].dtype in ("bf16", "f16", "f32", "i1", "i32")
        and v != site.op.operands[0]
    ]
    return site.changed(operands=(site.rng.choice(others),)) if others else None
