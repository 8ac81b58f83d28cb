"""Products of merged dimensions: products of the dimensions themselves.

PyTorch writes every projection as a reshape, a product of two dimensions and a reshape
back. A merged dimension can only be tiled as its first part can.
"""

from __future__ import annotations

from partir.ir.attributes import i64_array, ints
from partir.ir.core import Op
from partir.ir.types import TensorType
from partir.normal.draft import Draft, Form
from partir.normal.products import (
    Along,
    Sizes,
    Unmerged,
    dimensions,
    merged_from,
)
from partir.rules.identities import UNMERGED, cites
from partir.rules.shape import matching_groups

BETWEEN = "add convert divide maximum minimum multiply subtract".split()
_MOST = 4  # ops between a product and the reshape back


@cites(UNMERGED)
def unmerge_product(draft: Draft, op: Op) -> Form | None:
    """A reshape back of a product; biases and the like in between are repeated anew.

    rewrite:
        %a = reshape %x : f32[4096,64]
        %p = dot %a, %w : f32[4096,256] ; %s = add %p, broadcast %b
        %y = reshape %s : f32[8,512,256]
        ->
        %p = dot %x, %w : f32[8,512,256]
        %y = add %p, broadcast %b
    """
    chain = _chain(draft, op.operands[0])
    if chain is None:
        return None
    whole, parts = (t[0].shape for t in (op.signature.operands, op.signature.results))
    wanted, product = merged_from(parts, whole), chain[-1]
    sizes = {
        along: wanted[along.result]
        for along in dimensions(product)
        if along.result in wanted
        and _is_merged(draft, product, along, wanted[along.result])
    }
    made = Unmerged(product, sizes)
    between = chain[:-1]
    if not sizes or not all(_repeats(draft, one, chain, made) for one in between):
        return None
    return _remade(draft, op, made, between)


@cites(UNMERGED)
def unmerge_contracted(draft: Draft, op: Op) -> Form | None:
    """What both sides merged alike and the product sums over: a weight's gradient.

    rewrite:
        %a = reshape %x : f32[4096,64] ; %b = reshape %g : f32[4096,256]
        %y = dot %a, %b over [0] : f32[64,256]
        ->
        %y = dot %x, %g over [0, 1] : f32[64,256]
    """
    if any(draft.maker(value, "reshape") is None for value in op.operands):
        return None
    sizes: dict[Along, Sizes] = {}
    for along in dimensions(op):
        if along.result is None and along.left is not None:
            found = _merged(draft, op.operands[0]).get(along.left)
            if found and _is_merged(draft, op, along, found):
                sizes[along] = found
    return Unmerged(op, sizes).form(draft, op) if sizes else None


@cites(UNMERGED)
def unmerge_reduced(draft: Draft, op: Op) -> Form | None:
    """What a reshape merged and a reduction takes together: a bias's gradient.

    rewrite:
        %a = reshape %g : f32[4096,256]
        %y = reduce sum %a over [0] : f32[256]
        ->
        %y = reduce sum %g over [0, 1] : f32[256]
    """
    maker = draft.maker(op.operands[0], "reshape")
    if maker is None or len(op.results) != 1:
        return None
    before, after = (
        t[0].shape for t in (maker.signature.operands, op.signature.operands)
    )
    reduced = set(ints(op.signature.attrs["dimensions"]))
    dims = [dim for dim, size in enumerate(before) if size == 1]
    merged = False
    for parts, whole in matching_groups(before, after):
        if reduced.issuperset(whole):
            dims += parts
            merged = merged or len(parts) > 1
        elif len(parts) > 1 or len(whole) > 1:
            return None
    kept = tuple(size for dim, size in enumerate(before) if dim not in dims)
    if not merged or kept != op.signature.results[0].shape:
        return None
    attrs = {**op.signature.attrs, "dimensions": i64_array(sorted(dims))}
    operands = (maker.operands[0], *op.operands[1:])
    return Form(op.kind, attrs, operands, op.signature.lambdas)


def _merged(draft: Draft, value: int) -> dict[int, Sizes]:
    """Dimensions that a reshape merged, and from what."""
    maker = draft.maker(value, "reshape")
    if maker is None:
        return {}
    signature = maker.signature
    return merged_from(signature.operands[0].shape, signature.results[0].shape)


def _is_merged(draft: Draft, op: Op, along: Along, sizes: Sizes) -> bool:
    """Whether all operands with this dimension have it merged from these sizes."""
    return all(
        _merged(draft, op.operands[side]).get(dim) == sizes for side, dim in along.sides
    )


def _chain(draft: Draft, value: int) -> list[Op] | None:
    """Ops from a value up to the product that it is made of, nobody else reading."""
    chain: list[Op] = []
    while len(chain) <= _MOST:
        maker = draft.maker(value, "dot_general", *BETWEEN)
        if maker is None or not draft.has_one_reader(value):
            return None
        chain.append(maker)
        if maker.signature.name == "dot_general":
            return chain
        value = maker.operands[_carrier(draft, maker)]
    return None


def _carrier(draft: Draft, op: Op) -> int:
    """The operand that is not repeated along merged dimensions."""
    repeated = draft.maker(op.operands[0], "broadcast_in_dim")
    return 1 if repeated is not None and len(op.operands) > 1 else 0


def _repeats(draft: Draft, op: Op, chain: list[Op], made: Unmerged) -> bool:
    """Whether the other operands are the same all along what is unmerged."""
    split = [len(sizes) > 1 for sizes in made.result_runs()]
    values = {one.results[0] for one in chain}
    for value in op.operands:
        if value in values:
            continue
        maker = draft.maker(value, "broadcast_in_dim")
        if maker is None:
            return False
        dims = ints(maker.signature.attrs["broadcast_dimensions"])
        shape = maker.signature.operands[0].shape
        if any(n > 1 and split[d] for n, d in zip(shape, dims, strict=True)):
            return False
    return True


def _remade(draft: Draft, op: Op, made: Unmerged, between: list[Op]) -> Form:
    """The product, what was between, and what is left of the reshape."""
    shape = tuple(n for sizes in made.result_runs() for n in sizes)
    form, value = made.form(draft, op), made.op.results[0]
    type_ = made.op.signature.results[0].with_shape(shape)
    for one in reversed(between):
        made_of = {value: draft.insert(form, type_, op)}
        operands = tuple(
            made_of[v] if v in made_of else _repeated(draft, v, made, op, type_)
            for v in one.operands
        )
        value, type_ = one.results[0], one.signature.results[0].with_shape(shape)
        form = Form(one.kind, one.signature.attrs, operands, location=one.location)
    if shape == op.signature.results[0].shape:
        return form
    return Form("stablehlo.reshape", {}, (draft.insert(form, type_, op),))


def _repeated(
    draft: Draft, value: int, made: Unmerged, reader: Op, type_: TensorType
) -> int:
    """A broadcast, to the dimensions that merged ones are made of."""
    maker = draft.maker(value, "broadcast_in_dim")
    assert maker is not None
    runs = made.result_runs()
    first = [sum(map(len, runs[:dim])) for dim in range(len(runs))]
    dims = ints(maker.signature.attrs["broadcast_dimensions"])
    attrs = {"broadcast_dimensions": i64_array(first[dim] for dim in dims)}
    form = Form(maker.kind, attrs, maker.operands, location=maker.location)
    return draft.insert(form, draft.types[value].with_shape(type_.shape), reader)
