"""Tables and figures for people: as text that fits a width, and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

Rows = Sequence[Sequence[str]]
_GAP = "  "
_LEAST = 12  # characters of a cell that are left when it is cut


def bytes_text(count: int) -> str:
    """Bytes for people.

    >>> bytes_text(0), bytes_text(1536), bytes_text(5 * 2**30)
    ('0 B', '1.5 KiB', '5.0 GiB')
    """
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def seconds_text(seconds: float) -> str:
    """Seconds for people.

    >>> seconds_text(0.0), seconds_text(2.5e-5), seconds_text(0.25), seconds_text(90)
    ('0 s', '25.0 µs', '250.0 ms', '90.00 s')
    """
    if not seconds:
        return "0 s"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def aligned(rows: Rows, width: int | None = None) -> list[str]:
    r"""Rows padded to columns, a rule below the first.

    A table that is wider than `width` is folded: columns that don't fit come below, the
    first column repeated, and cells that are too long even so are cut.

    >>> rows = [["tactic", "sent", "work"], ["BP", "5 MiB", "1.00"]]
    >>> print("\n".join(aligned(rows)))
    tactic   sent  work
    -------------------
    BP      5 MiB  1.00
    >>> print("\n".join(aligned(rows, 14)))
    tactic   sent
    -------------
    BP      5 MiB
    <BLANKLINE>
    tactic  work
    ------------
    BP      1.00
    """
    if width is None or sum(map(len, _padded(rows)[0])) <= width:
        return _ruled(rows)
    first = min(_widths(rows)[0], max(_LEAST, width // 3))
    other = max(_LEAST, width - first - len(_GAP))
    cells = [[_cut(row[0], first), *(_cut(c, other) for c in row[1:])] for row in rows]
    lines: list[str] = []
    for columns in _folded(cells, width):
        block = [[row[c] for c in columns] for row in cells]
        lines += [*([""] if lines else []), *_ruled(block)]
    return lines


def _ruled(rows: Rows) -> list[str]:
    lines = ["".join(cells).rstrip() for cells in _padded(rows)]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def _padded(rows: Rows) -> list[list[str]]:
    widths = _widths(rows)
    return [
        [
            cell.ljust(width) if i == 0 else _GAP + cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]


def _widths(rows: Rows) -> list[int]:
    return [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]


def _folded(rows: Rows, width: int) -> list[list[int]]:
    """Columns of each block: the first one, and as many others as fit beside it."""
    first, *others = _widths(rows)
    blocks, used = [[0]], first
    for column, size in enumerate(others, start=1):
        if used + len(_GAP) + size > width and len(blocks[-1]) > 1:
            blocks, used = [*blocks, [0]], first
        blocks[-1].append(column)
        used += len(_GAP) + size
    return blocks


def _cut(cell: str, most: int) -> str:
    """A cell without its middle, if it is too long."""
    if len(cell) <= most:
        return cell
    tail = most // 2
    return f"{cell[: most - tail - 1]}…{cell[-tail:]}"


# As HTML


def html_table(rows: Rows) -> str:
    """The same as a table of HTML."""
    head, *body = rows
    lines = [_html_row(head, "th"), *(_html_row(row, "td") for row in body)]
    return f"<table>{''.join(lines)}</table>"


def _html_row(row: Sequence[str], cell: str) -> str:
    sides = ["left", *["right"] * (len(row) - 1)]
    cells = (
        f'<{cell} style="text-align:{side}">{html.escape(text)}</{cell}>'
        for text, side in zip(row, sides, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def html_text(text: str) -> str:
    """Text as it is, in fixed width."""
    return f"<pre>{html.escape(text)}</pre>"


def html_page(title: str, parts: Iterable[str]) -> str:
    """A title and parts below it, for a notebook's cell."""
    return f"<div><b>{html.escape(title)}</b>{''.join(parts)}</div>"
