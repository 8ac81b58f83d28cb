"""The largest of tiles' largest, and modules that look for them wrongly."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import partir
from partir.mesh import Mesh
from tests.verify.modules import CHANNEL, Case, constant, device, function, is_proved

pytestmark = pytest.mark.usefixtures("x64")
ROWS = ((), ("B",))  # both rows on each device, columns in tiles
FOUR = Mesh({"A": 2, "B": 2})


def top_k(names: str, operand: str, size: int, k: int) -> str:
    value, place = (f"tensor<2x{k}x{dtype}>" for dtype in ("f64", "i32"))
    return (
        f'{names} = "chlo.top_k"(%{operand}) {{k = {k} : i64}}'
        f" : (tensor<2x{size}xf64>) -> ({value}, {place})"
    )


def all_gather(name: str, operand: str, dtype: str, k: int, groups: str) -> str:
    rows = groups.count("], [") + 1
    count = (groups.count(",") + 1) // rows
    return f"""%{name} = "stablehlo.all_gather"(%{operand}) {{
    all_gather_dim = 1 : i64, {CHANNEL}, use_global_device_ids,
    replica_groups = dense<{groups}> : tensor<{rows}x{count}xi64>}}
    : (tensor<2x{k}x{dtype}>) -> tensor<2x{k * count}x{dtype}>"""


def taken(name: str, value: str, index: str, size: int) -> str:
    return f"""%{name} = "stablehlo.gather"(%{value}, %{index}) {{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1],
      operand_batching_dims = [0], start_indices_batching_dims = [0],
      start_index_map = [1], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}}
    : (tensor<2x{size}xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>"""


def source(values: bool = False) -> str:
    made = "2x2xf64" if values else "2x2xi32"
    names = "%r, %p" if values else "%v, %r"
    return function({"x": "2x8xf64"}, made, top_k(names, "x", 8, 2))


def local(
    k: int = 2,
    step: int = 4,
    groups: str = "[[0, 1]]",
    places: str = "g",
    values: bool = False,
    shift: int = 0,
) -> str:
    size = 2 * k
    body = [
        top_k("%v, %p", "x", 4, k),
        device("off", step),
        constant("more", shift, "i32"),
        "%start = stablehlo.add %off, %more : tensor<i32>",
        f"%starts = stablehlo.broadcast_in_dim %start, dims = [] : (tensor<i32>)"
        f" -> tensor<2x{k}xi32>",
        f"%at = stablehlo.add %p, %starts : tensor<2x{k}xi32>",
        all_gather("w", "v", "f64", k, "[[0, 1]]"),
        all_gather("g", "at", "i32", k, groups),
        all_gather("h", "p", "i32", k, groups),
        top_k("%r, %q" if values else "%u, %q", "w", size, 2),
    ]
    if values:
        return function({"x": "2x4xf64"}, "2x2xf64", *body)
    return function({"x": "2x4xf64"}, "2x2xi32", *body, taken("r", places, "q", size))


def test_values_and_places_are_proved() -> None:
    for k in (2, 3, 4):
        assert is_proved(Case(source(), local(k), [ROWS]))
        assert is_proved(Case(source(values=True), local(k, values=True), [ROWS]))


WRONG = {
    "too few of each tile": Case(source(), local(1), [ROWS]),
    "too few values of each tile": Case(
        source(values=True), local(1, values=True), [ROWS]
    ),
    "places in tiles": Case(source(), local(places="h"), [ROWS]),
    "tiles that begin elsewhere": Case(source(), local(step=3), [ROWS]),
    "tiles that begin one later": Case(source(), local(shift=1), [ROWS]),
    "places among the largest": Case(
        source(),
        local().replace(
            taken("r", "g", "q", 4), "%r = stablehlo.add %q, %q : tensor<2x2xi32>"
        ),
        [ROWS],
    ),
    "places of the largest, other values": Case(
        source(),
        local()
        .replace("(%w)", "(%wn)")
        .replace(
            "%u, %q = ", "%wn = stablehlo.negate %w : tensor<2x4xf64>\n  %u, %q = "
        ),
        [ROWS],
    ),
    "another dimension tiled": Case(
        source(values=True), local(values=True), [(("B",), ())]
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_found(name: str) -> None:
    assert not is_proved(WRONG[name])


def largest(x: jax.Array) -> jax.Array:
    values, places = lax.top_k(x, 3)
    return values * places.astype(jnp.float32)


def test_tiles_over_two_axes() -> None:
    """In the order of the axes that tile them, and in no other."""
    tactics = [partir.ManualPartition({"x": 1}, axis=axis) for axis in "AB"]
    x = jax.ShapeDtypeStruct((2, 16), "float32")
    p = partir.partition(largest, FOUR, tactics, args=(x,))
    assert p.collectives["all_gather"]
    text = p.stablehlo()
    assert not p.proof().not_proved
    digits = "".join(f"{n:02x}{'00' * 7}" for n in (0, 2, 1, 3))
    plain = "".join(f"{n:02x}{'00' * 7}" for n in range(4))
    assert plain in text
    assert p.proof(text.replace(plain, digits)).not_proved
