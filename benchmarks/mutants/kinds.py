"""Kinds of mistakes that a partitioner could make."""

from __future__ import annotations

import re

from benchmarks.mutants.edit import Site, mistake
from partir.ir.attributes import i64_array, ints
from partir.ir.core import Lambda, Op, Signature

_SHAPE_KEEPING = ("all_reduce", "collective_permute")
_UNARY = {"exponential": "log", "log": "exponential", "tanh": "logistic"}
_UNARY |= {"sqrt": "rsqrt", "rsqrt": "sqrt", "negate": "abs", "sine": "cosine"}


def _number(text: str) -> int:
    return int(text.split()[0])


@mistake("collective left out")
def _left_out(site: Site) -> Op | None:
    return site.left_out() if site.name in _SHAPE_KEEPING else None


@mistake("sum over devices done twice")
def _twice(site: Site) -> Op | None:
    """What is summed already is summed again: its reader reads a second sum."""
    if site.name != "all_reduce":
        return None
    makers = site.program.producers
    others = [
        v
        for v in site.others(site.op.operands[0])
        if v in makers and site.program.ops[makers[v]].signature.name == "all_reduce"
    ]
    return site.changed(operands=(site.rng.choice(others),)) if others else None


@mistake("collective over other devices")
def _other_groups(site: Site) -> Op | None:
    attrs = site.op.signature.attrs
    if "replica_groups" not in attrs:
        return None
    shape = attrs["replica_groups"].rpartition(" : ")[2]
    others = [
        text
        for text in site.axes
        if text != attrs["replica_groups"]
        and (site.name == "all_reduce" or text.rpartition(" : ")[2] == shape)
    ]
    if not others:
        return None
    return site.changed(attrs={"replica_groups": site.rng.choice(others)})


@mistake("devices of a group in another order")
def _group_order(site: Site) -> Op | None:
    attrs = site.op.signature.attrs
    if site.name not in ("all_gather", "all_to_all", "reduce_scatter"):
        return None
    text = attrs["replica_groups"]
    rows = re.findall(r"\[([\d, ]+)\]", text)
    turned = text
    for row in rows:
        numbers = row.split(", ")
        turned = turned.replace(f"[{row}]", f"[{', '.join(reversed(numbers))}]")
    return site.changed(attrs={"replica_groups": turned})


@mistake("another reduction over devices")
def _other_reduction(site: Site) -> Op | None:
    if site.name not in ("all_reduce", "reduce_scatter"):
        return None
    return site.changed(lambdas=reducer(site, "stablehlo.maximum", "stablehlo.add"))


@mistake("another reduction on each device")
def _other_local(site: Site) -> Op | None:
    if site.name != "reduce" or len(site.op.operands) != 2:
        return None
    return site.changed(lambdas=reducer(site, "stablehlo.maximum", "stablehlo.add"))


def reducer(site: Site, first: str, second: str) -> tuple[Lambda, ...]:
    """One reducer in place of another."""
    (reducer,) = site.op.signature.lambdas
    (op, *rest) = reducer.ops
    kind = second if op.kind == first else first
    old = op.signature
    made = Signature.of(kind, old.attrs, old.operands, old.results)
    ops = (op._replace(signature=made), *rest)
    return (Lambda(reducer.types, reducer.arguments, ops, reducer.results),)


def _other_dim(site: Site, attr: str) -> Op | None:
    """Another dimension, if both are as long before and after."""
    dim, op = _number(site.op.signature.attrs[attr]), site.op.signature
    before, after = op.operands[0].shape, op.results[0].shape
    others = [
        d
        for d in range(len(before))
        if d != dim and (before[d], after[d]) == (before[dim], after[dim])
    ]
    square = [d for d in range(len(before)) if d != dim and before[d] == before[dim]]
    chosen = others or ([] if before != after else square)
    if not chosen:
        return None
    return site.changed(attrs={attr: f"{site.rng.choice(chosen)} : i64"})


@mistake("dimensions in another order")
def _permuted(site: Site) -> Op | None:
    if site.name != "transpose":
        return None
    shape = site.op.signature.operands[0].shape
    order = [*ints(site.op.signature.attrs["permutation"])]
    for i in range(len(order)):
        for j in range(i):
            if shape[order[i]] == shape[order[j]] > 1:
                order[i], order[j] = order[j], order[i]
                return site.changed(attrs={"permutation": i64_array(order)})
    return None


