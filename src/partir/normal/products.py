"""`Product`: a dot_general by what its dimensions are, to be made anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from partir.ir.attributes import fields
from partir.ir.core import Op
from partir.normal.draft import Draft, Form
from partir.rules.contraction import dim_pairs, free_dims
from partir.rules.shape import matching_groups

Sizes = tuple[int, ...]
_NUMBERS = "dot_dimension_numbers"


@dataclass(frozen=True, slots=True)
class Along:
    """One dimension of a product: where it is in left, right and result, if it is."""

    left: int | None
    right: int | None
    result: int | None

    @property
    def sides(self) -> Iterator[tuple[int, int]]:
        """Operands that have it, and where."""
        if self.left is not None:
            yield 0, self.left
        if self.right is not None:
            yield 1, self.right


def dimensions(op: Op) -> list[Along]:
    """Of a dot_general: batches, free on the left, free on the right, contracted."""
    numbers = fields(op.signature.attrs[_NUMBERS])
    batch, contract = (dim_pairs(numbers, k) for k in ("batching", "contracting"))
    left, right = (len(t.shape) for t in op.signature.operands)
    made: list[tuple[int | None, int | None]] = [(a, b) for a, b in batch]
    made += [(d, None) for d in free_dims(left, [a for a, _ in batch + contract])]
    made += [(None, d) for d in free_dims(right, [b for _, b in batch + contract])]
    found = [Along(a, b, result) for result, (a, b) in enumerate(made)]
    return found + [Along(a, b, None) for a, b in contract]


def merged_from(parts: Sizes, whole: Sizes) -> dict[int, Sizes]:
    """Dimensions of `whole` that are several neighbours in `parts`, and their sizes.

    >>> merged_from((8, 512, 64), (4096, 64)), merged_from((6, 4), (4, 6))
    ({0: (8, 512)}, {})
    """
    return {
        merged[0]: tuple(parts[dim] for dim in run)
        for run, merged in matching_groups(parts, whole)
        if len(merged) == 1 < len(run)
    }


@dataclass(frozen=True)
class Unmerged:
    """A product with some dimensions as the several that they were merged from."""

    op: Op
    sizes: Mapping[Along, Sizes]

    def places(self, side: int) -> list[list[int]]:
        """For each dimension of an operand, those that it becomes."""
        shape = self.op.signature.operands[side].shape
        counts = [1] * len(shape)
        for along, sizes in self.sizes.items():
            for where, dim in along.sides:
                if where == side:
                    counts[dim] = len(sizes)
        ends = [sum(counts[: n + 1]) for n in range(len(counts))]
        return [list(range(e - c, e)) for e, c in zip(ends, counts, strict=True)]

    def operand_shape(self, side: int) -> Sizes:
        """An operand's shape."""
        sizes = {
            dim: parts
            for along, parts in self.sizes.items()
            for where, dim in along.sides
            if where == side
        }
        shape = self.op.signature.operands[side].shape
        return tuple(
            n for dim, size in enumerate(shape) for n in sizes.get(dim, (size,))
        )

    def result_runs(self) -> list[Sizes]:
        """For each dimension of the result, the sizes that it becomes."""
        sizes = {along.result: parts for along, parts in self.sizes.items()}
        shape = self.op.signature.results[0].shape
        return [sizes.get(dim, (size,)) for dim, size in enumerate(shape)]

    def form(self, draft: Draft, reader: Op) -> Form:
        """The product; operands that have no such shape yet are reshaped before."""
        operands = tuple(self._operand(draft, side, reader) for side in (0, 1))
        attrs = {**self.op.signature.attrs, _NUMBERS: self._numbers()}
        return Form(self.op.kind, attrs, operands, location=self.op.location)

    def _operand(self, draft: Draft, side: int, reader: Op) -> int:
        value, shape = self.op.operands[side], self.operand_shape(side)
        if draft.types[value].shape == shape:
            return value
        maker = draft.maker(value, "reshape")
        source = maker.operands[0] if maker else value
        if draft.types[source].shape == shape:
            return source
        form = Form("stablehlo.reshape", {}, (source,), location=self.op.location)
        return draft.insert(form, draft.types[source].with_shape(shape), reader)

    def _numbers(self) -> str:
        places = self.places(0), self.places(1)
        lists: dict[str, list[int]] = {}
        for along in dimensions(self.op):
            if along.left is None or along.right is None:
                continue
            which = "batching" if along.result is not None else "contracting"
            for name, side, dim in (("lhs", 0, along.left), ("rhs", 1, along.right)):
                key = f"{name}_{which}_dimensions"
                lists.setdefault(key, []).extend(places[side][dim])
        order = [
            f"{s}_{w}_dimensions"
            for w in ("batching", "contracting")
            for s in ("lhs", "rhs")
        ]
        text = ", ".join(f"{key} = {lists[key]}" for key in order if key in lists)
        return f"#stablehlo.dot<{text}>"
