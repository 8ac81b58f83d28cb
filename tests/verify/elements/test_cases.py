"""Tables of tables, for all that the integers they depend on can be."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from partir.verify.elements.alone import new_ops
from partir.verify.elements.cases import (
    FALSE,
    GARBAGE,
    TRUE,
    Algebra,
    Cases,
    Unknown,
)
from partir.verify.elements.monoids import Monoids
from partir.verify.elements.rings import Integers, Ring, Truths, ring_of
from partir.verify.elements.truths import TruthMonoids

BITS = 2
RING = ring_of("i32")


def unknowns(algebra: Algebra) -> list[Unknown]:
    return [(algebra.point.unknown("u", number), BITS) for number in range(3)]


def drawn(
    algebra: Algebra, rng: random.Random, over: list[Unknown], leaves: list[Any]
) -> Any:
    """A table over some integers, in their order."""
    if not over or rng.random() < 0.2:
        return rng.choice(leaves)
    starts = sorted({0, *rng.sample(range(1, 1 << BITS), rng.randint(0, 2))})
    ring: Ring = Truths() if leaves[0] in TRUTHS else RING
    held = [drawn(algebra, rng, over[1:], leaves) for _ in starts]
    return algebra.cases(over[0], starts, held, ring)


TRUTHS = [(0, 0), (0, 1)]
NUMBERS = [(0, number) for number in range(-3, 4)]


def at(scalar: Any, where: dict[Unknown, int]) -> Any:
    """What a formula is if all integers are known."""
    while type(scalar) is Cases:
        scalar = scalar.at(where[scalar.unknown])
    return scalar


def everywhere(over: list[Unknown]) -> Iterator[dict[Unknown, int]]:
    for numbers in itertools.product(range(1 << BITS), repeat=len(over)):
        yield dict(zip(over, numbers, strict=True))


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_one_of_two_tables_by_a_table(seed: int, turns: bool) -> None:
    rng, ops = random.Random(seed), new_ops(turns)
    over = unknowns(ops.algebra)
    for one in over:
        ops.algebra.order(one)
    which = drawn(ops.algebra, rng, over[rng.randint(0, 1) :], [*TRUTHS, GARBAGE])
    x, y = (
        drawn(ops.algebra, rng, over[rng.randint(0, 2) :], [*NUMBERS, GARBAGE])
        for _ in "xy"
    )
    made = ops.select("i32")(which, x, y)
    for where in everywhere(over):
        held, both = at(which, where), [at(one, where) for one in (x, y)]
        if held is GARBAGE:
            want = both[0] if both[0] == both[1] else GARBAGE
        else:
            want = both[1 - held[1]]
        assert at(made, where) == want


@pytest.mark.parametrize("seed", range(60))
def test_sums_of_tables_one_of_which_depends_on_all(seed: int) -> None:
    rng, ops = random.Random(seed), new_ops()
    over = unknowns(ops.algebra)
    for one in over:
        ops.algebra.order(one)
    starts = (0, *sorted(rng.sample(range(1, 1 << BITS), 2)))
    wide = Cases(over[0], (0, 1), (Cases(over[1], (0, 1), tuple(NUMBERS[:2])), (0, 3)))
    narrow = Cases(over[rng.randint(0, 1)], starts, tuple(rng.sample(NUMBERS, 3)))
    monoids = Monoids(ops.algebra, ops.numbers)
    made = monoids.total("sum", "i32", RING, [wide, narrow, (0, 5)])
    for where in everywhere(over):
        terms = [at(one, where)[1] for one in (wide, narrow)]
        assert at(made, where) == (0, sum(terms) + 5)


def test_a_choice_looks_at_no_more_than_decides() -> None:
    """Of a window of many rows, one; an update at one place of many."""
    ops = new_ops()
    first, second, third = unknowns(ops.algebra)
    inner = tuple(Cases(third, (0, 1, 2), tuple(NUMBERS[:3])) for _ in range(4))
    wide = Cases(
        second,
        (0, 1, 2, 3),
        tuple(Cases(third, (0, n + 1), tuple(NUMBERS[n : n + 2])) for n in range(3))
        + inner[:1],
    )
    which = Cases(first, (0, 1, 2), ((0, 0), (0, 1), (0, 0)))
    left = ops.algebra.left
    made = ops.select("i32")(which, wide, (0, 0))
    assert made == Cases(first, (0, 1, 2), ((0, 0), wide, (0, 0)))
    assert left - ops.algebra.left == len(which.starts)


ENDS = {"max": ("i8", 127), "min": ("i8", -128), "and": ("i8", 0), "or": ("i8", -1)}


@pytest.mark.parametrize("monoid", ENDS)
def test_an_integer_that_settles_a_reduction(monoid: str) -> None:
    ops = new_ops()
    (dtype, end), total = ENDS[monoid], ops.monoids.total
    ring = ring_of(dtype)
    assert isinstance(ring, Integers)
    x = ring.unknown(ops.algebra.point, "x")
    table = Cases(unknowns(ops.algebra)[0], (0, 1), (x, (0, 3)))
    last = ring.number(end)
    assert total(monoid, dtype, ring, [x, last]) == last
    assert total(monoid, dtype, ring, [x, last, table]) == last
    near = ring.number(end ^ 1)
    assert total(monoid, dtype, ring, [x, near]) not in (near, last)
    assert total(monoid, dtype, ring, [x, near, table]) not in (near, last)


@pytest.mark.parametrize(("monoid", "dtype"), [("min", "i8"), ("max", "ui8")])
def test_the_end_of_another_type_does_not_settle_it(monoid: str, dtype: str) -> None:
    ops, ring = new_ops(), ring_of(dtype)
    x = ring.unknown(ops.algebra.point, "x")
    assert ops.monoids.total(monoid, dtype, ring, [x, (0, 0)]) != (0, 0)


@pytest.mark.parametrize(("monoid", "end"), [("max", "inf"), ("min", "-inf")])
def test_an_infinity_settles_nothing(monoid: str, end: str) -> None:
    """The other one may be nan."""
    ops, ring = new_ops(), ring_of("f32")
    x = ring.unknown(ops.algebra.point, "x")
    far = ops.numbers.special[end]
    assert ops.monoids.total(monoid, "f32", ring, [x, far]) != far


@pytest.mark.parametrize(("monoid", "nothing"), [("or", (0, 0)), ("and", (0, 1))])
def test_a_truth_beside_what_changes_nothing(monoid: str, nothing: Any) -> None:
    """However many integers it depends on."""
    ops, ring = new_ops(), Truths()
    truth: Any = (0, 1)
    for number in range(12):
        truth = Cases(ops.algebra.truth("t", number).unknown, (0, 1), ((0, 0), truth))
    other = ops.algebra.truth("other")
    total = ops.monoids.total
    assert total(monoid, "i1", ring, [nothing, truth, nothing]) == truth
    assert total(monoid, "i1", ring, [nothing, nothing]) == nothing
    assert total(monoid, "i1", ring, [nothing, truth, other]) not in (truth, other)


def test_truths_that_are_looked_up_in_tiles() -> None:
    """Each device finds one, or nothing; there are many that may be found."""
    ops, ring = new_ops(), Truths()
    index = (ops.algebra.point.unknown("index"), 32)
    found = [ops.algebra.truth("found", number) for number in range(12)]
    whole = ops.algebra.cases(index, range(12), found, ring)

    def tile(start: int, end: int, first: int = 0) -> Any:
        held = [
            found[(n + first) % 12] if start <= n < end else (0, 0) for n in range(12)
        ]
        return ops.algebra.cases(index, range(12), held, ring)

    def joined(*tiles: Any) -> Any:
        return ops.monoids.total("or", "i1", ring, tiles)

    assert joined(tile(0, 6), tile(6, 12)) == whole
    assert joined(tile(6, 12), tile(0, 6), tile(2, 4)) == whole
    assert joined(tile(0, 5), tile(6, 12)) != whole
    assert joined(tile(0, 6), tile(6, 12, 1)) != whole
    assert joined(tile(0, 7), tile(6, 12, 1)) != whole


def test_what_is_not_chosen_is_not_looked_into() -> None:
    """Of rows by one integer, those that another one chooses."""
    ops = new_ops()
    row, place, *_ = unknowns(ops.algebra)
    for one in (row, place):
        ops.algebra.order(one)
    truths = [ops.algebra.truth("argument", number) for number in range(8)]
    for truth in truths:
        ops.algebra.order(truth.unknown)
    both = [ops.monoids.total("and", "i1", Truths(), truths[n : n + 4]) for n in (0, 4)]
    x = ops.algebra.cases(row, (0, 1), both, Truths())
    which = ops.algebra.cases(place, (0, 2), (TRUE, FALSE), Truths())
    left = ops.algebra.left
    made = ops.select("i1")(which, x, FALSE)
    assert left - ops.algebra.left < 10
    for number, held in enumerate(both):
        want = ops.algebra.cases(place, (0, 2), (held, FALSE), Truths())
        assert made.at(number) == want
    assert made.at(0) != made.at(1)


@pytest.mark.parametrize("seed", range(80))
def test_sums_of_tables_that_are_mostly_zero(seed: int) -> None:
    """At all integers for which a table says a number, it is that of the sum."""
    rng, ops = random.Random(seed), new_ops()
    over = unknowns(ops.algebra)
    for one in rng.sample(over, 3):
        ops.algebra.order(one)
    over.sort(key=ops.algebra.order)
    last = over[-1]
    tiles = rng.sample(range(1 << BITS), 3)
    members = []
    for tile in tiles:
        value = drawn(ops.algebra, rng, over[:2], NUMBERS)
        hits = [TRUE if n == tile else FALSE for n in range(1 << BITS)]
        hit = ops.algebra.cases(last, range(1 << BITS), hits, Truths())
        members.append(ops.select("i32")(hit, value, (0, 0)))
    made = ops.monoids.total("sum", "i32", RING, members)
    for where in everywhere(over):
        known = [at(member, where) for member in members]
        found = at(made, where)
        if not found[0]:
            assert found == (0, sum(number for _, number in known))
    wrong = ops.monoids.total("sum", "i32", RING, [*members[:2], members[0]])
    if members[0] != members[2]:
        assert ops.algebra.flat(wrong, RING) != ops.algebra.flat(made, RING)


def test_telling_truths_apart_is_work() -> None:
    """All that is made anew is counted, in each case of what tells them apart."""
    algebra = new_ops().algebra
    first, second, _ = unknowns(algebra)
    for one in (first, second):
        algebra.order(one)
    below = Cases(second, (0, 1), (FALSE, TRUE))
    members = [Cases(first, (0, 1), both) for both in ((FALSE, below), (below, FALSE))]
    left = algebra.left
    assert TruthMonoids(algebra)._apart("or", members) == below
    assert left - algebra.left >= 2 * sum(member.size for member in members)
