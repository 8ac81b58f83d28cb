"""Shifts, windows and sizes that don't divide: as on one device, without gathering.

Each mesh runs many functions in one program, since compiling is what takes time. The
sequential meaning, where what lies outside of a value is nan, is compared as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

import partir
from partir.rules.reach import Extent
from partir.spmd.exchange import Window
from partir.spmd.stablehlo.sequential import sequential_text
from tests.e2e.compare import QUICK
from tests.rules.tiles import run as run_text

pytestmark = pytest.mark.usefixtures("x64")

Function = Callable[[Array], Array]


def _pad(low: int, high: int, interior: int) -> Function:
    return lambda x: lax.pad(x, 0.5, ((0, 0, 0), (low, high, interior), (0, 0, 0)))


MOVES: dict[str, Function] = {
    "cut": lambda x: x[:, :-1],
    "shift": lambda x: x[:, 1:] - x[:, :-1],
    "some": lambda x: x[:, 3:17] * 2,
    "every third": lambda x: x[:, 1:20:3],
    "joined": lambda x: jnp.concatenate([x[:, 3:17], x[:, 1:-2] * 2], 1),
    "turned": lambda x: x[:, 1:-2][:, ::-1],
    "token": lambda x: jnp.concatenate([jnp.ones((2, 3, 3)), x], 1),
    "tokens": lambda x: jnp.concatenate(
        [jnp.ones((2, 1, 3)), x[:, :9], jnp.ones((2, 4, 3)), x[:, 9:], x[:, :2]], 1
    ),
    "padded": _pad(2, 3, 0),
    "shifted": _pad(3, -2, 0),
    "spread": _pad(1, 2, 1),
    "spread, cut": _pad(-1, -2, 2),
    "rolled": lambda x: jnp.roll(x, 5, 1),
    "rolled, odd": lambda x: jnp.roll(x[:, 1:], -9, 1),
    "wrapped": lambda x: jnp.pad(x, ((0, 0), (2, 1), (0, 0)), mode="wrap"),
}
JOINS: dict[str, Function] = {
    "sum": lambda x: x[:, 1:-4].sum(1),
    "maximum": lambda x: x[:, 1:].max(1),
    "product": lambda x: jnp.einsum("blc,bld->cd", x[:, :-1], x[:, 1:]),
}
MESHES = [{"X": 2, "Y": 3}, {"X": 2, "Y": 2, "Z": 2}]


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def partitioned(
    function: Callable[..., Any], mesh: dict[str, int], *args: np.ndarray, dim: int = 1
) -> partir.Partitioned:
    """Partitioned along one dimension of `x` over all axes, and compared."""
    tactics = [partir.ManualPartition({"x": dim}, axis=axis) for axis in mesh]
    record = partir.partition(function, mesh, tactics, args=args)
    want = jax.tree.leaves(jax.jit(function)(*args))
    got = jax.tree.leaves(record.compile()(*args))
    program = record.program
    types = [program.types[port.value] for port in program.results]
    text = sequential_text(record.steps[-1].state)
    one_by_one = run_text(text, types, [np.asarray(arg) for arg in args])
    for one in (got, one_by_one):
        for a, b in zip(one, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    return record


@pytest.mark.identity("beside", "short")
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_moves_and_what_joins_them(mesh: dict[str, int]) -> None:
    functions = [*MOVES.values(), *JOINS.values()][:: len(mesh) - 1]

    def both(x: Array) -> Any:
        def loss(x: Array) -> Array:
            return sum((jnp.sum(jnp.sin(f(x))) for f in functions), jnp.zeros(()))

        return [jnp.sin(f(x)) for f in functions], jax.grad(loss)(x)

    record = partitioned(both, mesh, values(2, 24, 3))
    assert record.collectives["collective_permute"] > 0


def _convolve(x: Array, w: Array, stride: int = 1, **more: Any) -> Array:
    pad, dilate = more.get("pad", (1, 1)), more.get("dilate", (1, 1))
    return lax.conv_general_dilated(
        x,
        w,
        (stride, 1),
        (pad, (1, 1)),
        lhs_dilation=(dilate[0], 1),
        rhs_dilation=(dilate[1], 1),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=x.shape[-1] // w.shape[2],
    )


def _pooled(x: Array, size: int, stride: int, pad: tuple[int, int]) -> Array:
    pads = ((0, 0), pad, (0, 0), (0, 0))
    window, strides = (1, size, 2, 1), (1, stride, 1, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, pads)


CONVOLUTIONS: list[Callable[[Array, Array], Array]] = [
    _convolve,
    lambda x, w: _convolve(x, w, 2),
    lambda x, w: _convolve(x, w, pad=(2, 0)),
    lambda x, w: _convolve(x, w, pad=(0, 0)),
    lambda x, w: _convolve(x, w, pad=(-1, 0)),
    lambda x, w: _convolve(x, w, pad=(2, 2), dilate=(1, 2)),
    lambda x, w: _convolve(x, w, pad=(1, 2), dilate=(2, 1)),
    lambda x, w: _convolve(x, w[:, :, :1]),
    lambda x, w: _pooled(x, 3, 2, (0, 1)),
    lambda x, w: _pooled(x, 3, 1, (1, 1)),
    lambda x, w: _pooled(x, 2, 3, (0, 0)),
]


@pytest.mark.slow
@pytest.mark.parametrize("mesh", MESHES[:1], ids=str)
def test_windows_that_slide(mesh: dict[str, int]) -> None:
    def both(x: Array, w: Array) -> Any:
        def loss(x: Array, w: Array) -> Array:
            made = [f(x, w) for f in CONVOLUTIONS]
            return sum((jnp.sum(jnp.sin(y)) for y in made), jnp.zeros(()))

        return [f(x, w) for f in CONVOLUTIONS], jax.grad(loss, (0, 1))(x, w)

    record = partitioned(both, mesh, values(1, 24, 3, 2), values(3, 3, 2, 2))
    assert record.collectives["collective_permute"] > 0


def test_a_halo_is_two_permutes_of_the_boundary() -> None:
    x, w = values(1, 64, 4, 2), values(3, 3, 2, 2)
    record = partitioned(_convolve, {"X": 4}, x, w)
    assert record.collectives["collective_permute"] == 2
    assert sum(record.collectives.values()) == 2
    assert record.bytes_communicated == 2 * x[:, :1].nbytes
    assert "exchange 1 {X} [%X*16-1 : +18]" in record.spmd_text()
    assert "window 1 %x[%rX*16-1 : +18]" in record.core_text()


def test_a_shift_by_one_is_a_permute_of_a_row_each_way() -> None:
    def both(x: Array) -> Any:
        def shifted(x: Array) -> Array:
            return jnp.sin(jnp.pad(x, ((0, 0), (1, 0)))[:, :-1])

        return shifted(x), jax.grad(lambda x: jnp.sum(shifted(x)))(x)

    x = values(2, 16)
    record = partitioned(both, {"X": 4}, x)
    assert record.collectives["collective_permute"] == 2
    assert sum(record.collectives.values()) == 2
    assert record.bytes_communicated == 2 * x[:, :1].nbytes


def test_windows_within_their_own_tiles_are_no_collective() -> None:
    """Padded by one at either end, 8 rows on two devices are 5 for each."""
    pads = ((0, 0), (1, 1))
    record = partitioned(lambda x: jnp.pad(x, pads) * 2, {"X": 2}, values(2, 8))
    assert "exchange" in record.spmd_text()
    assert not any(record.collectives.values())
    assert not record.collective_list
    assert "collective_permute#" not in record.spmd_text()


def test_a_roll_is_a_permute_of_its_rows_each_way() -> None:
    def both(x: Array) -> Any:
        def rolled(x: Array) -> Array:
            return jnp.sin(jnp.roll(x, 2, 1))

        return rolled(x), jax.grad(lambda x: jnp.sum(rolled(x)))(x)

    x = values(2, 16)
    record = partitioned(both, {"X": 4}, x)
    assert record.collectives["collective_permute"] == 2
    assert sum(record.collectives.values()) == 2
    assert record.bytes_communicated == 2 * x[:, :2].nbytes
    assert "[%X*4+14 : +4, wrap]" in record.spmd_text()


def test_a_long_kernel_in_parts_over_two_axes() -> None:
    """Input and kernel are cut together, by each axis: the gradient of a kernel."""

    def function(x: Array, w: Array) -> Array:
        dims = ("NCW", "OIW", "NCW")
        return lax.conv_general_dilated(x, w, (1,), [(2, 0)], dimension_numbers=dims)

    tactics = [
        partir.ManualPartition({"w": 2}, axis="C"),
        partir.ManualPartition({"x": 2}, axis="A"),
    ]
    x, w = values(4, 2, 4), values(1, 2, 4)
    record = partir.partition(function, {"A": 2, "C": 2}, tactics, args=(x, w))
    np.testing.assert_allclose(record.compile()(x, w), function(x, w), rtol=1e-9)


def test_tiles_that_are_all_padding_hold_nothing() -> None:
    """Two columns over eight devices, padded to twelve: six of eight send none."""

    def function(x: Array, y: Array) -> Array:
        return jnp.pad(x, ((0, 0), (0, 10)), constant_values=1.0) * y

    mesh = {"A": 2, "B": 2, "C": 2}
    tactics = [
        partir.ManualPartition({"x": 1, "y": 1}, axis="C"),
        partir.ManualPartition({"y": 1}, axis="A"),
        partir.ManualPartition({"%**/multiply/0": 1}, axis="B"),
    ]
    x, y = values(8, 2), values(8, 12)
    record = partir.partition(function, mesh, tactics, args=(x, y))
    np.testing.assert_allclose(record.compile()(x, y), function(x, y), rtol=1e-12)


def test_short_tiles_that_move_to_another_dimension() -> None:
    """Over 2 and 4 devices, 20 rows lie otherwise than over 4 and 2."""

    def sorted_rows(x: Array) -> tuple[Array, Array]:
        rows = partir.tag(jnp.concatenate([x[:16], x[4:8]]), "rows")
        return partir.tag(jnp.sort(rows, axis=0), "sorted"), rows.sum(0)

    tactics = [
        partir.ManualPartition({"rows": 0, "sorted": 1}, axis="X"),
        partir.ManualPartition({"rows": 0}, axis="Y"),
    ]
    x = values(24, 4)
    record = partir.partition(sorted_rows, {"X": 2, "Y": 4}, tactics, args=(x,))
    made, want = record.compile()(x), sorted_rows(x)
    for got, expected in zip(made, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_windows_that_come_round_to_their_own_tile() -> None:
    """Rows that a device has itself, read in two places: gathered, not exchanged."""

    def function(x: Array) -> list[Array]:
        again = [[x, x, x], [x[:, 2:], x], [x[:, 3:], x, x[:, :1]]]
        return [jnp.sin(jnp.concatenate(parts, 1)) for parts in again]

    partitioned(function, {"X": 2}, values(2, 8))


def test_a_short_piece_is_written_where_it_belongs() -> None:
    """A token before a tiled sequence: no device does work for others' rows."""

    def function(x: Array, token: Array) -> Array:
        first = jnp.broadcast_to(token, (4, 8, 16))
        return jnp.sum(jnp.concatenate([first, x], 1) ** 2)

    args = values(4, 64, 16), values(1, 8, 16)
    record = partitioned(function, {"X": 8}, *args)
    ours = record.compile().lower_abstract().compile().cost_analysis()["flops"]
    whole = jax.jit(function).lower(*args).compile().cost_analysis()["flops"]
    assert ours <= 1.5 * whole / 8


