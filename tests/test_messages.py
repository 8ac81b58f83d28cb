"""What users read when something is wrong: what, where, why, and what would work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import partir
from partir import REPLICATED, ManualPartition
from tests.refusals import (
    ARGS,
    BP,
    LINE,
    MESH,
    MP,
    WISHES,
    message,
    mlp,
    refusal,
    says,
)

# Names and patterns


def test_pattern_that_matches_nothing() -> None:
    assert refusal(says({"param/*": 0})) == (
        'tactic "T": pattern "param/*" matches no argument or tag of mlp; nearest '
        "names: params/w1, params/w2. If it may match nothing, write "
        'partir.optional("param/*")'
    )


def test_result_named_among_the_inputs() -> None:
    assert 'It names a result: write outputs={"out": …}' in refusal(says({"out": 0}))


def test_output_that_matches_nothing() -> None:
    assert refusal(says({}, outputs={"out/3": 0})).startswith(
        'tactic "T": pattern "out/3" matches no result of mlp; nearest names: out.'
    )


def test_address_that_matches_nothing() -> None:
    assert refusal(says({"%mlp/dot/0": 0})).startswith(
        'tactic "T": pattern "%mlp/dot/0" matches no inner value of mlp; nearest '
        "names: %mlp/dot_general/0, %mlp/dot_general/1"
    )


@pytest.mark.parametrize(
    ("pattern", "remedy"),
    [
        ("params.w1", 'Parts of a name are joined by /: write "params/w1".'),
        ("params['w1']", 'Parts of a name are joined by /: write "params/w1".'),
        ("/x", 'Parts of a name are joined by /: write "x".'),
        (r"params/w\d", r'To use a regular expression write re.compile("params/w\d").'),
        ("params/[", "nearest names: params/w1, params/w2. If"),
    ],
)
def test_pattern_in_another_spelling(pattern: str, remedy: str) -> None:
    assert remedy in refusal(says({pattern: 0}))


def test_range_that_is_none() -> None:
    assert refusal(says({"%mlp/dot_general/{3..1}": 0})) == (
        "a range in a pattern is {first..last} or {first..last..step}, upwards and of "
        "at most 100000 numbers, got {3..1..1}"
    )


def test_pattern_of_a_wrong_kind() -> None:
    assert message(lambda: says({0: 0})) == (
        "a pattern is text, a re.Pattern or partir.optional(...), got 0"
    )
    assert message(lambda: partir.optional(0)) == (  # type: ignore[arg-type]
        "optional() takes a pattern (text or re.Pattern), got 0"
    )


# Dimensions and axes


@pytest.mark.parametrize("dim", [2, -3])
def test_dimension_out_of_range(dim: int) -> None:
    assert refusal(says({"x": dim})) == (
        f'tactic "T": x is float32[12,8]: dimension {dim} is out of range; use 0 to 1'
    )


def test_dimension_of_a_scalar() -> None:
    tactic = says({"x": 0})
    assert message(
        lambda: partir.partition(lambda x: x, MESH, [tactic], args=(1.0,))
    ) == (
        'tactic "T": x is float32[]: dimension 0 is out of range; a scalar can\'t be '
        "tiled"
    )


def test_size_that_does_not_divide() -> None:
    assert refusal(says({"params/w2": 1})) == (
        'tactic "T": params/w2 is float32[16,6]: dimension 1 of size 6 does not divide '
        'over axis "B" of size 4; dimensions that do: 0; the next multiple of 4 is 8'
    )


def test_what_is_left_does_not_divide() -> None:
    assert refusal(BP, says({"x": 0}, axis="M")) == (
        'tactic "T": x is float32[12,8]: dimension 0 of size 12 (3 left inside B) does '
        'not divide over axis "M" of size 2; dimensions that do: 1; the next multiple '
        "of 8 is 16: partir.padded(0) pads it to that"
    )


def test_unknown_axis() -> None:
    assert refusal(says({"x": 0}, axis="C")) == (
        'tactic "T": mesh has no axis "C"; it has "B" of size 4, "M" of size 2'
    )


def test_axis_of_a_wrong_kind() -> None:
    assert message(lambda: says({"x": 0}, axis=0)) == (  # type: ignore[arg-type]
        "ManualPartition: axis is a mesh axis's name, got 0"
    )


# What is already decided


def test_another_dimension_than_the_one_decided() -> None:
    assert refusal(BP, says({"x": 1})) == (
        'tactic "T": x can\'t be tiled on dimension 1 over axis "B": it is already '
        'tiled on dimension 0 over it (by tactic "BP"). A later tactic never undoes an '
        'earlier one: say dimension 0 or nothing, or tile it in a tactic before "BP"'
    )


def test_another_dimension_than_the_one_propagated() -> None:
    assert refusal(MP, says({"params/w2": 1}, axis="M")) == (
        'tactic "T": params/w2 can\'t be tiled on dimension 1 over axis "M": it is '
        'already tiled on dimension 0 over it (by tactic "MP", propagated through '
        f"%mlp/dot_general/1 at {LINE}). A later tactic never undoes an "
        "earlier one: say dimension 0 or nothing, or tile it in a tactic before "
        '"MP"'
    )


def test_replicated_on_what_is_tiled() -> None:
    assert refusal(BP, says({"x": REPLICATED})) == (
        'tactic "T": x can\'t be kept whole on axis "B": it is already tiled on '
        'dimension 0 over it (by tactic "BP"). A later tactic never undoes an earlier '
        'one: keep it whole in a tactic before "BP", or, in a tactic of your own, '
        'gather it at its uses: atomic(…, at="uses")'
    )


def test_dimension_on_what_is_kept_whole() -> None:
    whole = ManualPartition({"x": REPLICATED}, axis="B", name="whole")
    assert refusal(whole, says({"x": 0})) == (
        'tactic "T": x can\'t be tiled on dimension 0 over axis "B": it is kept whole '
        'on that axis (by tactic "whole"). A later tactic never undoes an earlier one: '
        'tile it in a tactic before "whole"'
    )


# Wishes


@pytest.mark.parametrize("wish", ["0", (0,), None, True, 1.0])
def test_wish_of_a_wrong_kind(wish: Any) -> None:
    assert message(lambda: says({"x": wish})) == (
        f'tactic "T" says {wish!r} for "x": say {WISHES}'
    )


def test_callable_that_answers_wrongly() -> None:
    def rows(name: str, shape: tuple[int, ...], dtype: str) -> Any:
        return "rows"

    assert refusal(says({"x": rows})) == (
        f"tactic \"T\" says 'rows' for x (from rows): say {WISHES}"
    )


def test_callable_with_other_arguments() -> None:
    def rows(name: str) -> int:
        return 0

    told = refusal(says({"x": rows}))
    assert told.startswith(
        "tactic \"T\": rows('x', (12, 8), 'float32') raised TypeError: "
    )
    assert told.endswith(f"A callable takes (name, shape, dtype) and returns {WISHES}")


def test_callable_that_raises() -> None:
    def rows(name: str, shape: tuple[int, ...], dtype: str) -> int:
        return {"y": 0}[name]

    assert refusal(says({"x": rows})).startswith(
        "tactic \"T\": rows('x', (12, 8), 'float32') raised KeyError: 'x'."
    )


def test_inputs_of_a_wrong_kind() -> None:
    assert message(lambda: says(["x"])) == (
        "ManualPartition: inputs maps patterns to dimensions, for example "
        "{\"params/*/w1\": 1}; got ['x']"
    )


def test_choose_of_a_wrong_kind() -> None:
    for ops in ("%mlp/dot_general/0", {"%mlp/dot_general/0": "rows"}):
        assert message(lambda ops=ops: partir.Choose(ops, axis="B")) == (
            "Choose: ops maps addresses to numbers of factors, for example "
            f'{{"%attend/dot_general/0": 1}}; got {ops!r}'
        )


def test_gathered_of_a_wrong_kind() -> None:
    for values in ("params/**", {"params/**": "once"}):
        assert message(lambda given=values: partir.Gathered(given, axis="B")) == (
            'Gathered: values maps patterns to "keep", "again" or "rest", for '
            f'example {{"params/**": "keep"}}; got {values!r}'
        )


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"axes": 3}, 'each once, for example axes=("B", "M"); got 3'),
        ({"axes": ("B", "B")}, "got ('B', 'B')"),
        ({"evaluations": "many"}, "evaluations is a number of more than 0, got 'many'"),
        ({"seconds": 0}, "seconds is a number of more than 0, got 0"),
        ({"memory_limit": -1}, "is a number, in bytes, of more than 0, got -1"),
        ({"memory_limit": "16GB"}, "is a number, in bytes, of more than 0, got '16GB'"),
        ({"workers": 0}, "workers is a number of more than 0, got 0"),
    ],
    ids=str,
)
def test_search_of_a_wrong_kind(option: Any, told: str) -> None:
    given = {"axes": "B", **option}
    assert message(lambda: partir.AutomaticPartition(**given)).endswith(told)


def test_suggestions_for_what_is_not_partitioned() -> None:
    assert message(lambda: partir.suggest(mlp, "B")).startswith(  # type: ignore[arg-type]
        "suggest takes a Partitioned, as partir.partition(…) or .partitioned(…) give it"
    )
    p = partir.partition(mlp, MESH, [BP], args=ARGS, device="a100")
    assert message(lambda: partir.suggest(p, "B", k=0)) == (
        "suggest: k is how many, at least 1, got 0"
    )


# Schedules


@pytest.mark.parametrize("element", ["BP", {"x": 0}, ManualPartition])
def test_schedule_element_that_is_no_tactic(element: Any) -> None:
    assert refusal(BP, element) == (
        f"schedule element 1 is {element!r}, which is no tactic: a tactic is an object "
        'with apply(partition), for example partir.ManualPartition({"x": 0}, axis="B")'
    )


def test_list_in_a_schedule() -> None:
    assert refusal([BP]) == (
        "schedule element 0 is a list: to nest schedules write partir.Schedule([...]), "
        "or join the lists"
    )


@pytest.mark.parametrize("schedule", ["BP", {"x": 0}, 3])
def test_schedule_that_is_none(schedule: Any) -> None:
    assert message(lambda: partir.partition(mlp, MESH, schedule, args=ARGS)) == (
        f"a schedule is a list of tactics, got {type(schedule).__name__}: {schedule!r}"
    )


class Own:
    """A tactic from a function."""

    def __init__(self, act: Callable[[partir.Partition], Any]) -> None:
        self.apply = act


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (
            lambda p: p.tile("y", 0, "B"),
            'no argument or tag matches "y"; nearest names: params/w1, params/w2, x',
        ),
        (
            lambda p: p.tile("x", "0", "B"),
            "x is float32[12,8]: a dimension is a whole number, got '0'",
        ),
        (
            lambda p: p.atomic("x", "B", at="use"),
            'atomic: at is "everywhere" or "uses", got \'use\'',
        ),
        (
            lambda p: p.choose("%mlp/dot_general/7", 0, "B"),
            'choose: "%mlp/dot_general/7" names no op, and exactly one is needed; '
            "nearest addresses: %mlp/dot_general/0, %mlp/dot_general/1, %mlp/tanh/0",
        ),
        (
            lambda p: p.choose("%mlp/dot_general/1", 1, "B"),
            '%mlp/dot_general/1 can\'t loop over factor 1 on axis "B" of size 4; '
            "factors that fit: 0, 2",
        ),
        (
            lambda p: p.propagate("C"),
            'mesh has no axis "C"; it has "B" of size 4, "M" of size 2',
        ),
    ],
    ids=["pattern", "dimension", "at", "address", "factor", "axis"],
)
def test_actions_of_own_tactics(act: Any, told: str) -> None:
    assert refusal(Own(act)) == f'tactic "Own": {told}'
