"""A module as numbers: MLIR's bytecode, of which only ops are read.

Walking a module through the bindings makes an object of every value, type, attribute
and location that it meets. In bytecode these are numbers, alike ones the same number:
what an op means is asked of the bindings once for all ops alike, the rest is counting.

Written as the oldest version, which all of MLIR can write: it has nothing but what is
read here (https://mlir.llvm.org/docs/BytecodeFormat).
"""

from __future__ import annotations

import io
from array import array
from functools import partial
from typing import Any, NamedTuple

import numpy as np

_VERSION = 0
_STRINGS, _DIALECTS, _OPS = 0, 1, 4  # sections
_ALIGNED = 0x80
_ATTRIBUTES, _RESULTS, _OPERANDS, _SUCCESSORS, _REGIONS = 1, 2, 4, 8, 16


class Row(NamedTuple):
    """One op: values and locations by number; `alike` is equal for equal ops.

    That is, for ops of one kind with equal attributes, types of results and regions.
    """

    name: str
    alike: int
    location: int
    operands: tuple[int, ...]
    results: tuple[int, ...]
    regions: tuple[Rows, ...]


class Rows(NamedTuple):
    """The first block of a region; values are numbered within what isolates them."""

    arguments: tuple[int, ...]
    ops: tuple[Row, ...]


_EMPTY = Rows((), ())
_row = partial(tuple.__new__, Row)  # what `Row` does, at half the price


def numbered(module: Any) -> Rows:
    """The ops of a module's body."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer, desired_version=_VERSION)
    data = buffer.getvalue()
    sections = _sections(data)
    names = _names(data, sections[_STRINGS], sections[_DIALECTS])
    return _Ops(data, sections[_OPS], names).module()


class _Numbers:
    """Reads numbers from a place on, each of which says how long it is."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def next(self) -> int:
        """One number, of seven bits a byte; of all eight if it takes nine bytes."""
        length = _length(self.data[self.at])
        whole = self.data[self.at : self.at + length]
        self.at += length
        if length > 8:
            return int.from_bytes(whole[1:], "little")
        return int.from_bytes(whole, "little") >> length

    def some(self) -> tuple[int, ...]:
        """So many numbers as the first one says."""
        return tuple([self.next() for _ in range(self.next())])


def _sections(data: bytes) -> dict[int, tuple[int, int]]:
    """Where each section begins and ends."""
    numbers = _Numbers(data, 4)  # behind the magic bytes
    numbers.next()  # the version
    numbers.at = data.index(0, numbers.at) + 1  # behind the producer's name
    found = {}
    while numbers.at < len(data):
        which = data[numbers.at]
        numbers.at += 1
        length = numbers.next()
        if which & _ALIGNED:
            alignment = numbers.next()
            numbers.at += -numbers.at % alignment
        found[which & ~_ALIGNED] = numbers.at, numbers.at + length
        numbers.at += length
    return found


def _names(data: bytes, strings: tuple[int, int], own: tuple[int, int]) -> list[str]:
    """Names of ops by their numbers, dialect by dialect."""
    texts = _texts(data, *strings)
    numbers, end = _Numbers(data, own[0]), own[1]
    dialects = [texts[number] for number in numbers.some()]
    found = []
    while numbers.at < end:
        dialect = dialects[numbers.next()]
        names = [dialect + b"." + texts[number] for number in numbers.some()]
        found += [name.decode(errors="replace") for name in names]
    return found


def _texts(data: bytes, begin: int, end: int) -> list[bytes]:
    """All strings; their lengths come first, in reverse order."""
    found = []
    for length in _Numbers(data, begin).some():
        found.append(data[end - length : end - 1])
        end -= length
    return found[::-1]


