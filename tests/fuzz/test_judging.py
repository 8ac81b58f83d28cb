"""What may differ: exact where no sum is reordered, rough by rounding, else loose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import partir
from partir.fuzz.case import Case, Trial
from partir.fuzz.judging.compare import Wrong, allowed, require_equal
from partir.fuzz.judging.trust import Level, Trust
from partir.fuzz.judging.widened import widened
from partir.fuzz.meaning.evaluate import evaluate

SUM = """
func.func @main(%a: tensor<4x3xf64>) -> (tensor<3xf64>, tensor<3xi1>, tensor<3xf64>) {
  %0 = stablehlo.constant dense<0.0> : tensor<f64>
  %1 = stablehlo.reduce(%a init: %0) applies stablehlo.add across dimensions = [0]
    : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
  %2 = stablehlo.compare LT, %1, %1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
  %3 = stablehlo.slice %a [0:1, 0:3] : (tensor<4x3xf64>) -> tensor<1x3xf64>
  %4 = stablehlo.reshape %3 : (tensor<1x3xf64>) -> tensor<3xf64>
  return %1, %2, %4 : tensor<3xf64>, tensor<3xi1>, tensor<3xf64>
}"""
PRODUCT = """
func.func @main(%a: tensor<3x4xf64>, %b: tensor<4x2xf64>) -> tensor<3x2xf64> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<3x4xf64>, tensor<4x2xf64>) -> tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}"""


def _levels(text: str, holds: str) -> list[Level]:
    count = len(partir.load(text).arguments)
    case = Case(text, partir.Mesh({"A": 2}), (), (holds,) * count, 1)
    return [trust.level for trust in Trial(case).trusts]


def test_sums_of_whole_numbers_are_exact() -> None:
    assert _levels(SUM, "whole") == [Level.EXACT] * 3


def test_rough_sums_make_what_jumps_loose() -> None:
    assert _levels(SUM, "plain") == [Level.ROUGH, Level.LOOSE, Level.EXACT]


def test_products_of_infinities_are_loose() -> None:
    assert _levels(PRODUCT, "whole") == [Level.EXACT]
    assert _levels(PRODUCT, "plain") == [Level.ROUGH]
    assert _levels(PRODUCT, "wild") == [Level.LOOSE]


def test_sums_that_may_overflow_are_loose() -> None:
    narrow = SUM.replace("f64", "f16")
    case = Case(narrow, partir.Mesh({"A": 2}), (), ("whole",), 0)
    trial = Trial(case)
    trial.args = [np.full((4, 3), 30000, np.float16)]
    assert trial.trusts[0].level == Level.LOOSE


def test_loops_go_by_what_their_bodies_do() -> None:
    text = """
    func.func @main(%a: tensor<3xf64>) -> tensor<3xf64> {
      %n = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%c = %n, %x = %a) : tensor<i32>, tensor<3xf64>
        cond {
          %m = stablehlo.constant dense<2> : tensor<i32>
          %p = stablehlo.compare LT, %c, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %d = stablehlo.add %c, %one : tensor<i32>
          %y = BODY
          stablehlo.return %d, %y : tensor<i32>, tensor<3xf64>
        }
      return %r#1 : tensor<3xf64>
    }"""
    kind = "tensor<3xf64>"
    plain = text.replace("BODY", f"stablehlo.add %x, %x : {kind}")
    assert _levels(plain, "plain") == [Level.EXACT]
    summed = f"""stablehlo.dot_general %x, %x, batching_dims = [0] x [0],
      contracting_dims = [] x [] : ({kind}, {kind}) -> {kind}"""
    assert _levels(text.replace("BODY", summed), "plain") == [Level.ROUGH]


def test_double_precision_to_nine_digits() -> None:
    rough = Trust(Level.ROUGH, scale=100.0, unit=2.0**-52)
    limit = allowed(rough, np.ones(2), None)
    assert limit == pytest.approx(1e-7)
    require_equal("x", np.array([1 + 5e-8, np.inf]), np.array([1, np.inf]), limit)
    with pytest.raises(Wrong, match=r"x: 1 of 2 numbers differ, at \[1\] nan instead"):
        require_equal("x", np.array([1, np.nan]), np.array([1, np.inf]), limit)
    exact = allowed(replace(rough, level=Level.EXACT), np.ones(2), None)
    with pytest.raises(Wrong):
        require_equal("x", np.array([1 + 5e-8]), np.array([1.0]), exact)
    assert allowed(replace(rough, level=Level.LOOSE), np.ones(2), None) is None


def test_low_precision_within_twice_the_error_of_one_device() -> None:
    rough = Trust(Level.ROUGH, scale=1.0, unit=2.0**-23)
    limit = allowed(rough, np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-5]))
    assert limit == pytest.approx(2e-5, rel=0.1)


def test_floats_of_eight_bits_are_not_widened() -> None:
    """Only some of a program's types would be: it could not be called."""
    assert widened(SUM.replace("f64", "f8E4M3FN")) is None


def test_widened_programs_round_less() -> None:
    text = SUM.replace("f64", "bf16").replace("dense<0.0>", "dense<0xFF80>")
    wide = widened(text)
    assert wide is not None
    assert "bf16" not in wide
    (made, *_) = evaluate(wide, [np.ones((4, 3))])
    assert np.all(made == -np.inf)
    other = widened(SUM.replace("f64", "f32"))
    assert other == SUM
