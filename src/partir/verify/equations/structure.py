"""Ops that move elements, sort them, or read whole dimensions at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from partir.ir.attributes import integer, ints
from partir.ir.core import Signature
from partir.verify.equations.calls import along_all_but
from partir.verify.equations.registry import equation, rest
from partir.verify.layouts.align import Equation, Label


@equation("slice")
def _slice(signature: Signature) -> Equation:
    """Dimensions that are kept whole are free; of the others a part is new."""
    (operand,) = signature.operands
    attrs = signature.attrs
    names = ("start_indices", "limit_indices", "strides")
    edges = [*zip(*(ints(attrs[name]) for name in names), strict=True)]
    cut = [dim for dim, size in enumerate(operand.shape) if edges[dim] != (0, size, 1)]
    return _along(signature, cut, tuple(edges[dim] for dim in cut))


@equation("pad")
def _pad(signature: Signature) -> Equation:
    """Dimensions without padding are free."""
    operand = signature.operands[0]
    attrs = signature.attrs
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    edges = [*zip(*(ints(attrs[name]) for name in names), strict=True)]
    padded = [dim for dim in range(len(operand.shape)) if any(edges[dim])]
    return _along(signature, padded, tuple(edges[dim] for dim in padded))


@equation("reverse")
def _reverse(signature: Signature) -> Equation:
    """``x[i] -> x[n - 1 - i]`` along some dimensions."""
    return _along(signature, sorted(ints(signature.attrs["dimensions"])), ())


@equation("concatenate")
def _concatenate(signature: Signature) -> Equation:
    """Along one dimension one behind the other; the others are free."""
    along = integer(signature.attrs["dimension"])
    return _along(signature, (along,), ())


@equation("sort")
def _sort(signature: Signature) -> Equation:
    """Along one dimension all operands at once; the others are free."""
    attrs = signature.attrs
    key = (rest(attrs, "dimension"), signature.lambdas)
    return _along(signature, (integer(attrs["dimension"]),), key)


@equation("chlo.top_k")
def _top_k(signature: Signature) -> Equation:
    """Along the last dimension."""
    last = len(signature.operands[0].shape) - 1
    return _along(signature, (last,), rest(signature.attrs))


@equation("fft")
def _fft(signature: Signature) -> Equation:
    """Along the last dimensions."""
    rank = len(signature.operands[0].shape)
    count = len(ints(signature.attrs["fft_length"]))
    return _along(signature, range(rank - count, rank), rest(signature.attrs))


@equation("cholesky")
def _cholesky(signature: Signature) -> Equation:
    """Each matrix by itself."""
    rank = len(signature.operands[0].shape)
    return _along(signature, (rank - 2, rank - 1), rest(signature.attrs))


@equation("triangular_solve")
def _solve(signature: Signature) -> Equation:
    """Each matrix by itself, and of what it is solved for each column, or row."""
    rank = len(signature.operands[0].shape)
    along = rank - 2 if signature.attrs["left_side"] == "true" else rank - 1
    batch: tuple[Label, ...] = tuple(range(rank - 2))
    matrix = (("in", rank - 2), ("in", rank - 1))
    sides: list[list[Label]] = [
        ["free" if dim != along else (name, dim) for dim in (rank - 2, rank - 1)]
        for name in ("of", "out")
    ]
    (read, made), special = sides, (*matrix, ("of", along))
    operands = ((*batch, *matrix), (*batch, *read))
    attrs = rest(signature.attrs)
    return Equation(signature.kind, operands, ((*batch, *made),), attrs, special)


@equation("batch_norm_training", "batch_norm_grad", "batch_norm_inference")
def _batch_norm(signature: Signature) -> Equation:
    """Each feature by itself; without averages each element, too."""
    feature = integer(signature.attrs["feature_index"])
    alone = signature.name == "batch_norm_inference"

    def labels(shape: Sequence[int], where: Hashable) -> tuple[Label, ...]:
        if len(shape) == 1:
            return ("feature",)
        return tuple(
            "feature" if d == feature else d if alone else (where, d)
            for d in range(len(shape))
        )

    operands = tuple(labels(t.shape, n) for n, t in enumerate(signature.operands))
    results = tuple(labels(t.shape, "out") for t in signature.results)
    special = tuple(x for held in operands for x in held if isinstance(x, tuple))
    attrs = rest(signature.attrs, "feature_index")
    return Equation(signature.kind, operands, results, attrs, special)


@equation("reduce")
def _general_reduce(signature: Signature) -> Equation:
    """Any reducer over whole dimensions; those with a name are read elsewhere.

    Elements are reduced in their order, whatever dimensions they are along.
    """
    along = sorted(ints(signature.attrs["dimensions"]))
    count = len(signature.operands) // 2
    rank = len(signature.operands[0].shape)
    kept = tuple(dim for dim in range(rank) if dim not in along)
    groups = tuple(tuple((number, dim) for dim in along) for number in range(count))
    operands = tuple(
        tuple((number, dim) if dim in along else dim for dim in range(rank))
        for number in range(count)
    )
    return Equation(
        signature.kind,
        (*operands, *((),) * count),
        (kept,) * len(signature.results),
        signature.lambdas,
        groups=groups,
    )


@equation("rng_bit_generator")
def _whole(signature: Signature) -> Equation:
    """Nothing is known but that equal operands give equal results."""
    key = (rest(signature.attrs), signature.lambdas)
    return along_all_but(signature, (), key)


def _along(signature: Signature, along: Sequence[int], attrs: Hashable) -> Equation:
    """Special along some dimensions of every operand and result that has any."""
    operands: list[tuple[Label, ...]] = []
    special: list[Label] = []
    for number, type_ in enumerate(signature.operands):
        labels: list[Label] = [*range(len(type_.shape))]
        for dim in along if labels else ():
            labels[dim] = ("in", number, dim)
            special.append(labels[dim])
        operands.append(tuple(labels))
    results = tuple(
        tuple(("out", d) if d in along else d for d in range(len(type_.shape)))
        for type_ in signature.results
    )
    return Equation(signature.kind, tuple(operands), results, attrs, tuple(special))
