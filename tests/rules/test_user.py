"""Users' rules: their notation, what they say when wrong, and custom calls by them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jax.sharding import PartitionSpec as P

import partir
from partir import ManualPartition, PartitionError
from partir.frontend.parsing import parse_module
from partir.ir.core import Signature
from partir.ir.types import tensor
from partir.ir.user_rule import parse
from partir.rules.factor import notation
from partir.rules.nest import nest_of
from partir.rules.registry import factors_of

MODULE = """
module @projection {
func.func public @main(%x: tensor<8x4x16xf32>, %w: tensor<16x32xf32>)
    -> tensor<8x4x32xf32> {
  %0 = stablehlo.custom_call @projection(%x, %w) {backend_config = "fast"}
    : (tensor<8x4x16xf32>, tensor<16x32xf32>) -> tensor<8x4x32xf32>
    loc("model.py":7:3)
  %1 = stablehlo.tanh %0 : tensor<8x4x32xf32>
  return %1 : tensor<8x4x32xf32>
}
}
"""
ROWS = ManualPartition({"arg0": 0}, axis="B", name="rows")
COLUMNS = ManualPartition({"arg1": 1}, axis="M", name="columns")
CONTRACTED = ManualPartition({"arg1": 0}, axis="M", name="contracted")
MESH = {"B": 4, "M": 2}
RULE = "b s d, d f -> b s f sum=d"


@pytest.fixture
def project() -> Iterator[None]:
    with partir.rule("projection", RULE):
        yield


# Notation


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (RULE, RULE),
        ("(b, s, d), (d, f) -> (b, s, f) sum=d", RULE),
        ("b   s,() ->b s", "b s, () -> b s"),
        ("b 1 -> b _", "b _ -> b _"),
        ("... d -> ... d, ... max = d", "... d -> ... d, ... max=d"),
        ("a b -> () sum=a max=b", "a b -> () sum=a max=b"),
        ("b, c -> b, c same=b same=c", "b, c -> b, c same=b same=c"),
        ("h, h -> h grouped=h", "h, h -> h grouped=h"),
        ("-> ()", "-> ()"),
        ("b ->", "b ->"),
    ],
)
def test_notation_is_read(text: str, shown: str) -> None:
    assert str(parse(text)) == shown
    assert parse(shown) == parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b s, s d", "expected operands, one ->, results, as in"),
        ("b -> b -> b", "expected operands, one ->, results, as in"),
        ("b s, -> b s", "operand 1 is empty; write () for a scalar"),
        ("b (h d) -> b h d", '"(h" in operand 0 is no name of a dimension'),
        ("b 2 -> b 2", '"2" in operand 0 is no name of a dimension'),
        ("b b -> b", '"b" is twice in operand 0'),
        ("b -> b d", '"d" is in result 0 but in no operand'),
        (
            "b s d, d f -> b s f",
            '"d" is in operands 0, 1 but not in result 0: say how parts are put '
            "together (sum=d, or mul, max, min, and, or, same), or write _ where it "
            "must stay whole",
        ),
        ("b d -> b, d", '"b" is in operand 0 but not in result 1'),
        ("b d -> b mean=d", '"mean=d" does not say how parts are put together'),
        ("b d -> b sum=e", '"d" is in operand 0 but not in result 0'),
        (
            "b d -> b sum=d sum=e",
            'sum=e: there is no dimension "e"; the names are b, d',
        ),
        ("b d -> b sum=d max=d", '"d" is marked twice'),
        ("b d -> b d sum=d", '"d" is marked sum=d, but every result has it'),
    ],
)
def test_malformed_rules_name_the_factor(text: str, message: str) -> None:
    with pytest.raises(PartitionError) as error:
        partir.rule("malformed", text)
    assert f'rule "{text}": ' in str(error.value)
    assert message in str(error.value)


def test_target_is_a_name() -> None:
    with pytest.raises(PartitionError, match="target is a custom call's name, got ''"):
        partir.rule("", "b -> b")


# Factors


def call(target: str, operands: list[str], results: list[str]) -> Signature:
    def types(texts: list[str]) -> tuple[object, ...]:
        sizes = [tuple(int(n) for n in text.split("x") if n) for text in texts]
        return tuple(tensor(shape, "f32") for shape in sizes)

    attrs = {"call_target_name": f'"{target}"'}
    ins, outs = types(operands), types(results)
    return Signature.of("stablehlo.custom_call", attrs, ins, outs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "operands", "results", "expected"),
    [
        (RULE, ["2x3x4", "4x5"], ["2x3x5"], "(a, b, c), (c, d) -> (a, b, d) sum=c"),
        ("... d -> ...  sum=d", ["2x3x4"], ["2x3"], "(a, b, c) -> (a, b) sum=c"),
        ("... d -> ...  sum=d", ["4"], [""], "(a) -> () sum=a"),
        ("b _, () -> b", ["2x3", ""], ["2"], "(a, _), () -> (a)"),
        ("b, c -> b, c same=b same=c", ["2", "3"], ["2", "3"], "(a), (b) -> (a), (b)"),
    ],
)
def test_factors(
    rule: str, operands: list[str], results: list[str], expected: str
) -> None:
    op = call("some_call", operands, results)
    with partir.rule("some_call", rule):
        ranks = [len(t.shape) for t in op.operands], [len(t.shape) for t in op.results]
        assert notation(factors_of(op), *ranks) == expected


def test_grouped_sizes_are_multiples() -> None:
    """Grouped heads: each group of query heads has one key head."""
    op = call("grouped", ["8x4", "2x4"], ["8x4"])
    with partir.rule("grouped", "h _, h _ -> h _ grouped=h"):
        (factor,) = nest_of(op).factors
        assert factor.size == 2
        assert nest_of(op).inside("M", 2, 0).operand_types[0].shape == (4, 4)


def test_a_rule_counts_for_calls_seen_before() -> None:
    op = call("late", ["4"], ["4"])
    assert nest_of(op).factors == ()
    with partir.rule("late", "b -> b"):
        assert len(nest_of(op).factors) == 1
    assert nest_of(op).factors == ()


# The table


def test_the_same_rule_twice_is_fine() -> None:
    with partir.rule("twice", RULE) as first:
        again = partir.rule("twice", "(b, s, d), (d, f) -> (b, s, f) sum=d")
        assert again.rule == first.rule
        assert "twice" in repr(first)


def test_another_rule_needs_replace() -> None:
    with partir.rule("changed", "b -> b"):
        with pytest.raises(PartitionError) as error:
            partir.rule("changed", "_ -> _")
        assert str(error.value) == (
            'custom call "changed" has the rule "b -> b" already, not "_ -> _"; pass '
            "replace=True to put this one in its place"
        )
        op = call("changed", ["4"], ["4"])
        with partir.rule("changed", "_ -> _", replace=True):
            assert factors_of(op) == ()
        assert len(factors_of(op)) == 1


# A module with a custom call


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("tactics", "reduced", "out"),
    [
        ([ROWS, COLUMNS], 0, P("B", None, "M")),
        ([ROWS, CONTRACTED], 1, P("B")),
    ],
)
def test_custom_call_is_tiled(
    tactics: list[ManualPartition], reduced: int, out: P
) -> None:
    p = partir.partition(partir.load(MODULE), MESH, tactics, strict=True)
    counts = {"all_reduce": reduced}
    assert p.collectives == dict.fromkeys(p.collectives, 0) | counts
    assert p.out_specs[0] == out
    parse_module(p.stablehlo())  # MLIR's verifier
    (line,) = [line for line in p.stablehlo().splitlines() if "custom_call" in line]
    assert 'backend_config = "fast"' in line
    assert ("tensor<2x4x8xf32>" if reduced else "tensor<16x16xf32>") in line


def test_custom_call_without_a_rule_is_reported() -> None:
    p = partir.partition(partir.load(MODULE), MESH, [ROWS])
    op, *_ = p.replicated_ops
    assert op.reason == 'it has no rule; partir.rule("projection", "…") gives it one'
    assert p.collectives["all_gather"] == 1


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            "b d, d f -> b f sum=d",
            'operand 0 is f32[8,4,16] with 3 dimensions, the rule names 2: "b d"',
        ),
        (
            "b s d -> b s d",
            "it has 1 operands, the call has 2: f32[8,4,16], f32[16,32]",
        ),
        ("b s d, f d -> b s f sum=d", '"d" is 16 in operand 0, 32 in operand 1'),
        (
            "... d, ... f -> ... f sum=d",
            '"..." stands for 2 in operand 0 and 1 in operand 1',
        ),
    ],
)
def test_a_rule_that_does_not_fit_names_the_call(rule: str, message: str) -> None:
    with partir.rule("projection", rule), pytest.raises(PartitionError) as error:
        partir.partition(partir.load(MODULE), MESH, [ROWS])
    assert str(error.value).startswith('custom call "projection" at model.py:7: rule "')
    assert message in str(error.value)
