"""Weights of more than two dimensions that products read as matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir.spmd import export_policy
from partir.spmd.export_policy import PLAIN, XLA_CPU
from partir.spmd.stablehlo.export import stablehlo_text

ROWS = partir.ManualPartition({"x": 0}, axis="B", name="BP")
COLUMNS = partir.ManualPartition({"w": 0}, axis="B", name="MP")
AXES = {"B": 2}


def back_from_heads(x: Array, w: Array) -> Array:
    return jnp.einsum("bshk,dhk->bsd", x, w)


def back_to_heads(x: Array, w: Array) -> Array:
    return jnp.einsum("bsd,hkd->bshk", x, w)


def in_front(x: Array, w: Array) -> Array:
    """What is summed over comes first: XLA reads that as it is."""
    return jnp.einsum("bsd,dhk->bshk", x, w)


def exchanged(x: Array, w: Array) -> Array:
    return jnp.einsum("bskh,dhk->bsd", x, w)


def batched(x: Array, w: Array) -> Array:
    return jnp.einsum("bshk,bdhk->bsd", x, w)


def matrix(x: Array, w: Array) -> Array:
    return jnp.einsum("bsd,fd->bsf", x, w)


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], bool]] = {
    "from heads": (back_from_heads, (4, 8, 2, 6), (10, 2, 6), True),
    "to heads": (back_to_heads, (4, 8, 10), (2, 6, 10), True),
    "in front": (in_front, (4, 8, 10), (10, 2, 6), False),
    "exchanged": (exchanged, (4, 8, 6, 2), (10, 2, 6), False),
    "batched": (batched, (4, 8, 2, 6), (4, 10, 2, 6), False),
    "matrix": (matrix, (4, 8, 10), (12, 10), False),
}


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(-3, 4, shape).astype(np.float32) for shape in shapes]


@pytest.mark.identity("unmerged")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tactic", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_products_that_sum_over_the_last_dimensions_read_a_matrix(
    name: str, tactic: Any
) -> None:
    function, *shapes, flat = CASES[name]
    x, w = arrays(*shapes)
    done = partir.partition(function, AXES, [tactic], args=(x, w))
    plain = replace(XLA_CPU, flattens_weights=False)
    texts = [stablehlo_text(done.spmd, policy) for policy in (XLA_CPU, plain)]
    assert ("reshape" in texts[0]) is flat
    assert (texts[0] != texts[1]) is flat
    assert not done.verify(texts[0]).not_proved
    np.testing.assert_array_equal(done.compile()(x, w), function(x, w))


def test_xla_then_makes_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    args = [jax.ShapeDtypeStruct(s, "float32") for s in ((2, 8, 8, 32), (256, 8, 32))]
    done = partir.partition(back_from_heads, AXES, [ROWS], args=args, device="cpu")

    def temporaries(flat: bool) -> int:
        policy = replace(XLA_CPU, flattens_weights=flat)
        monkeypatch.setitem(export_policy._PLATFORMS, "cpu", policy)
        compiled = done.compile().lower_abstract().compile()
        device = replace(partir.devices["cpu"], export=policy)
        taken = int(compiled.memory_analysis().temp_size_in_bytes)
        assert done.estimate_on(device).temporary_bytes == taken
        return taken

    assert (temporaries(flat=True), temporaries(flat=False)) == (0, 4 * 256 * 8 * 32)


def test_other_compilers_choose_layouts_themselves() -> None:
    assert not PLAIN.flattens_weights
