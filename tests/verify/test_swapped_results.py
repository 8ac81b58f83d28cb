"""Results that are alike but for a number in place of rows: none is another."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from tests.verify.test_right_and_wrong import shape

pytestmark = pytest.mark.quick


def padded(value: jax.Array) -> tuple[jax.Array, ...]:
    """A row more, of one number or another; what is summed tells them apart."""
    return tuple(
        -jnp.pad(value, ((0, 1), (0, 0)), constant_values=number).sum(1)
        for number in (3.0, 5.0)
    )


CASES: dict[str, Callable[[jax.Array], Any]] = {
    "a row": lambda x: padded(jnp.sin(x).sum(0, keepdims=True)),
    "rows of several": lambda x: padded(jnp.concatenate([jnp.sin(x), jnp.cos(x)])),
    "shifted rows": lambda x: padded(jnp.cos(x[1:] - x[:-1])),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_around_rows_tell_results_apart(name: str) -> None:
    p = partir.partition(CASES[name], {"B": 1}, [], args=(shape(4, 8),))
    assert not p.verify().not_proved
    text = p.stablehlo()
    found = re.search(r'"func.return"\((%\w+), (%\w+)\)', text)
    assert found is not None
    swapped = f'"func.return"({found[2]}, {found[1]})'
    wrong = text[: found.start()] + swapped + text[found.end() :]
    assert p.proof(wrong).proved == ()
