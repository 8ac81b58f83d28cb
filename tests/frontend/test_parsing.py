"""Texts that are read one after the other are read in one context, up to a size."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from partir.errors import PartitionError
from partir.frontend import parsing
from partir.frontend.parsing import parse_module

pytestmark = pytest.mark.quick
TEXT = "module {\n}"


@pytest.fixture(autouse=True)
def _nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_contexts", parsing._Contexts())


def test_small_texts_share_a_context() -> None:
    assert parse_module(TEXT).context is parse_module(TEXT).context


def test_a_text_that_is_none_leaves_the_context_as_it_was() -> None:
    first = parse_module(TEXT)
    with pytest.raises(PartitionError, match="line 2, column 1"):
        parse_module("module {\n!}")
    assert parse_module(TEXT).context is first.context


def test_after_so_much_text_there_is_another_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parsing, "_MOST", 2 * len(TEXT))
    monkeypatch.setattr(parsing._Contexts, "read", 2 * len(TEXT))
    contexts = [parse_module(TEXT).context for _ in range(3)]
    assert contexts[0] is contexts[1]
    assert contexts[1] is not contexts[2]


def test_a_large_text_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_MOST", len(TEXT) - 1)
    assert parse_module(TEXT).context is not parse_module(TEXT).context


def test_other_threads_have_their_own() -> None:
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(parse_module, TEXT).result().context
    assert parse_module(TEXT).context is not other
