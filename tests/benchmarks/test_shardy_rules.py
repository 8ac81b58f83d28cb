"""The comparison with Shardy's rules: what is read of them, and the page."""

from __future__ import annotations

import pytest

from benchmarks.shardy_page import page
from benchmarks.shardy_rules import PAGE, ask, module_text, verdicts
from benchmarks.shardy_verdicts import Rule, compared
from tests.rules.samples.sample import written


def test_a_rule_is_read() -> None:
    rule = Rule.parse(
        "#sdy.op_sharding_rule<([ij, k],[k, z_1])->([i, j, z_1]) "
        "{i=2, j=3, k=4, z_1=5} reduction={k}>"
    )
    assert rule.operands == ((("i", "j"), ("k",)), (("k",), ("z_1",)))
    assert rule.results == ((("i",), ("j",), ("z_1",)),)
    assert rule.sizes == {"i": 2, "j": 3, "k": 4, "z_1": 5}
    assert rule.key("k") == ((1, 0), (None,), True)
    assert rule.before("j") == ["i"]


@pytest.mark.parametrize(
    ("kind", "types", "attrs", "more", "less"),
    [
        ("reshape", "2x6xf32 -> 4x3xf32", "", 0, ()),
        ("reverse", "4x6xf32 -> 4x6xf32", "dimensions = array<i64: 0>", 0, ()),
        (
            "dynamic_slice",
            "4x6xf32, i32, i32 -> 1x6xf32",
            "slice_sizes = array<i64: 1, 6>",
            1,
            (),
        ),
    ],
)
def test_compared(
    kind: str, types: str, attrs: str, more: int, less: tuple[str, ...]
) -> None:
    op = written(f"stablehlo.{kind}", types, attrs)
    (answer,) = ask([module_text(op)])
    verdict = compared(op, answer)
    assert (len(verdict.more), verdict.less) == (more, less)


@pytest.mark.needs_jax("0.10", "the page lists ops that came with it")
def test_the_page_is_up_to_date() -> None:
    made = page(verdicts())
    assert PAGE.read_text(encoding="utf-8") == made, (
        "rules or samples have changed: run python -m benchmarks.shardy_rules"
    )
