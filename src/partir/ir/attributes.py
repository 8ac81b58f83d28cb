"""Reading and writing attributes, which the IR keeps in MLIR's own spelling.

Ops that nobody has a rule for pass through untouched that way. Rules run once per
signature, so reading text there costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

CALLED = "called_computations"  # functions that a custom call names: its regions
EXPORTED = "partir.exported"  # of a module: the mesh whose devices run it
MESH = "partir.mesh"  # of an op: the mesh that its author wrote it for
CONSTRAINT = "partir.sharding_constraint"  # an op: its operand, in a layout asked for
ROLL = "partir.roll"  # an op: rows from a place on, then those from the beginning
FORMED = "partir.formed"  # of an op: its local form is what it means, whole too

_INT = re.compile(r"-?\d+")
_NAME = re.compile(r'"([^"]+)"')
_BRACES = re.compile(r"\{([^}]*)\}")
_DIMS = re.compile(r"<(?:@\w+|mesh<[^>]*>), \[([^\]]*)\]")
_FIELD = re.compile(r"(\w+) = (\[[^\]]*\]|-?\d+)")


def ints(text: str) -> tuple[int, ...]:
    """Integers of an array attribute.

    >>> ints("array<i64: 0, 2>"), ints("array<i64>")
    ((0, 2), ())
    """
    if text.startswith("dense"):
        return _dense_ints(text)
    _, colon, items = text.partition(":")
    return tuple(map(int, _INT.findall(items))) if colon else ()


def _dense_ints(text: str) -> tuple[int, ...]:
    values = text[: text.rindex(" : ")]
    found = tuple(map(int, _INT.findall(values)))
    shape = [int(n) for n in re.findall(r"(\d+)x", text[text.rindex(" : ") :])]
    total = 1
    for n in shape:
        total *= n
    return found * total if len(found) == 1 else found


def integer(text: str) -> int:
    """Value of an integer attribute such as ``1 : i64``."""
    found = _INT.match(text)
    assert found is not None, text
    return int(found.group())


def fields(text: str) -> dict[str, tuple[int, ...]]:
    """Named integer lists of a dimension-numbers attribute.

    >>> fields("#stablehlo.dot<lhs_contracting_dimensions = [1], x = 3>")
    {'lhs_contracting_dimensions': (1,), 'x': (3,)}
    """
    return {
        name: tuple(map(int, _INT.findall(value)))
        for name, value in _FIELD.findall(text)
    }


def names(text: str) -> tuple[str, ...]:
    """Quoted names in an attribute.

    >>> names('#sdy<manual_axes{"B", "M"}>')
    ('B', 'M')
    """
    return tuple(_NAME.findall(text))


def shardings(text: str) -> list[tuple[tuple[str, ...], ...]]:
    """Axes of each dimension, for each sharding in an sdy attribute.

    >>> shardings('#sdy.sharding<@mesh, [{"B", "M"}, {?}]>')
    [(('B', 'M'), ())]
    """
    return [
        tuple(names(dim) for dim in _BRACES.findall(dims))
        for dims in _DIMS.findall(text)
    ]


def open_dims(text: str) -> tuple[int, ...]:
    """Dimensions of an sdy sharding that may be tiled further.

    >>> open_dims('#sdy.sharding<@mesh, [{"B", ?}p1, {}, {?}]>')
    (0, 2)
    """
    (dims,) = _DIMS.findall(text)
    return tuple(d for d, axes in enumerate(_BRACES.findall(dims)) if "?" in axes)


def listed(which: str, text: str) -> tuple[str, ...]:
    """Axes that an sdy sharding lists behind its dimensions.

    >>> listed("replicated", '#sdy.sharding<@mesh, [{?}], replicated={"B", "M"}>')
    ('B', 'M')
    """
    found = re.search(which + r"=\{([^}]*)\}", text)
    return names(found[1]) if found else ()


def i64_array(values: Iterable[int]) -> str:
    """Spelling of an array of 64-bit integers.

    >>> i64_array([0, 2]), i64_array([])
    ('array<i64: 0, 2>', 'array<i64>')
    """
    items = ", ".join(map(str, values))
    return f"array<i64: {items}>" if items else "array<i64>"
