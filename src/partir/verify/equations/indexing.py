"""Look-ups and scatters, and slices at places that are computed."""

from __future__ import annotations

from partir.ir.attributes import fields, ints
from partir.ir.core import Signature
from partir.verify.classes.monoids import monoid_of
from partir.verify.equations.registry import equation, rest
from partir.verify.layouts.align import Equation, Label


@equation("dynamic_slice")
def _dynamic_slice(signature: Signature) -> Equation:
    """Dimensions that are kept whole are free, whatever their start."""
    operand = signature.operands[0]
    sizes = signature.results[0].shape
    cut = [d for d, size in enumerate(operand.shape) if sizes[d] != size]
    labels = tuple(("in", d) if d in cut else d for d in range(len(sizes)))
    result = tuple(("out", d) if d in cut else d for d in range(len(sizes)))
    operands = (labels, *((),) * len(cut))
    special = tuple(("in", d) for d in cut)
    return Equation(
        signature.kind, operands, (result,), tuple(sizes[d] for d in cut), special
    )


def kept_starts(signature: Signature) -> tuple[int, ...]:
    """Operands that matter: no starts of dimensions that are read or replaced whole."""
    first = 1 if signature.name == "dynamic_slice" else 2
    part = signature.results[0] if first == 1 else signature.operands[1]
    whole = signature.operands[0].shape
    cut = (d for d, size in enumerate(whole) if part.shape[d] != size)
    return (*range(first), *(first + d for d in cut))


@equation("dynamic_update_slice")
def _update(signature: Signature) -> Equation:
    """Dimensions that are replaced whole are free."""
    whole, part = (t.shape for t in signature.operands[:2])
    cut = [d for d, size in enumerate(whole) if part[d] != size]
    names = ("in", "part", "out")
    into, update, result = (
        tuple((name, d) if d in cut else d for d in range(len(whole))) for name in names
    )
    operands = (into, update, *((),) * len(cut))
    special = (*(("in", d) for d in cut), *(("part", d) for d in cut))
    return Equation(signature.kind, operands, (result,), (), special)


@equation("gather")
def _gather(signature: Signature) -> Equation:
    """Places of indices are free, and so are dimensions that are read whole.

    What is said of the indices changes no number, if it is so (`told.py`).
    """
    operand, indices = signature.operands
    numbers = fields(signature.attrs["dimension_numbers"])
    sizes = ints(signature.attrs["slice_sizes"])
    vector = numbers.get("index_vector_dim", (0,))[0]
    into: list[Label] = [("in", d) for d in range(len(operand.shape))]
    places: list[Label] = [("at", d) for d in range(len(indices.shape))]
    _share_batch(numbers, "operand", "start_indices", into, places)
    if vector < len(places):
        places[vector] = "vector"
    gone = numbers.get("collapsed_slice_dims", ())
    batched = numbers.get("operand_batching_dims", ())
    window = [d for d in range(len(into)) if d not in (*gone, *batched)]
    for d in window:
        if sizes[d] == operand.shape[d]:
            into[d] = d
    offsets = numbers.get("offset_dims", ())
    outer = iter([label for label in places if label != "vector"])
    inner = iter([into[d] if isinstance(into[d], int) else ("out", d) for d in window])
    rank = len(signature.results[0].shape)
    result = tuple(next(inner if d in offsets else outer) for d in range(rank))
    cut = [d for d, label in enumerate(into) if label == ("in", d)]
    index_map = numbers.get("start_index_map", ())
    key = tuple(
        (d in gone, sizes[d], index_map.index(d) if d in index_map else -1) for d in cut
    )
    special = (*(("in", d) for d in cut), *(["vector"] if "vector" in places else []))
    return Equation(
        signature.kind, (tuple(into), tuple(places)), (result,), key, special
    )


def _share_batch(
    numbers: dict[str, tuple[int, ...]],
    value: str,
    indices: str,
    into: list[Label],
    places: list[Label],
) -> None:
    """Batching dimensions of both have one label."""
    pairs = zip(
        numbers.get(f"{value}_batching_dims", ()),
        numbers.get(f"{indices}_batching_dims", ()),
        strict=True,
    )
    for i, j in pairs:
        into[i] = places[j] = ("batch", i)


@equation("scatter")
def _scatter(signature: Signature) -> Equation:
    """Dimensions that windows fill are free; the places of indices are bound."""
    count = (len(signature.operands) - 1) // 2
    operand, indices, update = (signature.operands[n] for n in (0, count, count + 1))
    numbers = fields(signature.attrs["scatter_dimension_numbers"])
    vector = numbers.get("index_vector_dim", (0,))[0]
    into: list[Label] = [("in", d) for d in range(len(operand.shape))]
    places: list[Label] = [("at", d) for d in range(len(indices.shape))]
    _share_batch(numbers, "input", "scatter_indices", into, places)
    if vector < len(places):
        places[vector] = "vector"
    gone = numbers.get("inserted_window_dims", ())
    batched = numbers.get("input_batching_dims", ())
    index_map = numbers.get("scatter_dims_to_operand_dims", ())
    window = [d for d in range(len(into)) if d not in (*gone, *batched)]
    inner_dims = numbers.get("update_window_dims", ())
    for d, place in zip(window, inner_dims, strict=True):
        if update.shape[place] == operand.shape[d] and d not in index_map:
            into[d] = d
    inner = iter([into[d] if isinstance(into[d], int) else ("part", d) for d in window])
    outer = iter([label for label in places if label != "vector"])
    rank = len(update.shape)
    part = tuple(next(inner if d in inner_dims else outer) for d in range(rank))
    cut = [d for d, label in enumerate(into) if label == ("in", d)]
    result = tuple(("out", d) if d in cut else label for d, label in enumerate(into))
    monoid = monoid_of(signature.lambdas[0]) if count == 1 else None
    said = ("indices_are_sorted", "unique_indices")  # changes no number (`told.py`)
    attrs = rest(signature.attrs, "scatter_dimension_numbers", *said)
    key = (
        monoid or signature.lambdas,
        tuple((d in gone, index_map.index(d) if d in index_map else -1) for d in cut),
        attrs,
    )
    special: list[Label] = [("in", d) for d in cut]
    special += [
        label for label in part if isinstance(label, tuple) and label[0] == "part"
    ]
    special += ["vector"] if "vector" in places else []
    if monoid is None:  # updates in their order
        special += [label for label in places if label[0] == "at"]
    return Equation(
        signature.kind,
        ((tuple(into),) * count + (tuple(places),) + (part,) * count),
        (result,) * count,
        key,
        tuple(special),
    )
