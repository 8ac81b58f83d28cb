"""`DigitLayout`: where the elements of a class lie, on which device and at which place.

A class has dimensions, each an index of a known size. A local value shows some class:
every dimension of the local tensor and every mesh axis is written as *digits* of the
class's dimensions, in mixed radix, major first. A dimension of 32 rows over an axis B
of size 4 is ``B: (dim 0, stride 8, size 4)``, ``local: (dim 0, stride 1, size 8)``.
The whole is the same without axes. A digit of no dimension repeats: a broadcast, or an
axis on which all devices hold the same.

Transposes, broadcasts, reshapes, gathers and slices by a device's coordinates only move
digits. They change no class, so that it does not matter in which order they come.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from partir.ir.interning import Interned
from partir.verify.classes.rows import RowTable

REPEATED = -1


class Digit(NamedTuple):
    """`size` steps of `stride` along a dimension of the class; or repetitions."""

    dim: int
    stride: int
    size: int


Digits = tuple[Digit, ...]


class Unreadable(Exception):
    """Why an op's result can't be said to show a class."""


def repeated(size: int) -> Digits:
    """An index on which nothing depends."""
    return (Digit(REPEATED, 0, size),) if size != 1 else ()


def digits(items: Iterable[Digit]) -> Digits:
    """Digits in normal form: none of size one, and none that continue each other."""
    found: list[Digit] = []
    for digit in items:
        if digit.size == 1:
            continue
        if found and _continues(found[-1], digit):
            major = found.pop()
            digit = Digit(digit.dim, digit.stride, major.size * digit.size)
        found.append(digit)
    return tuple(found)


def _continues(major: Digit, minor: Digit) -> bool:
    if major.dim != minor.dim:
        return False
    return major.dim == REPEATED or major.stride == minor.stride * minor.size


def repeating(shape: Iterable[int], axes: Iterable[int]) -> DigitLayout:
    """The same everywhere in a local shape, and along axes of these sizes."""
    return DigitLayout(tuple(map(repeated, shape)), tuple(map(repeated, axes)))


def size_of(items: Digits) -> int:
    """How many places these digits tell apart, or repeat."""
    size = 1
    for digit in items:
        size *= digit.size
    return size


Tables = tuple[tuple[int, RowTable], ...]  # dimensions of a class, in their order


class DigitLayout:
    """Digits of every local dimension and of every mesh axis.

    Where a dimension of the class has a table, digits count the table's positions.
    Interned: equal ones are one object, so that comparing and hashing are cheap.
    """

    __slots__ = ("__weakref__", "axes", "local", "tables")
    _known: ClassVar[Interned[DigitLayout]] = Interned(recent=0)

    local: tuple[Digits, ...]
    axes: tuple[Digits, ...]
    tables: Tables

    def __new__(
        cls, local: tuple[Digits, ...], axes: tuple[Digits, ...], tables: Tables = ()
    ) -> DigitLayout:
        """The one object for these digits, in normal form."""
        key = (local, axes, tables)
        found = cls._known.get(key)
        if found is None:
            made = super().__new__(cls)
            made.local, made.axes, made.tables = key
            found = cls._known.add(key, made, keep=False)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by content, so that the copy is interned where it arrives."""
        return DigitLayout, (self.local, self.axes, self.tables)

    def __repr__(self) -> str:
        """For tests and debugging."""
        return f"Layout({self.local}, {self.axes}, {self.tables})"

    def with_local(self, local: Iterable[Digits]) -> DigitLayout:
        """Other local dimensions."""
        return DigitLayout(tuple(local), self.axes, self.tables)


class View(NamedTuple):
    """What a value is known to be: a class, laid out."""

    node: int
    layout: DigitLayout


def whole(
    sizes: Sequence[int], axes: int = 0, replicas: Sequence[int] = ()
) -> DigitLayout:
    """A class's dimensions as the local ones; all devices hold the same."""
    local = tuple(digits((Digit(dim, 1, size),)) for dim, size in enumerate(sizes))
    return DigitLayout(local, tuple(repeated(n) for n in replicas or (1,) * axes))


def reshaped(layout: DigitLayout, shape: Sequence[int]) -> DigitLayout:
    """The same elements in row-major order, in another shape."""
    rest = [digit for dim in layout.local for digit in dim]
    made = []
    for size in reversed(shape):
        taken, rest = split_off(rest, size)
        made.append(digits(taken))
    if rest:
        raise Unreadable("a reshape that leaves elements over")
    return layout.with_local(reversed(made))


def split_off(items: Sequence[Digit], size: int) -> tuple[list[Digit], list[Digit]]:
    """The minor digits that count up to `size`, and the rest before them."""
    rest, taken = list(items), []
    while size > 1:
        if not rest:
            raise Unreadable("a reshape that needs more elements")
        digit = rest.pop()
        part = min(size, digit.size)
        if size % part or digit.size % part:
            raise Unreadable("dimensions that are merged and split at other places")
        taken.append(Digit(digit.dim, digit.stride, part))
        if part < digit.size:
            stride = digit.stride * part
            rest.append(Digit(digit.dim, stride, digit.size // part))
        size //= part
    return taken[::-1], rest


def transposed(layout: DigitLayout, permutation: Sequence[int]) -> DigitLayout:
    """Local dimensions in another order."""
    return layout.with_local(layout.local[dim] for dim in permutation)


def broadcast(
    layout: DigitLayout, shape: Sequence[int], dims: Sequence[int]
) -> DigitLayout:
    """Local dimension i becomes `dims[i]`; the others, and those of size 1, repeat."""
    made = [repeated(size) for size in shape]
    for digits_, dim in zip(layout.local, dims, strict=True):
        if digits_:
            made[dim] = digits_
    return layout.with_local(made)


def gathered(layout: DigitLayout, dim: int, axes: Sequence[int]) -> DigitLayout:
    """The tiles of devices one behind the other along a dimension, major axis first."""
    moved = [digit for axis in axes for digit in layout.axes[axis]]
    local, left = list(layout.local), list(layout.axes)
    local[dim] = digits((*moved, *local[dim]))
    for axis in axes:
        left[axis] = repeated(size_of(layout.axes[axis]))
    return DigitLayout(tuple(local), tuple(left), layout.tables)


def scattered(layout: DigitLayout, dim: int, axes: Sequence[int]) -> DigitLayout:
    """Each device keeps its tile of a dimension; nothing depended on `axes` before."""
    local, left = list(layout.local), list(layout.axes)
    rest: list[Digit] = list(local[dim])
    sizes = [size_of(layout.axes[axis]) for axis in axes]
    if size_of(local[dim]) % math.prod(sizes):
        raise Unreadable("tiles of unequal sizes")
    local[dim], rest = _parted(rest, size_of(local[dim]) // math.prod(sizes))
    for axis, size in reversed([*zip(axes, sizes, strict=True)]):
        if any(digit.dim != REPEATED for digit in left[axis]):
            raise Unreadable("a slice by a coordinate that the value depends on")
        left[axis], rest = _parted(rest, size)
    return DigitLayout(tuple(local), tuple(left), layout.tables)


def _parted(items: list[Digit], size: int) -> tuple[Digits, list[Digit]]:
    taken, rest = split_off(items, size)
    return digits(taken), rest


def depends_on(layout: DigitLayout, axis: int) -> bool:
    """Whether devices that differ in this axis alone hold different elements."""
    return any(digit.dim != REPEATED for digit in layout.axes[axis])
