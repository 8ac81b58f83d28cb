"""Scans over tiled rows by what is equal in all rows, and values not received."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

import partir
from partir.mesh import Mesh
from tests.verify.modules import Case, constant, function, is_proved, permute

B = (("B",),)


def averaged(x: Array, decay: Array) -> Array:
    rate = jnp.broadcast_to(jax.nn.sigmoid(decay), x.shape)

    def joined(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return a[0] * b[0], b[0] * a[1] + b[1]

    return lax.associative_scan(joined, (rate, (1 - rate) * x))[1]


@pytest.fixture(scope="module")
def scanned() -> partir.Partitioned:
    args = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((16, 3), (3,))]
    rows = partir.ManualPartition({"x": 0}, axis="B")
    return partir.partition(averaged, {"B": 4}, [rows], args=args)


@pytest.mark.quick
def test_a_scan_of_tiles_is_proved(scanned: partir.Partitioned) -> None:
    assert scanned.collectives["collective_permute"]
    assert not scanned.verify().not_proved


def hexed(pairs: list[tuple[int, int]]) -> str:
    return "".join(n.to_bytes(8, "little").hex() for pair in pairs for n in pair)


def mistakes(text: str) -> Iterator[str]:
    """Someone who needs it is sent nothing; another device's row is made the same."""
    to_next, to_last = [(0, 1), (1, 2), (2, 3)], [(1, 0), (2, 1), (3, 2)]
    wrong = [(0, 1), (1, 2), (2, 0)], [(1, 0), (2, 1), (3, 3)]
    for right, other in zip((to_next, to_last), wrong, strict=True):
        yield from _each(text, hexed(right), hexed(other))
    yield from _each(text, "direction EQ>", "direction NE>")


def _each(text: str, right: str, wrong: str) -> Iterator[str]:
    first, *others = text.split(right)
    assert others
    for at in range(len(others)):
        before, after = [first, *others[:at]], others[at:]
        yield right.join(before) + wrong + right.join(after)


def test_mistakes_in_a_scan_are_found(scanned: partir.Partitioned) -> None:
    for wrong in mistakes(scanned.stablehlo()):
        assert scanned.proof(wrong).not_proved


def limited(name: str, low: str, high: str, rows: int) -> str:
    return f"%{name} = stablehlo.clamp %{low}, %x, %{high} : tensor<{rows}xf64>"


def spread(name: str, operand: str, rows: int) -> str:
    types = f"(tensor<f64>) -> tensor<{rows}xf64>"
    return f"%{name} = stablehlo.broadcast_in_dim %{operand}, dims = [] : {types}"


def known(low: list[list[int]], high: list[list[int]]) -> Case:
    """The same with limits that are numbers."""
    given = received(low, high)
    arguments = ", %a: tensor<f64>, %b: tensor<f64>"
    numbers = "\n".join(constant(*of, "f64") for of in (("a", "0.5"), ("b", "1.5")))
    source, local = (
        text.replace(arguments, "").replace("{\n", f"{{\n{numbers}\n", 1)
        for text in (given.source, given.local)
    )
    return Case(source, local, [B], B)


def received(low: list[list[int]], high: list[list[int]]) -> Case:
    """Limits of all rows, sent from device to device: on all of them, or on some."""
    source = function(
        {"x": "8xf64", "a": "f64", "b": "f64"},
        "8xf64",
        spread("low", "a", 8),
        spread("high", "b", 8),
        limited("r", "low", "high", 8),
    )
    local = function(
        {"x": "4xf64", "a": "f64", "b": "f64"},
        "4xf64",
        spread("l", "a", 4),
        spread("h", "b", 4),
        permute("low", "l", low, "4xf64"),
        permute("high", "h", high, "4xf64"),
        limited("r", "low", "high", 4),
    )
    return Case(source, local, [B, (), ()], B)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("case", [received, known])
def test_what_a_device_did_not_receive_counts_nowhere(
    case: Callable[[list[list[int]], list[list[int]]], Case],
) -> None:
    swapped = [[0, 1], [1, 0]]
    assert is_proved(case(swapped, swapped))
    assert not is_proved(case(swapped, [[1, 0]]))
    assert not is_proved(case([[0, 1]], swapped))
    assert not is_proved(case([[0, 1]], [[1, 0]]))
    assert not is_proved(case([[0, 1]], [[0, 1]]))


def written(base: str, part: str, start: int, whole: str) -> str:
    types = f"tensor<{whole}>, tensor<1x2x3xf64>, tensor<i32>, tensor<i32>, tensor<i32>"
    return (
        constant("n", start, "i32")
        + "\n  "
        + constant("o", 0, "i32")
        + f"\n  %r = stablehlo.dynamic_update_slice %{base}, %{part}, %n, %o, %o"
        f" : ({types}) -> tensor<{whole}>"
    )


def in_front(start: int, low: int) -> Case:
    """A row that all of a batch share, before others: put there, or written there."""
    given, whole, row = {"x": "7x2x3xf64", "a": "3xf64"}, "8x2x3xf64", "1x2x3xf64"
    spread = (
        f"%b = stablehlo.broadcast_in_dim %a, dims = [2] : (tensor<3xf64>) -> "
        f"tensor<{row}>"
    )
    both = f"(tensor<{row}>, tensor<7x2x3xf64>) -> tensor<{whole}>"
    source = function(
        given, whole, spread, f"%r = stablehlo.concatenate %b, %x, dim = 0 : {both}"
    )
    local = function(
        given,
        whole,
        spread,
        constant("z", "0.0", "f64"),
        f"%p = stablehlo.pad %x, %z, low = [{low}, 0, 0], high = [{1 - low}, 0, 0], "
        f"interior = [0, 0, 0] : (tensor<7x2x3xf64>, tensor<f64>) -> tensor<{whole}>",
        written("p", "b", start, whole),
    )
    return Case(source, local, [(), ()], mesh=Mesh({"B": 1}))


@pytest.mark.usefixtures("x64")
def test_rows_are_put_together_in_any_order() -> None:
    assert is_proved(in_front(0, 1))
    assert not is_proved(in_front(1, 1))
    assert not is_proved(in_front(0, 0))


@pytest.mark.quick
def test_what_is_not_known_and_not_chosen_does_not_matter() -> None:
    """Zeros that a device was not sent stand where it keeps its own rows."""

    def beside_zeros(x: Array) -> Array:
        return jnp.concatenate([x, jnp.zeros(9)])

    tactic = partir.ManualPartition({}, axis="B", outputs={"out": 0})
    x = jax.ShapeDtypeStruct((9,), "float32")
    p = partir.partition(beside_zeros, {"B": 2}, [tactic], args=(x,))
    text = p.stablehlo()
    assert "collective_permute" in text
    assert not p.verify().not_proved
    for wrong in ("EQ", "GE"):
        other = text.replace("direction LT>", f"direction {wrong}>")
        assert other != text
        assert p.proof(other).proved == ()