def test_pieces_whose_places_have_no_order() -> None:
    """One device's own rows come first, another's last: each is selected by a mask."""

    def function(x: Array) -> list[Array]:
        twice = jnp.concatenate([x, x], 1)[:, :5]
        return [jnp.sin(_pad(2, 2, 0)(x)), jnp.sin(_pad(2, -1, 0)(x)), jnp.cos(twice)]

    window = Window(4, (4,), Extent(("X",), (2,), -2, 2))
    assert window.stretches is None
    assert window.order is None
    record = partitioned(function, {"X": 4}, values(2, 4, 3))
    assert record.collectives["collective_permute"] > 0
    assert "exchange 1 {X} [%X*2-2 : +2]" in record.spmd_text()


def test_a_loss_shifted_by_one_is_summed_in_parts() -> None:
    """What is cut off is the end of the last tile: nothing moves, nothing is whole."""

    def loss(x: Array, w: Array) -> Array:
        return jnp.sum(jnp.tanh(x[:, :-1] @ w))

    record = partitioned(loss, {"X": 4}, values(2, 16, 3), values(3, 5))
    assert record.collectives["all_reduce"] == sum(record.collectives.values()) == 1
    assert not record.replicated_ops


@pytest.mark.identity("beside", "short")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "bfloat16", "complex128"])
def test_edges_of_types(dtype: str) -> None:
    """Sums wrap around and nan stays where it is, whatever lies behind the end."""
    x = np.arange(24).reshape(2, 12) * 37 % 251
    x = x.astype(jnp.dtype(dtype))
    if dtype == "bfloat16":
        x[0, :4] = -0.0, np.inf, np.nan, -np.inf

    def function(x: Array) -> Any:
        shifted = jnp.concatenate([x[:, 1:], x[:, :2]], 1)
        most = () if x.dtype == np.complex128 else (jnp.max(shifted[:, :-2], 1),)
        return shifted[:, ::-1], jnp.sum(x[:, 2:], 1, dtype=x.dtype), *most

    tactic = partir.ManualPartition({"x": 1}, axis="X")
    got = partir.jit(function, {"X": 4}, [tactic], compiler_options=QUICK)(x)
    want = jax.jit(function)(x)
    for a, b in zip(got, want, strict=True):
        wide = np.complex128 if dtype.startswith("complex") else np.float64
        a, b = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
        np.testing.assert_allclose(a, b, rtol=1e-2 if dtype == "bfloat16" else 0)


