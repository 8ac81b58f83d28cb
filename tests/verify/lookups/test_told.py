"""What devices say of indices in another order, twice, or behind an end: not proved."""

from __future__ import annotations

import pytest

from tests.verify.modules import WHOLE, Case, all_reduce, function, is_proved
from tests.verify.test_wrong_lookups import INDEX, reverse

pytestmark = pytest.mark.quick

TILES = (("B",),)
WORDS = ("indices_are_sorted", "unique_indices")
ADDED = """({
    ^bb0(%one: tensor<f32>, %other: tensor<f32>):
      %both = stablehlo.add %one, %other : tensor<f32>
      stablehlo.return %both : tensor<f32>
  })"""
ZEROS = "%z = stablehlo.constant dense<0.0> : tensor<8xf32>"


def gather(name: str, index: str, said: bool, shape: str = "3") -> str:
    vector = shape.count("x") + 1
    return f"""%{name} = "stablehlo.gather"(%x, %{index}) {{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = {vector}>,
    slice_sizes = array<i64: 1>, indices_are_sorted = {str(said).lower()}}}
    : (tensor<8xf32>, tensor<{shape}x1xi32>) -> tensor<{shape}xf32>"""


def scatter(name: str, index: str, update: str, count: int, said: str = "") -> str:
    words = ", ".join(f"{word} = {str(word == said).lower()}" for word in WORDS)
    return f"""%{name} = "stablehlo.scatter"(%z, %{index}, %{update}) {ADDED} {{
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, {words}}}
    : (tensor<8xf32>, tensor<{count}x1xi32>, tensor<{count}xf32>) -> tensor<8xf32>"""


@pytest.mark.parametrize("said", [True, False])
def test_indices_in_reverse_are_in_another_order(said: bool) -> None:
    given = {"x": "8xf32", "i": INDEX}
    source = function(given, "3xf32", gather("r", "i", True))
    local = function(
        given,
        "3xf32",
        reverse("j", "i", INDEX),
        gather("g", "j", said),
        reverse("r", "g", "3xf32"),
    )
    assert is_proved(Case(source, local, [WHOLE, WHOLE])) is (not said)


@pytest.mark.parametrize("said", [True, False])
def test_indices_are_in_order_row_by_row(said: bool) -> None:
    given = {"x": "8xf32", "i": "2x3x1xi32"}
    source = function(given, "2x3xf32", gather("r", "i", True, "2x3"))
    local = function(
        given,
        "2x3xf32",
        "%j = stablehlo.transpose %i, dims = [1, 0, 2] "
        ": (tensor<2x3x1xi32>) -> tensor<3x2x1xi32>",
        gather("g", "j", said, "3x2"),
        "%r = stablehlo.transpose %g, dims = [1, 0] "
        ": (tensor<3x2xf32>) -> tensor<2x3xf32>",
    )
    assert is_proved(Case(source, local, [WHOLE, WHOLE])) is (not said)


@pytest.mark.parametrize("dim", [0, 1])
def test_tiles_of_indices_are_in_order(dim: int) -> None:
    source = function(
        {"x": "8xf32", "i": "2x4x1xi32"}, "2x4xf32", gather("r", "i", True, "2x4")
    )
    shape = ("1x4", "2x2")[dim]
    local = function(
        {"x": "8xf32", "i": f"{shape}x1xi32"},
        f"{shape}xf32",
        gather("r", "i", True, shape),
    )
    tiles = (TILES, ((), ("B",)))[dim]
    assert is_proved(Case(source, local, [WHOLE, tiles], tiles))


@pytest.mark.parametrize("said", [*WORDS, ""])
def test_updates_in_reverse_differ_and_are_in_another_order(said: str) -> None:
    given = {"i": INDEX, "u": "3xf32"}
    for word in WORDS:
        source = function(given, "8xf32", ZEROS, scatter("r", "i", "u", 3, word))
        local = function(
            given,
            "8xf32",
            ZEROS,
            reverse("j", "i", INDEX),
            reverse("v", "u", "3xf32"),
            scatter("r", "j", "v", 3, said),
        )
        right = not said or said == word == "unique_indices"
        assert is_proved(Case(source, local, [WHOLE, WHOLE])) is right


@pytest.mark.parametrize("said", ["unique_indices", ""])
def test_indices_that_are_there_twice_do_not_differ(said: str) -> None:
    """Nothing is added at the second time; yet it is done at once with the first."""
    given = {"i": INDEX, "u": "3xf32"}
    source = function(
        given, "8xf32", ZEROS, scatter("r", "i", "u", 3, "unique_indices")
    )
    local = function(
        given,
        "8xf32",
        ZEROS,
        "%none = stablehlo.constant dense<0.0> : tensor<3xf32>",
        f"%ii = stablehlo.concatenate %i, %i, dim = 0 "
        f": (tensor<{INDEX}>, tensor<{INDEX}>) -> tensor<6x1xi32>",
        "%uu = stablehlo.concatenate %u, %none, dim = 0 "
        ": (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>",
        scatter("r", "ii", "uu", 6, said),
    )
    assert is_proved(Case(source, local, [WHOLE, WHOLE])) is (not said)


@pytest.mark.parametrize("said", ["unique_indices", ""])
def test_what_is_behind_an_end_may_be_one_of_the_others(said: str) -> None:
    source = function(
        {"i": INDEX, "u": "3xf32"},
        "8xf32",
        ZEROS,
        scatter("r", "i", "u", 3, "unique_indices"),
    )
    local = function(
        {"i": "2x1xi32", "u": "2xf32"},
        "8xf32",
        ZEROS,
        "%id = stablehlo.partition_id : tensor<ui32>",
        "%n = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>",
        "%ns = stablehlo.broadcast_in_dim %n, dims = [] "
        ": (tensor<i32>) -> tensor<2xi32>",
        "%at = stablehlo.iota dim = 0 : tensor<2xi32>",
        "%twice = stablehlo.add %ns, %ns : tensor<2xi32>",
        "%row = stablehlo.add %at, %twice : tensor<2xi32>",
        "%end = stablehlo.constant dense<3> : tensor<2xi32>",
        "%m = stablehlo.compare LT, %row, %end "
        ": (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>",
        "%none = stablehlo.constant dense<0.0> : tensor<2xf32>",
        "%v = stablehlo.select %m, %u, %none : tensor<2xi1>, tensor<2xf32>",
        scatter("s", "i", "v", 2, said),
        all_reduce("r", "s", "add", "8xf32"),
    )
    assert is_proved(Case(source, local, [TILES, TILES])) is (not said)


@pytest.mark.parametrize(
    ("before", "after", "right"),
    [
        ((True, False), (True, False), True),
        ((True, False), (False, False), True),
        ((True, False), (True, True), False),
        ((False, True), (True, False), False),
    ],
)
def test_a_branch_says_nothing_of_another(
    before: tuple[bool, bool], after: tuple[bool, bool], right: bool
) -> None:
    def chosen(said: tuple[bool, bool]) -> str:
        branches = ", ".join(
            f"""{{
            {gather("g", "i", one)}
            %n = stablehlo.{op} %g : tensor<3xf32>
            "stablehlo.return"(%n) : (tensor<3xf32>) -> () }}"""
            for op, one in zip(("negate", "abs"), said, strict=True)
        )
        made = f'%r = "stablehlo.if"(%c) ({branches})'
        types = " : (tensor<i1>) -> tensor<3xf32>"
        return function({"c": "i1", "x": "8xf32", "i": INDEX}, "3xf32", made + types)

    case = Case(chosen(before), chosen(after), [WHOLE, WHOLE, WHOLE])
    assert is_proved(case) is right
