"""What devices say of indices (in order, all different) is true, or not proved."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import pytest

import partir
from tests.verify.modules import WHOLE, Case, constant, function, is_proved
from tests.verify.test_right_and_wrong import shape
from tests.verify.test_wrong_lookups import INDEX, gather, looked_up, scattered

SAYS = re.compile(r"(indices_are_sorted|unique_indices) = false")


def told(case: Case, local: bool = True, name: str = r"\w+") -> Case:
    """With promises, in the source and on devices."""
    says = re.compile(rf"({name}) = false")
    texts = [says.sub(r"\1 = true", text) for text in (case.source, case.local)]
    return case._replace(source=texts[0], local=texts[1] if local else case.local)


def inside_alone() -> Case:
    """Devices look up all others at their first row: there, a larger index may be."""
    case = looked_up()
    before, after = case.local.split("%g = ")
    chosen = (
        f"%n = stablehlo.select %inside, %l, %zero : tensor<3x1xi1>, tensor<{INDEX}>"
    )
    made, rest = after.split("%low = ")
    masks, last = rest.split("%m = ")
    gathered = made.replace("%l)", "%n)")
    local = f"{before}%low = {masks}{chosen}\n  %g = {gathered}%m = {last}"
    return case._replace(local=local)


@pytest.mark.usefixtures("x64")
def test_a_look_up_in_order() -> None:
    assert is_proved(inside_alone())
    assert is_proved(told(looked_up()))
    assert is_proved(told(looked_up(), local=False))  # says less, and is the same
    assert not is_proved(told(inside_alone()))
    assert is_proved(told(inside_alone(), local=False))


@pytest.mark.usefixtures("x64")
def test_a_scatter_of_indices_that_differ() -> None:
    """All that are negative become one, which the others may be as well."""
    shifted = scattered()
    as_it_is = shifted._replace(
        local=shifted.local.replace("%neg, %far, %sub", "%neg, %sub, %sub")
    )
    assert is_proved(shifted)
    assert is_proved(told(as_it_is, name="unique_indices"))
    assert not is_proved(told(shifted))


@pytest.mark.usefixtures("x64")
def test_a_scatter_of_indices_in_order() -> None:
    """Close to the least of their type, shifted ones wrap round, but not clamped."""
    shifted = scattered()
    made = ("%low = stablehlo.maximum %i, %far", "%l = stablehlo.subtract %low, %offs")
    lines = [f"{line} : tensor<{INDEX}>" for line in made]
    far = "%far = stablehlo.constant dense<9>"
    head, tail = shifted.local.replace(far, far.replace("9", "-9")).split("%sub = ")
    rest = tail.split("\n")[3:]
    clamped = shifted._replace(local="\n".join((head, *lines, *rest)))
    as_it_is = shifted.local.replace("%neg, %far, %sub", "%neg, %sub, %sub")
    assert is_proved(told(clamped, name="indices_are_sorted"))
    assert not is_proved(told(clamped, name="unique_indices"))
    wraps = told(shifted._replace(local=as_it_is), name="indices_are_sorted")
    assert not is_proved(wraps)
    assert is_proved(wraps._replace(local=as_it_is))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("places", "right"), [("[1, 3, 6]", True), ("[3, 1, 6]", False)]
)
def test_known_places_are_in_order(places: str, right: bool) -> None:
    rows = places.replace("[", "[[").replace("]", "]]").replace(", ", "], [")
    index = constant("i", rows, INDEX)
    source = function({"x": "8xf64"}, "3xf64", index, f"%r = {gather(8, 'i')}")
    case = Case(source, SAYS.sub(r"\1 = true", source), [()])
    assert is_proved(case) is right


@pytest.mark.usefixtures("x64")
def test_what_is_behind_an_end_is_in_no_order() -> None:
    """Of three indices, the second device has one, and something else."""
    source = function({"x": "8xf64", "i": INDEX}, "3xf64", f"%r = {gather(8, 'i')}")
    local = source.replace("3x1xi32", "2x1xi32").replace("3xf64", "2xf64")
    tiles = (("B",),)
    case = Case(source, local, [(), tiles], tiles)
    assert is_proved(case)
    assert is_proved(told(case, local=False))
    assert not is_proved(told(case))


def test_partitioned_programs_do_not_say_so_of_short_tiles() -> None:
    """Of sixteen indices thirteen count."""

    def some(x: jax.Array, i: jax.Array) -> jax.Array:
        return jnp.sin(x.at[i[:13]].get(indices_are_sorted=True))

    args = (shape(8), shape(16, dtype="int32"))
    tactic = partir.ManualPartition({"i": 0}, "B")
    p = partir.partition(some, {"B": 4}, [tactic], args=args)
    assert "tensor<4x1xi32>" in p.stablehlo()
    assert "indices_are_sorted = true" not in p.stablehlo()
    assert not p.verify().not_proved


def test_one_of_several_columns_leaves_the_others_in_no_order() -> None:
    """Partitioned programs do not say so; what they do say is proved."""

    def pairs(x: jax.Array, i: jax.Array, j: jax.Array) -> jax.Array:
        return jnp.sin(x.at[i, j].get(indices_are_sorted=True))

    index = shape(3, dtype="int32")
    tactic = partir.ManualPartition({"x": 0}, "B")
    p = partir.partition(pairs, {"B": 4}, [tactic], args=(shape(8, 2), index, index))
    text = p.stablehlo()
    assert not p.verify().not_proved
    assert "indices_are_sorted = true" not in text
    wrong = text.replace("indices_are_sorted = false", "indices_are_sorted = true")
    assert wrong != text
    assert not p.proof(wrong).proved


@pytest.mark.parametrize(
    ("places", "proved"),
    [("[[-3], [-1], [2]]", True), ("[[-1], [-3], [2]]", False)],
)
def test_indices_before_the_first_row_have_an_order(places: str, proved: bool) -> None:
    """All of them read the first row."""

    def looked_up(said: str) -> str:
        return function(
            {"x": "8xf32"},
            "3xf32",
            constant("i", places, "3x1xi32"),
            f"""%r = "stablehlo.gather"(%x, %i) {{
            dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
              start_index_map = [0], index_vector_dim = 1>,
            slice_sizes = array<i64: 1>, indices_are_sorted = {said}}}
            : (tensor<8xf32>, tensor<3x1xi32>) -> tensor<3xf32>""",
        )

    case = Case(looked_up("false"), looked_up("true"), [WHOLE])
    assert is_proved(case) is proved