@mistake("transpose left out")
def _no_transpose(site: Site) -> Op | None:
    shape = site.op.signature.results[0].shape if site.op.results else ()
    if site.name != "transpose" or max(shape, default=1) == 1:
        return None
    return site.left_out()


@mistake("broadcast along another dimension")
def _broadcast(site: Site) -> Op | None:
    if site.name != "broadcast_in_dim":
        return None
    signature = site.op.signature
    dims = [*ints(signature.attrs["broadcast_dimensions"])]
    shape, given = signature.results[0].shape, signature.operands[0].shape
    for place, dim in enumerate(dims):
        others = [
            d
            for d in range(len(shape))
            if d not in dims and shape[d] == shape[dim] == given[place] > 1
        ]
        if others:
            dims[place] = others[0]
            if dims == sorted(dims):
                return site.changed(attrs={"broadcast_dimensions": i64_array(dims)})
    return None


@mistake("operands swapped")
def _swapped(site: Site) -> Op | None:
    if site.name not in ("subtract", "divide", "power", "remainder", "atan2"):
        return None
    first, second = site.op.operands
    return site.changed(operands=(second, first)) if first != second else None


@mistake("choices swapped")
def _choices(site: Site) -> Op | None:
    if site.name != "select":
        return None
    chosen, yes, no = site.op.operands
    return site.changed(operands=(chosen, no, yes)) if yes != no else None


@mistake("mask turned round")
def _mask(site: Site) -> Op | None:
    if site.name != "compare":
        return None
    text = site.op.signature.attrs["comparison_direction"]
    turned = {"LT": "LE", "LE": "LT", "GT": "GE", "GE": "GT", "EQ": "NE", "NE": "EQ"}
    old = text.rstrip(">").split()[-1]
    return site.changed(attrs={"comparison_direction": text.replace(old, turned[old])})


@mistake("another number")
def _constant(site: Site) -> Op | None:
    if site.name != "constant":
        return None
    text, type_ = site.op.signature.attrs["value"], site.op.signature.results[0]
    if type_.dtype not in ("f32", "f64", "i32", "i64") or "[" in text or '"' in text:
        return None
    number = "7" if type_.dtype[0] == "i" else "7.000000e+00"
    return site.changed(attrs={"value": f"dense<{number}> : {type_.text}"})


@mistake("another op of one operand")
def _unary(site: Site) -> Op | None:
    other = _UNARY.get(site.name)
    return site.changed(kind=f"stablehlo.{other}") if other else None


@mistake("another op of two operands")
def _binary(site: Site) -> Op | None:
    if site.op.signature.results and site.op.signature.results[0].dtype == "i1":
        return None
    others = {"add": "subtract", "subtract": "add", "multiply": "add"}
    others |= {"divide": "multiply", "maximum": "minimum", "minimum": "maximum"}
    other = others.get(site.name)
    return site.changed(kind=f"stablehlo.{other}") if other else None


@mistake("op left out")
def _op(site: Site) -> Op | None:
    skipped = (*_SHAPE_KEEPING, "optimization_barrier", "while", "transpose")
    if site.name in skipped or not site.op.operands or site.op.regions:
        return None
    return site.left_out(site.rng.randrange(len(site.op.operands)))


@mistake("another value of the same type")
def _value(site: Site) -> Op | None:
    if not site.op.operands or site.op.regions:
        return None
    if site.name == "optimization_barrier":
        return None
    place = site.rng.randrange(len(site.op.operands))
    others = site.others(site.op.operands[place])
    if not others:
        return None
    operands = [*site.op.operands]
    operands[place] = site.rng.choice(others)
    return site.changed(operands=operands)


@mistake("another argument of the same type")
def _argument(site: Site) -> Op | None:
    arguments = site.program.body.arguments
    places = [n for n, v in enumerate(site.op.operands) if v in arguments]
    if not places or site.op.regions:
        return None
    place = site.rng.choice(places)
    others = [v for v in site.others(site.op.operands[place]) if v in arguments]
    if not others:
        return None
    operands = [*site.op.operands]
    operands[place] = site.rng.choice(others)
    return site.changed(operands=operands)


@mistake("reduction along another dimension")
def _reduced(site: Site) -> Op | None:
    if site.name != "reduce":
        return None
    shape = site.op.signature.operands[0].shape
    along = [*ints(site.op.signature.attrs["dimensions"])]
    for place, dim in enumerate(along):
        others = [d for d, n in enumerate(shape) if d not in along and n == shape[dim]]
        if others and shape[dim] > 1:
            along[place] = others[0]
            return site.changed(attrs={"dimensions": i64_array(sorted(along))})
    return None


