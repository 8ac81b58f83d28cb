"""Reducers without a name, element by element: wrong ones that look right."""

from __future__ import annotations

import jax
import pytest

import partir
from partir.verify.elements.alone import evaluated, new_ops
from partir.verify.elements.cases import FALSE, GARBAGE, TRUE, WORK, Cases
from partir.verify.elements.rings import ring_of
from tests.verify.elements.test_written_out import ROWS, is_equal
from tests.verify.modules import CHANNEL, Case, constant, function, is_proved

NUMBERS = "complex<f32>"


def reduced(
    made: str, given: str, body: list[str], dtype: str, rows: int, last: str
) -> str:
    """Two values, reduced from `%s` and `%t`; `last` are those that a body gives."""
    wide, one = f"tensor<{rows}x{dtype}>", f"tensor<{dtype}>"
    values = ", ".join(f"%{name}: {one}" for name in "abcd")
    lines = "\n      ".join(body)
    return f"""{made} = "stablehlo.reduce"({given}, %s, %t) ({{
    ^bb0({values}):
      {lines}
      stablehlo.return {last} : {one}, {one}
    }}) {{dimensions = array<i64: 0>}} :
      ({wide}, {wide}, {one}, {one}) -> ({one}, {one})"""


def op(name: str, kind: str, x: str, y: str, dtype: str = "i32") -> str:
    return f"%{name} = stablehlo.{kind} %{x}, %{y} : tensor<{dtype}>"


def gathered(name: str, operand: str) -> str:
    return f"""%{name}_ = stablehlo.reshape %{operand} : (tensor<i32>) -> tensor<1xi32>
    %{name} = "stablehlo.all_gather"(%{name}_) {{all_gather_dim = 0 : i64,
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, {CHANNEL},
    use_global_device_ids}} : (tensor<1xi32>) -> tensor<2xi32>"""


CHAINED = [  # a x + b, and behind it c x + d
    op("ac", "multiply", "a", "c"),
    op("bc", "multiply", "b", "c"),
    op("bcd", "add", "bc", "d"),
]


def chained(start: tuple[int, int] | None) -> Case:
    """Linear functions, one behind the other; tiles of them first.

    Arguments come before them if nothing else does.
    """
    first = zip("st", start or (), strict=False)
    starts = [constant(name, number, "i32") for name, number in first]
    given = {} if start else {"s": "i32", "t": "i32"}

    def all_of(made: str, given: str, rows: int) -> str:
        return reduced(made, given, CHAINED, "i32", rows, "%ac, %bcd")

    source = function(
        {"x": "4xi32", "y": "4xi32", **given},
        "i32",
        *starts,
        all_of("%q, %r", "%x, %y", 4),
    )
    local = function(
        {"x": "2xi32", "y": "2xi32", **given},
        "i32",
        *starts,
        all_of("%u, %v", "%x, %y", 2),
        gathered("us", "u"),
        gathered("vs", "v"),
        all_of("%q, %r", "%us, %vs", 2),
    )
    return Case(source, local, [ROWS, ROWS, *((),) * len(given)])


@pytest.mark.parametrize(
    ("start", "proved"),
    [((1, 0), True), ((2, 0), False), ((0, 0), False), (None, False)],
)
def test_what_tiles_start_from_may_count(
    start: tuple[int, int] | None, proved: bool
) -> None:
    """Nothing else than x itself is nothing before and behind each function."""
    assert is_equal(chained(start)) is proved
    assert is_proved(chained(start)) is proved


def longer(name: str, operand: str, last: str) -> str:
    return f"""%{name}_ = stablehlo.reshape %{last} : (tensor<i32>) -> tensor<1xi32>
    %{name} = stablehlo.concatenate %{operand}, %{name}_, dim = 0 :
      (tensor<2xi32>, tensor<1xi32>) -> tensor<3xi32>"""


def test_a_row_that_a_reduction_starts_from_may_count() -> None:
    """As the last one, which is what is kept."""
    given = {"x": "2xi32", "y": "2xi32"}
    starts = [constant("s", 7, "i32"), constant("t", 3, "i32")]
    keep = ([], "i32", 2, "%c, %d")
    source = function(given, "i32", *starts, reduced("%r, %q", "%x, %y", *keep))
    local = function(
        given,
        "i32",
        *starts,
        longer("u", "x", "s"),
        longer("v", "y", "t"),
        reduced("%r, %q", "%u, %v", [], "i32", 3, "%c, %d"),
    )
    assert not is_equal(Case(source, local, [(), ()]))
    assert is_equal(Case(source, source, [(), ()]))


