"""Small programs, element by element: right ones are equal, wrong ones are not."""

from __future__ import annotations

import jax
import pytest

import partir
from partir.frontend.device_local import read_device_local
from partir.verify.elements.written_out import ProgramTilings, written_out
from tests.verify.modules import (
    Case,
    all_reduce,
    compare,
    constant,
    device,
    function,
    unary,
)

ROWS = (("B",),)


def is_equal(case: Case, most: int = 1 << 17) -> bool:
    """Whether the result is equal, by its elements alone."""
    program, local = partir.load(case.source), read_device_local(case.local)
    (port,) = program.results
    values = [*program.body.arguments, port.value]
    tilings = [
        (*tiling, *((),) * (len(program.types[value].shape) - len(tiling)))
        for value, tiling in zip(values, (*case.given, case.made), strict=True)
    ]
    cut = ProgramTilings(tilings[:-1], tilings[-1:])
    return bool(written_out(program, local, case.mesh, cut, [0], most))


def summed(operand: str, type_: str, made: str, start: str = "z") -> str:
    return (
        f"%s = stablehlo.reduce(%{operand} init: %{start}) applies stablehlo.add across"
        f" dimensions = [0] : (tensor<{type_}>, tensor<f32>) -> tensor<{made}>"
    )


def total(mask: str = "LT", start: str = "0.0", op: str = "add", rows: int = 5) -> Case:
    """A sum of five rows, of which devices have three and two."""
    source = function(
        {"x": "5xf32"},
        "f32",
        constant("z", "0.0", "f32"),
        summed("x", "5xf32", "f32"),
        "%r = stablehlo.add %s, %z : tensor<f32>",
    )
    local = function(
        {"x": "3xf32"},
        "f32",
        constant("z", start, "f32"),
        constant("none", "-0.0", "3xf32"),
        device("off", 3),
        constant("all", rows, "i32"),
        "%left = stablehlo.subtract %all, %off : tensor<i32>",
        unary("lefts", "broadcast_in_dim|, dims = []", "left", "i32", "3xi32"),
        "%i = stablehlo.iota dim = 0 : tensor<3xi32>",
        compare("there", mask, "i", "lefts", "3xi32"),
        "%held = stablehlo.select %there, %x, %none : tensor<3xi1>, tensor<3xf32>",
        summed("held", "3xf32", "f32"),
        all_reduce("r", "s", op, "f32"),
    )
    return Case(source, local, [ROWS])


def test_a_sum_over_a_short_tile() -> None:
    assert is_equal(total())


@pytest.mark.parametrize(
    "wrong",
    [
        total(mask="LE"),  # what is behind the end counts
        total(mask="GT"),
        total(start="1.0"),  # twice
        total(op="maximum"),
        total(rows=4),  # one is left out
    ],
)
def test_sums_that_are_others(wrong: Case) -> None:
    assert not is_equal(wrong)


def scaled(factor: str, *, known: bool = True) -> Case:
    """A sum over devices times a number; devices multiply first."""
    number = (constant("k", factor, "f32"),) if known else ()
    given = {} if known else {"k": "f32"}
    steps = "%m = stablehlo.multiply {}, %k : tensor<f32>"
    source = function(
        {"x": "2xf32", **given},
        "f32",
        constant("z", "0.0", "f32"),
        *number,
        summed("x", "2xf32", "f32"),
        steps.format("%s"),
        "%r = stablehlo.add %m, %z : tensor<f32>",
    )
    local = function(
        {"x": "1xf32", **given},
        "f32",
        *number,
        unary("s", "reshape", "x", "1xf32", "f32"),
        steps.format("%s"),
        all_reduce("r", "m", "add", "f32"),
    )
    return Case(source, local, [ROWS, *([()] if given else [])])


def test_sums_move_past_factors_that_are_finite_for_certain() -> None:
    assert is_equal(scaled("3.0"))
    assert not is_equal(scaled("0x7F800000"))
    assert not is_equal(scaled("", known=False))


def guarded(product: str) -> Case:
    """Tiles side by side, the last of which is short, and what is made of them."""
    source = function(
        {"x": "3xf32"},
        "3xf32",
        constant("k", "2.0", "3xf32"),
        "%r = stablehlo.multiply %x, %k : tensor<3xf32>",
    )
    gathered = """%g = "stablehlo.all_gather"(%m) {all_gather_dim = 0 : i64,
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
    use_global_device_ids} : (tensor<2xf32>) -> tensor<4xf32>"""
    local = function(
        {"x": "2xf32"},
        "3xf32",
        constant("k", "2.0", "2xf32"),
        "%m = stablehlo.multiply %x, %k : tensor<2xf32>",
        gathered,
        product,
    )
    return Case(source, local, [ROWS])


def test_garbage_is_cut_off_and_not_computed_with() -> None:
    cut = unary("r", "slice", "g", "4xf32", "3xf32").replace("%g", "%g [0:3]")
    assert is_equal(guarded(cut))
    flat = unary("r", "slice", "g", "4xf32", "3xf32").replace("%g", "%g [1:4]")
    assert not is_equal(guarded(flat))


def test_what_is_large_is_not_written_out() -> None:
    assert not is_equal(total(), most=10)


def test_a_proof_says_what_was_written_out() -> None:
    """What the main machine proves, as it does most, is not."""
    args = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((8, 4), (4, 4))]
    rows = partir.ManualPartition({"x": 0}, axis="B")
    p = partir.partition(lambda x, w: x @ w, {"B": 2}, [rows], args=args)
    assert p.proof().written_out == ()


def transformed(rows: int, kind: str = "FFT") -> str:
    type_ = f"tensor<{rows}x4xcomplex<f32>>"
    return f"%r = stablehlo.fft %x, type = {kind}, length = [4] : ({type_}) -> {type_}"


def test_a_transform_is_one_of_whole_rows() -> None:
    whole, tile = "4x4xcomplex<f32>", "2x4xcomplex<f32>"
    source = function({"x": whole}, whole, transformed(4))
    for kind in ("FFT", "IFFT"):
        local = function({"x": tile}, tile, transformed(2, kind))
        assert is_equal(Case(source, local, [ROWS], ROWS)) is (kind == "FFT")


def filled(number: str, rows: int) -> str:
    type_ = f"{rows}xcomplex<f32>"
    return function(
        {"m": f"{rows}xi1", "x": type_},
        type_,
        constant("z", f"({number},{number})", type_),
        f"%r = stablehlo.select %m, %x, %z : tensor<{rows}xi1>, tensor<{type_}>",
    )


def test_complex_constants_that_are_no_numbers_are_as_they_are_spelled() -> None:
    nan, infinite = "0x7FC00000", "0x7F800000"
    source = filled(nan, 4)
    assert is_equal(Case(source, filled(nan, 2), [ROWS, ROWS], ROWS))
    assert not is_equal(Case(source, filled(infinite, 2), [ROWS, ROWS], ROWS))
    assert not is_equal(Case(source, filled("0.0", 2), [ROWS, ROWS], ROWS))
