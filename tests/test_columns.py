"""Tables fit narrow terminals; as HTML, what users wrote is escaped."""

from __future__ import annotations

import pytest

from partir.columns import aligned, html_page, html_table, html_text

ROWS = [
    ["collective", "sent/device", "calls", "cause", "where"],
    ["all_gather#0", "3.0 MiB", "1", "conflict", "%step/dot_general/0 (model.py:7)"],
    ["all_reduce#12", "16 B", "32", "summed", "%" + "very/" * 30 + "long/0 (m.py:8)"],
]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 120])
def test_narrow(width: int) -> None:
    lines = aligned(ROWS, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert all(head in text for head in ROWS[0])
    assert "3.0 MiB" in text
    assert "(m.py:8)" in text


def test_wide_enough_is_as_it_is() -> None:
    assert aligned(ROWS, 500) == aligned(ROWS)
    assert aligned(ROWS[:2], 80) == aligned(ROWS[:2])


def test_html_is_escaped() -> None:
    made = html_page("<f>", [html_table([["a"], ["<lambda>"]]), html_text("x & y")])
    assert "&lt;f&gt;" in made
    assert "<td" in made
    assert "&lt;lambda&gt;" in made
    assert "x &amp; y" in made
