"""Products and convolutions."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence

from partir.ir.attributes import fields, integer
from partir.ir.core import Signature
from partir.verify.equations.registry import equation, rest
from partir.verify.layouts.align import Equation, Label
from partir.verify.layouts.layout import Unreadable

PRECISION = "precision_config"
_MIXED = "product of operands in different precisions"  # neither linear nor commuting


def is_mixed(attrs: Mapping[str, str]) -> bool:
    """Whether a product asks for another precision of one operand than of the other."""
    said = attrs.get(PRECISION, "").strip("[]").split(",")
    left, right = (
        re.findall(rf"{side}_(\w+) = (\w+)", attrs.get("algorithm", ""))
        for side in ("lhs", "rhs")
    )
    return len({one.strip() for one in said}) > 1 or left != right


def _product(
    signature: Signature,
    operands: tuple[tuple[Label, ...], ...],
    result: tuple[Label, ...],
    read: str = "",
) -> Equation:
    """A sum of products over labels that the result has not."""
    attrs, mixed = rest(signature.attrs, read), is_mixed(signature.attrs)
    kind = _MIXED if mixed else "stablehlo.dot_general"
    return Equation(kind, operands, (result,), attrs, commutes=not mixed)


@equation("dot_general")
def _dot(signature: Signature) -> Equation:
    """``x[b, i, k], y[b, k, j] -> sum over k of x[b, i, k] * y[b, k, j]``."""
    attr = signature.attrs["dot_dimension_numbers"]
    numbers = fields(attr)
    left, right = ([*range(len(signature.operands[n].shape))] for n in (0, 1))
    x: list[Label] = [("x", d) for d in left]
    y: list[Label] = [("y", d) for d in right]
    batch = []
    for kind in ("batching", "contracting"):
        pairs = zip(
            numbers.get(f"lhs_{kind}_dimensions", ()),
            numbers.get(f"rhs_{kind}_dimensions", ()),
            strict=True,
        )
        for i, j in pairs:
            x[i] = y[j] = (kind, i)
            batch += [x[i]] if kind == "batching" else []
    free = [label for label in (*x, *y) if label[0] in "xy"]
    operands, result = (tuple(x), tuple(y)), (*batch, *free)
    return _product(signature, operands, result, "dot_dimension_numbers")


@equation("dot")
def _plain_dot(signature: Signature) -> Equation:
    """``x[i, k], y[k, j] -> sum over k of x[i, k] * y[k, j]``, or of vectors."""
    ranks = [len(type_.shape) for type_ in signature.operands]
    x: tuple[Label, ...] = (*(["i"] if ranks[0] == 2 else []), "k")
    y: tuple[Label, ...] = ("k", *(["j"] if ranks[1] == 2 else []))
    result = tuple(label for label in (*x, *y) if label != "k")
    return _product(signature, (x, y), result)


@equation("einsum")
def _einsum(signature: Signature) -> Equation:
    """``"bij,bjk->bki"``: a sum of products over letters that the result has not."""
    text = signature.attrs["einsum_config"].strip('"').replace(" ", "")
    given, _, made = text.partition("->")
    operands = tuple(tuple(names) for names in given.split(","))
    if any(len({*names}) < len(names) for names in (*operands, made)):
        raise Unreadable("an einsum along a diagonal")
    if len(operands) != 2 or not text.replace("->", "").replace(",", "").isalpha():
        raise Unreadable("an einsum of other than two operands, all letters")
    return _product(signature, operands, tuple(made), "einsum_config")


@equation("convolution")
def _convolution(signature: Signature) -> Equation:
    """Batch and output features are free, input features summed, windows special.

    With groups, features and batch are special as well.
    """
    attrs = signature.attrs
    order = conv_numbers(attrs["dimension_numbers"])
    groups = integer(attrs["feature_group_count"]), integer(attrs["batch_group_count"])
    plain = groups == (1, 1)
    x = _labels(order[0], {"b": "b", "f": "f"}, "x")
    y = _labels(order[1], {"o": "o", "i": "f" if plain else "i"}, "y")
    out = _labels(order[2], {"b": "b", "f": "o"}, "out")
    special: list[Label] = [n for n in (*x, *y) if isinstance(n, tuple)]
    if not plain:
        special += ["b", "f", "o", "i"]
        out = [f"new {label}" if isinstance(label, str) else label for label in out]
    key = (rest(_said(attrs), "dimension_numbers"), _in_order(order, plain))
    operands, results = (tuple(x), tuple(y)), (tuple(out),)
    return Equation(signature.kind, operands, results, key, tuple(special))


def _said(attrs: Mapping[str, str]) -> dict[str, str]:
    """Attributes without those that say what holds without them, too."""
    return {
        name: text
        for name, text in attrs.items()
        if not (name == "window_reversal" and "true" not in text)
    }


def _in_order(order: Sequence[Sequence[str]], plain: bool) -> Hashable:
    """Which window runs along which special dimension, and what new ones are."""
    x, y, out = ([n for n in names if n.isdigit()] for names in order)
    return tuple(x), tuple(y), tuple(out if plain else order[2])


def conv_numbers(text: str) -> list[list[str]]:
    """``[b, 0, f]x[0, i, o]->[b, 0, f]`` as three lists."""
    body = text[text.index("[") :]
    parts = body.replace("->", "x").split("x")
    return [
        [
            item.strip()
            for item in part[part.index("[") + 1 : part.index("]")].split(",")
        ]
        for part in parts
    ]


def _labels(order: list[str], named: dict[str, str], side: str) -> list[Label]:
    return [named.get(item, (side, item)) for item in order]
