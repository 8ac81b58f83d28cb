"""Rows of a class that digits can't count: windows, shifts, short tiles, parts.

A *table* says for every position of a layout's dimension which row of the class is
there. A row is a number along the class's own dimension; or it stands for rows of what
the class is made of: a *tuple*, where an op reads its operands at different rows
(``x[1:] - x[:-1]``), or a *bag*, where a reduction has seen some of its rows so far.
These get numbers of their own, the same in both programs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

GARBAGE = -1  # what is there is not known, and must not count
FIRST_MADE = 1 << 40  # rows from here on are tuples or bags
FIRST_FILLED = 1 << 50  # and from here on tuples of one: a number in place of a row
DROPPED = int(np.iinfo(np.int64).max)  # a member of a bag that does not count
_OF_CLASS = -3  # ends what a row of a class among others is numbered by
OPEN, BAG = 0, -1  # sizes of a class's dimension: of different operands, of bags

Rows = np.ndarray  # of 64-bit integers


def fill(node: int) -> int:
    """The row that says: here is a number, of this class, instead."""
    return -2 - node


def filled(code: int) -> int:
    """The class of the number that stands in place of a row."""
    return -2 - code


class RowTable:
    """The row at each position of a dimension. Compared by content.

    `size` is the class's own: how many rows there are, or `OPEN`, or `BAG`.
    """

    __slots__ = ("_hash", "_key", "rows", "size")

    def __init__(self, rows: Rows, size: int) -> None:
        """Take rows, position by position."""
        self.rows = np.ascontiguousarray(rows, dtype=np.int64).reshape(-1)
        self.size = size
        self._key = (size, self.rows.tobytes())
        self._hash = hash(self._key)

    def __eq__(self, other: object) -> bool:
        """Equal when all rows are."""
        return isinstance(other, RowTable) and self._key == other._key

    def __hash__(self) -> int:
        """Of the rows, computed once."""
        return self._hash

    def __repr__(self) -> str:
        """For tests and debugging."""
        return f"Table({self.rows.tolist()} of {self.size})"


class MadeRows:
    """Numbers of tuples and bags."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: dict[object, int] = {}
        self._made: list[Rows] = []
        self._tables: list[Rows] = []
        self._tables_of: dict[int, list[int]] = {}  # by row
        self.source: int | None = None  # where those begin that the source has not

    def seal(self) -> None:
        """What comes now is the device-local program."""
        self.source = FIRST_MADE + len(self._made)

    def forget(self) -> None:
        """Back to what the source has."""
        assert self.source is not None
        for rows in self._made[self.source - FIRST_MADE :]:
            del self._known[rows.tobytes()]
        del self._made[self.source - FIRST_MADE :]

    def in_source(self, rows: Rows) -> bool:
        """Whether the source has all of these."""
        made = rows[(rows >= FIRST_MADE) & (rows < FIRST_FILLED)]
        return self.source is None or bool((made < self.source).all())

    def _number(self, rows: Rows) -> int:
        key = rows.tobytes()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = FIRST_MADE + len(self._made)
            self._made.append(rows)
        return found

    def tuples(self, columns: Rows) -> Rows:
        """Numbers of tuples, one along the last dimension for each.

        A tuple of one row, or of one row again and again, is that row; but for a row
        that says itself that a number was read, which would say so of another class.
        """
        first = columns[..., 0]
        if columns.shape[-1] == 1:
            return self._alone(first)
        garbage = (columns == GARBAGE).any(-1)
        equal = (columns == first[..., None]).all(-1) & (first < FIRST_MADE)
        made = np.where(equal & (first >= 0), first, GARBAGE)
        odd = ~garbage & (made < 0)
        if odd.any():
            distinct, places = np.unique(columns[odd], axis=0, return_inverse=True)
            numbers = [self._number(np.append(row, GARBAGE)) for row in distinct]
            made[odd] = np.array(numbers, dtype=np.int64)[places.reshape(-1)]
        made[garbage] = GARBAGE
        return made

    def _alone(self, rows: Rows) -> Rows:
        """Numbers of tuples of one."""
        made = np.where(rows < GARBAGE, FIRST_FILLED - 2 - rows, rows)
        for row in map(int, np.unique(rows[rows >= FIRST_MADE])):
            if self._of_a_number(row):
                made[rows == row] = self._number(np.array([row, GARBAGE]))
        return made

    def _of_a_number(self, row: int) -> bool:
        """Whether this is a tuple of one, other than the row in it."""
        if row >= FIRST_FILLED:
            return row != DROPPED
        made = self._made[row - FIRST_MADE]
        return made.size == 2 and int(made[-1]) == GARBAGE

    def columns(self, rows: Rows, count: int) -> Rows:
        """The tuples that have these numbers."""
        counted = rows != DROPPED
        if count == 1:
            return self._each(rows)[..., None]
        made = np.repeat(rows[..., None], count, -1)
        for place in zip(*np.nonzero(counted & (rows >= FIRST_MADE)), strict=True):
            found = self._made[int(rows[place]) - FIRST_MADE][:-1]
            assert found.size == count, "a tuple of another length"
            made[place] = found
        return made

    def _each(self, rows: Rows) -> Rows:
        """What is in tuples of one."""
        is_fill = (rows != DROPPED) & (rows >= FIRST_FILLED)
        made = np.where(is_fill, FIRST_FILLED - 2 - rows, rows)
        for row in map(int, np.unique(rows[(rows >= FIRST_MADE) & ~is_fill])):
            if row != DROPPED and self._of_a_number(row):
                made[rows == row] = self._made[row - FIRST_MADE][0]
        return made

    def tuple_of(self, row: int) -> Rows | None:
        """The tuple that has this number; None if it is no tuple."""
        made = self._made[row - FIRST_MADE]
        return made[:-1] if made.size and made[-1] == GARBAGE else None

    def bags(self, rows: Rows) -> Rows:
        """Numbers of bags, the members of each along the last dimension.

        `GARBAGE` spoils a bag; fills must have been left out by `dropped`.
        """
        flat = np.sort(rows.reshape(-1, rows.shape[-1]), -1)
        made = [
            GARBAGE if (row == GARBAGE).any() else self._number(row[row != DROPPED])
            for row in flat
        ]
        return np.array(made, dtype=np.int64).reshape(rows.shape[:-1])

    def bag(self, row: int) -> Rows:
        """The members of a bag, in their order."""
        return self._made[row - FIRST_MADE]

    def union(self, rows: Rows) -> Rows:
        """Numbers of all members of bags together, those along the last dimension."""
        made = []
        for row in rows.reshape(-1, rows.shape[-1]):
            if (row == GARBAGE).any():
                made.append(GARBAGE)
                continue
            members = [self.bag(int(code)) for code in row if code != DROPPED]
            both = np.concatenate(members) if members else np.empty(0, np.int64)
            made.append(self._number(np.sort(both)))
        return np.array(made, dtype=np.int64).reshape(rows.shape[:-1])

    def of_class(self, key: Sequence[int], rows: Rows) -> Rows:
        """Numbers of rows of a class among those of others."""
        distinct, places = np.unique(rows, return_inverse=True)
        made = [
            GARBAGE if r == GARBAGE else self._number(np.array([*key, r, _OF_CLASS]))
            for r in distinct
        ]
        return np.array(made, dtype=np.int64)[places.reshape(-1)].reshape(rows.shape)

    def is_of_class(self, row: int) -> bool:
        """Whether this is a row of a class among those of others."""
        return int(self._made[row - FIRST_MADE][-1]) == _OF_CLASS

    def class_of(self, row: int) -> tuple[int, ...]:
        """The key that a row of a class was numbered with."""
        return tuple(int(n) for n in self._made[row - FIRST_MADE][:-2])

    def rows_of_class(self, rows: Rows) -> Rows:
        """Rows as they were before they were numbered."""
        made = rows.copy()
        for place in zip(*np.nonzero(rows >= FIRST_MADE), strict=True):
            made[place] = self._made[int(rows[place]) - FIRST_MADE][-2]
        return made

    def windows(self, given: Rows, shown: Rows) -> Rows:
        """Numbers of the places in windows: of their rows, and what each is given.

        `given` has a row for each window, `shown` also one for each place in it.
        """
        columns = np.concatenate([given[..., None], shown], -1)
        flat = columns.reshape(-1, columns.shape[-1])
        distinct, places = np.unique(flat, axis=0, return_inverse=True)
        count = shown.shape[-1]
        made = [
            [self._number(np.array([n, *row, -6])) for n in range(count)]
            if (row != GARBAGE).all()
            else [GARBAGE] * count
            for row in distinct
        ]
        numbers = np.array(made, dtype=np.int64).reshape(-1, count)
        return numbers[places.reshape(-1)].reshape(shown.shape)

    # Rows that the source has one behind the other

    def pick(self, rows: Rows) -> int | None:
        """The number of a table of the source that has these rows, or is among them."""
        distinct = np.unique(rows[rows >= 0])
        if self.source is None:
            return self._picked(rows, distinct)
        possible = {n for row in distinct for n in self._tables_of.get(int(row), ())}
        fits: list[tuple[bool, bool, int, int]] = []
        for number in sorted(possible):
            table = self._tables[number]
            common = int(np.isin(distinct, table).sum())
            if common == distinct.size or (
                common == table.size and 2 * common > distinct.size
            ):
                lost, more = common < distinct.size, common < table.size
                fits.append((lost or more, lost, -common, number))
        return min(fits)[-1] if fits else None

    def _picked(self, rows: Rows, distinct: Rows) -> int:
        flat = rows[rows >= 0]
        order = np.unique(flat, return_index=True)[1]
        table = flat[np.sort(order)]
        key = ("table", distinct.tobytes())  # the same rows in any order
        if key not in self._known:
            self._known[key] = len(self._tables)
            self._tables.append(table)
            for row in distinct:
                self._tables_of.setdefault(int(row), []).append(self._known[key])
        return self._known[key]

    def table(self, number: int) -> Rows:
        """The rows that a table counts, one behind the other."""
        return self._tables[number]

    def picked_size(self, number: int) -> int:
        """How many rows a table has."""
        return self._tables[number].size

    def places(self, rows: Rows, number: int) -> Rows:
        """Where rows are in a table; others are not known. Numbers stay in place."""
        table = self._tables[number]
        order = np.argsort(table)
        near = np.clip(rows, table.min(), table.max())
        at = order[np.searchsorted(table, near, sorter=order)]
        return np.where(rows < 0, rows, np.where(table[at] == rows, at, GARBAGE))

    def picked(self, rows: Rows, number: int) -> Rows:
        """The rows at places of a table."""
        table = self._tables[number]
        inside = (rows >= 0) & (rows < table.size)
        return np.where(inside, table[np.where(inside, rows, 0)], rows)

    def complete(self, rows: Rows, size: int) -> bool:
        """Whether every one of these bags has each row of a dimension once."""
        if (rows < FIRST_MADE).any():
            return False
        return all(
            np.array_equal(self.bag(int(row)), np.arange(size))
            for row in np.unique(rows)
        )


def as_digits(rows: Rows, sizes: Sequence[int], count: int) -> list[int] | None:
    """Strides if rows are digits of a dimension of this size, else None."""
    total = int(np.prod(sizes, dtype=np.int64))
    if total != count or rows.size != count:
        return None
    cube = rows.reshape(sizes)
    strides = [
        int(cube[tuple(1 if n == axis else 0 for n in range(len(sizes)))])
        if size > 1
        else 0
        for axis, size in enumerate(sizes)
    ]
    want = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride != want:
            return None
        want *= size
    made = np.zeros(sizes, np.int64)
    for axis, (stride, size) in enumerate(zip(strides, sizes, strict=True)):
        shape = [1] * len(sizes)
        shape[axis] = size
        made += stride * np.arange(size).reshape(shape)
    return strides if np.array_equal(made, cube) else None