@mistake("gather or scatter along another dimension")
def _dimension(site: Site) -> Op | None:
    names = {
        "all_gather": "all_gather_dim",
        "reduce_scatter": "scatter_dimension",
        "concatenate": "dimension",
        "iota": "iota_dimension",
    }
    attr = names.get(site.name)
    if attr is None or not site.op.operands:
        return None
    return _other_dim(site, attr)


@mistake("parts in another order")
def _parts(site: Site) -> Op | None:
    operands = site.op.operands
    if site.name != "concatenate" or len({*operands}) < 2:
        return None
    types = [site.program.types[v] for v in operands]
    return site.changed(operands=operands[::-1]) if types == types[::-1] else None


@mistake("start of a slice moved")
def _start(site: Site) -> Op | None:
    if site.name != "slice":
        return None
    attrs, shape = site.op.signature.attrs, site.op.signature.operands[0].shape
    starts, limits = [*ints(attrs["start_indices"])], [*ints(attrs["limit_indices"])]
    for dim, size in enumerate(shape):
        step = 1 if limits[dim] < size else -1 if starts[dim] else 0
        if step:
            starts[dim] += step
            limits[dim] += step
            edges = {"start_indices": starts, "limit_indices": limits}
            return site.changed(attrs={k: i64_array(v) for k, v in edges.items()})
    return None


@mistake("starts of a slice swapped")
def _starts(site: Site) -> Op | None:
    if site.name not in ("dynamic_slice", "dynamic_update_slice"):
        return None
    first = 1 if site.name == "dynamic_slice" else 2
    whole = site.op.signature.operands[0].shape
    part = site.op.signature.operands[first - 1] if first == 2 else None
    sizes = part.shape if part else site.op.signature.results[0].shape
    cut = [d for d, size in enumerate(whole) if sizes[d] != size]
    operands = [*site.op.operands]
    for dim in cut:
        for other in range(len(whole)):
            if operands[first + other] != operands[first + dim]:
                operands[first + dim] = operands[first + other]
                return site.changed(operands=operands)
    return None


@mistake("edges of a pad swapped")
def _pad(site: Site) -> Op | None:
    if site.name != "pad":
        return None
    attrs = site.op.signature.attrs
    names = ("edge_padding_low", "edge_padding_high")
    low, high = (attrs[name] for name in names)
    return site.changed(attrs=dict(zip(names, (high, low), strict=True)))


@mistake("stale carried value")
def _stale(site: Site) -> Op | None:
    """A loop whose body returns what it was given."""
    if site.name != "while":
        return None
    condition, body = site.op.regions
    places = [
        n
        for n, (a, r) in enumerate(zip(body.arguments, body.results, strict=True))
        if a != r
    ]
    place = site.rng.choice(places)
    results = [*body.results]
    results[place] = body.arguments[place]
    changed = type(body)(body.arguments, body.ops, tuple(results))
    return site.op._replace(regions=(condition, changed))


@mistake("carried values swapped")
def _carried(site: Site) -> Op | None:
    if site.name != "while":
        return None
    condition, body = site.op.regions
    types = [site.program.types[v] for v in body.results]
    for i in range(len(types)):
        for j in range(i):
            if types[i] == types[j] and body.results[i] != body.results[j]:
                results = [*body.results]
                results[i], results[j] = results[j], results[i]
                changed = type(body)(body.arguments, body.ops, tuple(results))
                return site.op._replace(regions=(condition, changed))
    return None


@mistake("products contracted over other dimensions")
def _contracted(site: Site) -> Op | None:
    if site.name != "dot_general":
        return None
    left = site.op.signature.operands[0].shape
    text = site.op.signature.attrs["dot_dimension_numbers"]
    if "batching" in text or len(left) != 2 or left[0] != left[1]:
        return None
    old = "lhs_contracting_dimensions = [0]"
    new = "lhs_contracting_dimensions = [1]"
    changed = text.replace(old, new) if old in text else text.replace(new, old)
    return site.changed(attrs={"dot_dimension_numbers": changed})


@mistake("product's operands swapped")
def _product(site: Site) -> Op | None:
    if site.name != "dot_general" or len({*site.op.operands}) < 2:
        return None
    left, right = site.op.signature.operands
    if left != right:
        return None
    return site.changed(operands=site.op.operands[::-1])
