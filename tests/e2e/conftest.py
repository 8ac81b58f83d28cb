"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(scope="module")
def double() -> Iterator[None]:
    """64-bit types for the length of a module, so that its fixtures have them too."""
    with jax.enable_x64(True):
        yield