class _Ops:
    """Reads ops, region by region."""

    def __init__(self, data: bytes, section: tuple[int, int], names: list[str]) -> None:
        self._data = data[slice(*section)]
        self._value, self._length = _everywhere(self._data)
        self._names = names
        self._alike: dict[Any, int] = {}
        self._at = 0

    def module(self) -> Rows:
        """The module is the one op of a block."""
        (module,) = self._block(0, 0)[0].ops
        return module.regions[0]

    def _next(self) -> int:
        at = self._at
        self._at += self._length[at]
        return self._value[at]

    def _regions(self, has: int, inner: int) -> tuple[tuple[Rows, ...], Any]:
        """Regions of an op behind its successors, and what they are like.

        Isolated ones count values from zero, and are alike if their numbers are.
        Others read values from outside, so that equal numbers say nothing.
        """
        for _ in range(self._next() if has & _SUCCESSORS else 0):
            self._next()
        if not has & _REGIONS:
            return (), ()
        header = self._next()
        isolated = header & 1
        likes: list[Any] = [] if isolated else [self._at]
        regions = []
        for _ in range(header >> 1):
            blocks = self._next()
            first = 0 if isolated else inner
            last = first + (self._next() if blocks else 0)
            read = []
            for _ in range(blocks):
                rows, like, first = self._block(first, last)
                read.append(rows)
                likes.append(like)
            regions.append(read[0] if read else _EMPTY)
            likes.append(blocks)
        return tuple(regions), tuple(likes)

    def _block(self, first: int, inner: int) -> tuple[Rows, Any, int]:
        """A block, what it is like, and the number of the value behind it."""
        header = self._next()
        types = []
        for _ in range(self._next() if header & 1 else 0):
            types.append(self._next())
            self._next()  # its location
        value = first + len(types)
        arguments = tuple(range(first, value))
        rows = self._ops(header >> 1, value, inner)
        like = tuple(types), tuple([(row[1], row[3]) for row in rows])
        value += sum([len(row[4]) for row in rows])
        return Rows(arguments, tuple(rows)), like, value

    def _ops(self, count: int, first: int, inner: int) -> list[Row]:
        """So many ops. Nine of ten steps of reading a module are taken here."""
        data, value, length, at = self._data, self._value, self._length, self._at
        names, alike = self._names, self._alike
        rows = []
        for _ in range(count):
            name, at = value[at], at + length[at]
            has, at = data[at], at + 1
            location, at = value[at], at + length[at]
            key: list[Any] = [name]
            if has & _ATTRIBUTES:
                key.append(value[at])
                at += length[at]
            last = first
            if has & _RESULTS:
                last, at = first + value[at], at + length[at]
            for _ in range(first, last):
                key.append(~value[at])  # types are numbered apart from attributes
                at += length[at]
            operands = []
            if has & _OPERANDS:
                number, at = value[at], at + length[at]
                for _ in range(number):
                    operands.append(value[at])
                    at += length[at]
            regions: tuple[Rows, ...] = ()
            if has & (_SUCCESSORS | _REGIONS):
                self._at = at
                regions, like = self._regions(has, inner)
                key.append(like)
                at = self._at
            like = alike.setdefault(tuple(key), len(alike))
            results = (first,) if last == first + 1 else tuple(range(first, last))
            first = last
            row = names[name], like, location, tuple(operands), results, regions
            rows.append(_row(row))
        self._at = at
        return rows


def _everywhere(data: bytes) -> tuple[array[int], bytes]:
    """The number that would begin at each byte, and how many bytes it takes."""
    size, padded = len(data), data + bytes(9)
    first = np.frombuffer(data, np.uint8)
    word = np.ndarray(size + 1, "<u8", padded, strides=(1,))  # eight bytes from each on
    lengths = np.array([_length(byte) for byte in range(256)], np.uint8)
    masks = np.array([(1 << min(7 * n, 64)) - 1 for n in lengths.tolist()], np.uint64)
    length = lengths[first]
    value = word[:-1] >> length & masks[first]
    long = np.flatnonzero(length > 8)
    value[long] = word[long + 1]
    return array("Q", value.tobytes()), length.tobytes()


def _length(first: int) -> int:
    """Of a number, by its first byte: its lowest bits say how many bytes there are."""
    return (first & -first).bit_length() or 9
