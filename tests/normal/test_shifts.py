"""Chains of pads and slices are one of them, and give what the chain gave."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax import Array, lax

import partir
from tests.normal.forms import kinds, normal

pytestmark = pytest.mark.usefixtures("x64")

X = np.arange(1.0, 13.0)


def pad(x: Array, low: int, high: int, interior: int = 0, fill: float = 0.0) -> Array:
    return lax.pad(x, np.asarray(fill, x.dtype), ((low, high, interior),))


ONE_OP: dict[str, tuple[Callable[[Array], Array], str]] = {
    "shift right": (lambda x: pad(x, 1, 0)[:-1], "pad"),
    "shift right, cut first": (lambda x: pad(x[:-1], 1, 0), "pad"),
    "shift left": (lambda x: pad(x, 0, 2)[2:], "pad"),
    "padding cut off": (lambda x: pad(x, 2, 3)[2:-3], "slice"),
    "all but padding": (lambda x: pad(x, 2, 3)[:14], "pad"),
    "padded twice": (lambda x: pad(pad(x, 2, 0), 1, 1), "pad"),
    "cut twice": (lambda x: x[2:][1:-3], "slice"),
    "spread and shifted": (lambda x: pad(x, 0, 1, 1)[2:-2], "pad"),
    "a long chain": (lambda x: pad(pad(x[1:], 0, 3)[:-2], 0, 2)[1:], "pad"),
}


@pytest.mark.quick
@pytest.mark.identity("shifted")
@pytest.mark.parametrize("name", ONE_OP)
def test_one_op(name: str) -> None:
    function, kind = ONE_OP[name]
    assert kinds(normal(function, X)) == {kind: 1}


AS_THEY_ARE: dict[str, tuple[Callable[[Array], Array], int]] = {
    "what was cut off is filled in": (lambda x: pad(x[1:], 1, 0), 2),
    "two numbers": (lambda x: pad(pad(x, 1, 0), 1, 0, fill=1.0), 2),
    "a step": (lambda x: lax.slice(pad(x, 1, 0), [0], [13], [2]), 2),
    "apart at the end": (lambda x: pad(x[:-1], 0, 0, 1), 2),
    "one row of what was added": (lambda x: pad(x, 1, 0)[:1], 2),
    "no groups any more": (lambda x: pad(x, 0, 1, 1)[1:], 2),
    "a tag between": (lambda x: partir.tag(pad(x, 1, 0), "p")[:-1], 2),
    "cut where nothing moves": (
        lambda x: jnp.pad(x.reshape(3, 4)[:, 2:], ((1, 0), (0, 0)))[:-1],
        4,  # what is cut off, the shift, its zero, and a reshape
    ),
    "far from where all read": (lambda x: (h := x[6:])[1:] - h[:-1], 4),
}


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_what_stays_as_it_is(name: str) -> None:
    function, count = AS_THEY_ARE[name]
    assert sum(kinds(normal(function, X)).values()) == count


def test_readers_of_one_pad_read_what_was_padded() -> None:
    """A stencil that pads first: nothing is left of the odd size."""

    def stencil(x: Array) -> Array:
        p = pad(x, 1, 1)
        return p[2:] + p[:-2] - 2 * p[1:-1]

    program = normal(stencil, X)
    assert all(14 not in op.signature.results[0].shape for op in program.ops)
    assert kinds(program)["pad"] == 2


def test_a_result_between_stays() -> None:
    program = normal(lambda x: (p := pad(x, 1, 0), p[:-1]), X)
    assert kinds(program) == {"pad": 2}
    assert [program.types[port.value].shape for port in program.results] == [
        (13,),
        (12,),
    ]


def test_inside_a_loop() -> None:
    """Ops are numbered in their order again, loops' own too."""

    def function(x: Array) -> Array:
        start = pad(x, 0, 2)[2:]
        made = lax.fori_loop(0, 3, lambda _, y: pad(y, 1, 0)[:-1] + x, start)
        return pad(made, 0, 1)[1:]

    program = normal(function, X)
    assert kinds(program)["pad"] == 3
    assert "slice" not in kinds(program)
    order = list(program.walk())
    assert order == sorted(order)
    owners = {tie.owner for tie in program.ties}
    assert all(program.ops[o].regions for o in owners if o is not None)


edge = st.integers(-4, 4)


@pytest.mark.identity("shifted")
@settings(max_examples=60)
@given(st.lists(st.tuples(edge, edge, st.integers(0, 1)), min_size=2, max_size=5))
def test_random_chains(chain: list[tuple[int, int, int]]) -> None:
    x = np.asarray([-0.0, np.nan, np.inf, 1.0, -2.0, 5.0])
    sizes = [len(x)]
    for low, high, interior in chain:
        sizes.append(sizes[-1] + low + high + interior * max(sizes[-1] - 1, 0))
        if sizes[-1] < 0:
            return

    def function(x: Array) -> Array:
        for low, high, interior in chain:
            x = pad(x, low, high, interior, fill=0.5)
        return x

    normal(function, x)