def test_complex_products_in_a_reducer_have_an_order() -> None:
    """As others have: parts of what is infinite depend on it."""
    given = {"x": f"1x{NUMBERS}", "y": f"1x{NUMBERS}", "s": NUMBERS, "t": NUMBERS}
    first = [
        op("p", "multiply", "a", "c", NUMBERS),
        op("q", "multiply", "p", "d", NUMBERS),
    ]
    last = [
        op("p", "multiply", "c", "d", NUMBERS),
        op("q", "multiply", "a", "p", NUMBERS),
    ]
    source, local = (
        function(
            given, NUMBERS, reduced("%r, %n", "%x, %y", body, NUMBERS, 1, "%q, %d")
        )
        for body in (first, last)
    )
    assert not is_equal(Case(source, local, [()] * 4))
    assert is_equal(Case(source, source, [()] * 4))


def test_garbage_is_not_what_it_was_once_made_of() -> None:
    """Nor does a truth that it was once combined with say what another is."""
    ops, ring = new_ops(), ring_of("i1")
    tables = [
        Cases(
            (ops.algebra.point.unknown(name), 8), tuple(range(60)), (FALSE, TRUE) * 30
        )
        for name in ("one", "other")
    ]
    total = ops.monoids.total
    assert total("or", "i1", ring, [GARBAGE, *tables]) is GARBAGE
    first = tables[0]
    negative = Cases(first.unknown, first.starts, first.values[::-1])
    assert total("or", "i1", ring, [negative, GARBAGE]) != TRUE


def test_reductions_of_another_type_are_others() -> None:
    """The same numbers, reduced as bytes before: they wrap round, these don't."""

    def of(made: str, dtype: str, count: str) -> list[str]:
        body = [
            op("ac", "multiply", "a", "c", dtype),
            op("bc", "multiply", "b", "c", dtype),
            op("bcd", "add", "bc", "d", dtype),
        ]
        text = reduced(f"%{made}:2", "%x, %x", body, dtype, 2, "%ac, %bcd")
        for name in ("x", "s", "t"):
            text = text.replace(f"%{name},", f"%{name}{count},")
        text = text.replace("%t)", f"%t{count})")
        return [
            constant(f"x{count}", 100, f"2x{dtype}"),
            constant(f"s{count}", 1, dtype),
            constant(f"t{count}", 0, dtype),
            text,
        ]

    wide = "%w = stablehlo.convert %n#0 : (tensor<i8>) -> tensor<i16>"
    both = "%r = stablehlo.add %w, %m#0 : tensor<i16>"
    source = function({}, "i16", *of("n", "i8", "8"), *of("m", "i16", "16"), wide, both)
    right, wrong = (
        Case(source, function({}, "i16", constant("r", number, "i16")), [])
        for number in (10000 + 16, 16 + 16)
    )
    assert is_equal(right)
    assert not is_equal(wrong)


def test_rows_are_not_put_in_many_orders_in_vain() -> None:
    """Windows of a reducer with an order, of which each would take a good while."""
    shape = jax.ShapeDtypeStruct((4, 16), "float32")
    whole = jax.jit(lambda x: jax.lax.cumlogsumexp(x, axis=1))
    program = partir.load(whole.lower(shape).as_text())
    (scan,) = [op for op in program.ops if op.signature.name == "reduce_window"]
    ops, ring = new_ops(), ring_of("f32")
    rows = [ring.unknown(ops.algebra.point, "x", n) for n in range(64)]
    start = [ops.numbers.special["-inf"]]
    first = evaluated(ops, scan.signature, [rows, start])
    assert WORK - ops.algebra.left < WORK // 4
    left = ops.algebra.left
    assert evaluated(ops, scan.signature, [rows, start]) == first
    assert left - ops.algebra.left < WORK // 100


def test_known_rows_behind_many_that_have_an_order() -> None:
    """To find that out takes little: known rows are run all the same."""
    shape = jax.ShapeDtypeStruct((8, 4), "float32")
    program = partir.load(jax.jit(lambda x: x.argmax(1)).lower(shape).as_text())
    (largest,) = [op for op in program.ops if op.signature.name == "reduce"]
    ops = new_ops()
    unknown = [ring_of("f32").unknown(ops.algebra.point, "x", n) for n in range(28)]
    rows = [*unknown, 0, 1, 0, 0]
    places = [(0, number % 4) for number in range(32)]
    start = [[ops.numbers.special["-inf"]], [(0, 0)]]
    _, found = evaluated(ops, largest.signature, [rows, places, *start])
    assert found[-1] == (0, 1)
    assert all(type(one) is Cases or one[0] for one in found[:-1])
