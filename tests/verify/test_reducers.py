"""Reductions without a name: along several dimensions, and with flags."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import partir
from tests.verify.modules import TWO, Case, constant, function, is_proved
from tests.verify.test_right_and_wrong import mistakes_missed, shape

pytestmark = pytest.mark.quick


def of_both(start: tuple[float, float]) -> Any:
    """A sum and a maximum at once, over all rows and columns."""

    def reduced(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(a: Any, b: Any) -> Any:
            return a[0] + b[0], jnp.maximum(a[1], b[1])

        return lax.reduce((x, x), tuple(map(jnp.float32, start)), step, (0, 1))

    return reduced


@pytest.mark.parametrize("start", [(0.0, -float("inf")), (1.0, 2.0)])
def test_rows_are_reduced_in_tiles(start: tuple[float, float]) -> None:
    """From what counts nothing, and from what counts once."""
    p = partir.partition(
        of_both(start),
        {"B": 4},
        [partir.ManualPartition({"x": 0}, "B")],
        args=(shape(8, 2),),
    )
    assert not p.verify().not_proved
    assert mistakes_missed(p) == []


PAIR = "(tensor<f32>, tensor<f32>) -> tensor<f32>"
FLAG = "tensor<i1>, tensor<f32>, tensor<f32>"
PLAIN = f"""^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
  %1 = "stablehlo.add"(%a, %c) : {PAIR}
  %2 = "stablehlo.maximum"(%b, %d) : {PAIR}
  "stablehlo.return"(%1, %2) : (tensor<f32>, tensor<f32>) -> ()"""
GUARDED = f"""^bb0(%a: tensor<f32>, %b: tensor<f32>, %p: tensor<i1>,
     %c: tensor<f32>, %d: tensor<f32>, %q: tensor<i1>):
  %1 = "stablehlo.add"(%a, %c) : {PAIR}
  %2 = "stablehlo.maximum"(%b, %d) : {PAIR}
  %3 = "stablehlo.and"(%p, %q) : (tensor<i1>, tensor<i1>) -> tensor<i1>
  %4 = "stablehlo.select"(%p, %a, %c) : ({FLAG}) -> tensor<f32>
  %5 = "stablehlo.select"(%3, %1, %4) : ({FLAG}) -> tensor<f32>
  %6 = "stablehlo.select"(%p, %b, %d) : ({FLAG}) -> tensor<f32>
  %7 = "stablehlo.select"(%3, %2, %6) : ({FLAG}) -> tensor<f32>
  %8 = "stablehlo.or"(%p, %q) : (tensor<i1>, tensor<i1>) -> tensor<i1>
  "stablehlo.return"(%5, %7, %8) : (tensor<f32>, tensor<f32>, tensor<i1>) -> ()"""
GATHERED = """%{0}g = "stablehlo.all_gather"(%{1}) {{all_gather_dim = 0 : i64,
  replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
  channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}} :
  (tensor<1xf32>) -> tensor<2xf32>"""
STARTS = (
    "%s = stablehlo.constant dense<1.0> : tensor<f32>",
    "%t = stablehlo.constant dense<2.0> : tensor<f32>",
)


def whole(rows: int, reducer: str, values: str) -> str:
    return f"""%r, %m = "stablehlo.reduce"({values}, %s, %t) ({{ {reducer} }})
  {{dimensions = array<i64: 0>}} : (tensor<{rows}xf32>, tensor<{rows}xf32>,
  tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)"""


def guarded(reducer: str, given: str = "true", start: str = "false") -> Case:
    """Tiles are reduced by themselves, then from the initial values."""
    local = function(
        {"x": "2xf32"},
        "f32",
        *STARTS,
        f"%ones = stablehlo.constant dense<{given}> : tensor<2xi1>",
        f"%none = stablehlo.constant dense<{start}> : tensor<i1>",
        f"""%u, %v, %w = "stablehlo.reduce"(%x, %x, %ones, %s, %t, %none)
          ({{ {reducer} }}) {{dimensions = array<i64: 0>}} : (tensor<2xf32>,
          tensor<2xf32>, tensor<2xi1>, tensor<f32>, tensor<f32>, tensor<i1>)
          -> (tensor<f32>, tensor<f32>, tensor<i1>)""",
        "%uu = stablehlo.reshape %u : (tensor<f32>) -> tensor<1xf32>",
        "%vv = stablehlo.reshape %v : (tensor<f32>) -> tensor<1xf32>",
        GATHERED.format("u", "uu"),
        GATHERED.format("v", "vv"),
        whole(2, PLAIN, "%ug, %vg"),
    )
    source = function({"x": "4xf32"}, "f32", *STARTS, whole(4, PLAIN, "%x, %x"))
    return Case(source, local, [(("B",),)], mesh=TWO)


def test_initial_values_without_a_flag_count_nothing() -> None:
    assert is_proved(guarded(GUARDED))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(%p, %a, %c)", "(%q, %a, %c)"),
        ("(%p, %a, %c)", "(%p, %c, %a)"),
        ("(%p, %a, %c)", "(%p, %a, %a)"),
        ("(%3, %1, %4)", "(%8, %1, %4)"),
        ("(%3, %1, %4)", "(%3, %4, %1)"),
        ("stablehlo.and", "stablehlo.or"),
        ("stablehlo.or", "stablehlo.and"),
        ("stablehlo.add", "stablehlo.multiply"),
        ("(%a, %c) : (tensor<f32>", "(%a, %a) : (tensor<f32>"),
        ("(%5, %7, %8)", "(%5, %7, %p)"),
        ("(%5, %7, %8)", "(%1, %7, %8)"),
    ],
)
def test_another_way_to_count(right: str, wrong: str) -> None:
    assert right in GUARDED
    changed = GUARDED.replace(right, wrong)
    if "%8," in changed:  # used before it is made
        first, last = changed.split("  %3 = ")
        made = '  %8 = "stablehlo.or"(%p, %q) : (tensor<i1>, tensor<i1>) -> tensor<i1>'
        changed = f"{first}{made}\n  %3 = {last.replace(made, '')}"
    assert not is_proved(guarded(changed))


@pytest.mark.parametrize(
    ("start", "proved"), [(("0.0", "0xFF800000"), True), (("1.0", "2.0"), False)]
)
def test_initial_values_of_tiles_may_count(
    start: tuple[str, str], proved: bool
) -> None:
    """Three times, then, and not once."""
    numbers = zip("st", start, strict=True)
    starts = [constant(name, number, "f32") for name, number in numbers]
    local = function(
        {"x": "2xf32"},
        "f32",
        *starts,
        whole(2, PLAIN, "%x, %x").replace("%r, %m", "%u, %v"),
        "%uu = stablehlo.reshape %u : (tensor<f32>) -> tensor<1xf32>",
        "%vv = stablehlo.reshape %v : (tensor<f32>) -> tensor<1xf32>",
        GATHERED.format("u", "uu"),
        GATHERED.format("v", "vv"),
        whole(2, PLAIN, "%ug, %vg"),
    )
    source = function({"x": "4xf32"}, "f32", *starts, whole(4, PLAIN, "%x, %x"))
    assert is_proved(Case(source, local, [(("B",),)], mesh=TWO)) is proved


def test_flags_that_say_otherwise() -> None:
    assert not is_proved(guarded(GUARDED, given="false"))
    assert not is_proved(guarded(GUARDED, start="true"))


def through(reducer: str, dtype: str) -> str:
    """The same, with one operand converted to and fro."""
    return reducer.replace(
        f'%1 = "stablehlo.add"(%a, %c) : {PAIR}',
        f"""%h = "stablehlo.convert"(%c) : (tensor<f32>) -> tensor<{dtype}>
  %k = "stablehlo.convert"(%h) : (tensor<{dtype}>) -> tensor<f32>
  %1 = "stablehlo.add"(%a, %k) : {PAIR}""",
    )


@pytest.mark.parametrize(("dtype", "proved"), [("f64", True), ("i8", False)])
def test_a_reducer_through_another_type(
    dtype: str, proved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.PLAIN", through(PLAIN, "f64"))
    assert is_proved(guarded(through(GUARDED, dtype))) is proved