@pytest.mark.identity("pooled")
def test_gradients_of_pools_that_hold_no_numbers() -> None:
    """What padding is chosen for is lost, on every device as on one."""
    x = values(2, 16)
    x[0, :6], x[0, 9], x[1, -3:] = -np.inf, np.nan, -np.inf

    def gradient(x: Array) -> Array:
        def loss(x: Array) -> Array:
            pads = ((0, 0), (1, 1))
            made = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 2), pads)
            return jnp.sum(jnp.where(made > -9, made, 1) * jnp.arange(1.0, 9.0))

        return jax.grad(loss)(x)

    record = partitioned(gradient, {"X": 4}, x)
    assert record.collectives["collective_permute"] == sum(record.collectives.values())


def test_an_uneven_argument_is_whole_and_cut_for_nothing() -> None:
    """Callers' arrays have equal tiles; what is computed of them may be short."""

    def function(x: Array, y: Array) -> Array:
        return jnp.sum(jnp.sin(x[:, :-1] * y))

    tactic = partir.ManualPartition({"x": 1}, axis="X")
    x, y = values(2, 16), values(2, 15)
    record = partir.partition(function, {"X": 4}, [tactic], args=(x, y))
    assert record.in_specs[1] == jax.sharding.PartitionSpec()
    assert record.collectives["all_reduce"] == sum(record.collectives.values()) == 1
    np.testing.assert_allclose(record.compile()(x, y), function(x, y), rtol=1e-12)


def test_gradients_of_pools_that_leave_some_out() -> None:
    """Windows of one row, every other: no window makes the rows between."""

    def pooled(x: Array) -> Array:
        starts = lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 1), (2, 1), ((1, 1), (0, 0))
        )
        return jnp.sum(jnp.sin(starts))

    x = np.random.default_rng(0).normal(size=(8, 3))
    tiled = partir.ManualPartition({"x": 0}, axis="X", name="rows")
    p = partir.partition(jax.grad(pooled), {"X": 2}, [tiled], args=(x,))
    np.testing.assert_allclose(p.compile()(x), jax.grad(pooled)(x), rtol=1e-6)
