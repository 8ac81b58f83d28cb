"""All-reduces of several values, one of which is added up in a wider type."""

from __future__ import annotations

import partir
from partir.verify import prove
from tests.verify.modules import CHANNEL, TWO, Case, function, is_proved, reducer


def both(wide: str, narrow: str, op: str) -> str:
    """`%a#0` and `%a#1`, both of the first one's type."""
    types = f"(tensor<{wide}>, tensor<{narrow}>) -> (tensor<{wide}>, tensor<{wide}>)"
    region = reducer(op, wide.rpartition("x")[2])
    return f"""%a:2 = "stablehlo.all_reduce"(%x, %y) {region} {{
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, {CHANNEL},
    use_global_device_ids}} : {types}"""


GATHER = """%r = "stablehlo.gather"(%t, %i) <{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>
    }> : (tensor<300xf32>, tensor<3xTYPE>) -> tensor<3xf32>"""


def looked_up(all_reduce: str, dtype: str) -> Case:
    """A look-up at places that are sums, of integers that wrap round."""
    source = function(
        {"t": "300xf32", "x": "3xi32", "y": "2x3xi8"},
        "3xf32",
        "%z = stablehlo.constant dense<0> : tensor<i8>",
        "%i = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = "
        "[0] : (tensor<2x3xi8>, tensor<i8>) -> tensor<3xi8>",
        GATHER.replace("TYPE", "i8"),
    )
    local = function(
        {"t": "300xf32", "x": "3xi32", "w": "1x3xi8"},
        "3xf32",
        "%y = stablehlo.reshape %w : (tensor<1x3xi8>) -> tensor<3xi8>",
        all_reduce,
        GATHER.replace("TYPE", dtype).replace("%i", "%a#1"),
    )
    return Case(source, local, [(), (), (("B",),)])


def test_places_that_are_added_up_in_a_wider_type() -> None:
    narrow = both("3xi8", "3xi8", "add").replace("(%x,", "(%y,")
    assert is_proved(looked_up(narrow, "i8"))
    assert not is_proved(looked_up(both("3xi32", "3xi8", "add"), "i32"))


def test_a_result_has_the_type_of_the_source() -> None:
    source = """func.func public @main(%x: tensor<8xf32>, %y: tensor<8xbf16>)
        -> (tensor<8xf32>, tensor<8xbf16>) {
      return %x, %y : tensor<8xf32>, tensor<8xbf16>
    }"""
    local = f"""func.func public @main(%x: tensor<8xf32>, %y: tensor<8xbf16>)
        -> (tensor<8xf32>, tensor<8xf32>) {{
      {both("8xf32", "8xbf16", "maximum")}
      return %a#0, %a#1 : tensor<8xf32>, tensor<8xf32>
    }}"""
    whole = [((),)] * 2
    proof = prove(partir.load(source), local, TWO, whole, whole)
    assert not proof.proved
