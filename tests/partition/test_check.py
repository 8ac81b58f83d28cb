"""Every check can fail: a sound state, corrupted in one place."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

import partir
from partir.errors import PartirError
from partir.partition.check import check
from partir.partition.state import Origin, State
from partir.rules.factor import Factor
from partir.rules.nest import UNDECIDED, WHOLE, Loop, Nest, Tiling
from tests.programs import partition, program_of, value_named

AXES = {"B": 4, "M": 2, "C": 3}
X, W, PRODUCT, DOT = 0, 1, 3, 0  # values and an op of the program below


def layers(x: Array, w: Array, stack: Array) -> Array:
    y = x @ w
    return lax.scan(lambda c, w: (jnp.tanh(c @ w), None), y, stack)[0]


@pytest.fixture
def state() -> State:
    """One in which axes B and M tile dimension 0 of x, and w is kept whole on B."""
    shapes = [(16, 12), (12, 12), (2, 12, 12)]
    structs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    program = program_of(layers, *structs)
    made = partition(program, AXES, [("M", {"x": 0}), ("B", {"x": 0})])
    made.pin(value_named(program, "w"), "B", uses_only=False)
    check(made)
    assert made.tilings[PRODUCT] == (("M", "B"), ())
    assert made.nests[DOT].axes == ("M", "B")
    return made


# Loops


def _renest(state: State, *loops: Loop) -> None:
    state.nests[DOT] = Nest(state.graph.signatures[DOT], loops)


def _another_ops_nest(state: State) -> None:
    state.nests[DOT] = state.nests[-1]


def _axis_twice(state: State) -> None:
    outer, inner = state.nests[DOT].loops
    _renest(state, outer, Loop("M", 2, inner.factor.resized(8)))


def _unknown_axis(state: State) -> None:
    outer, _ = state.nests[DOT].loops
    _renest(state, Loop("Z", 2, outer.factor))


def _wrong_trip_count(state: State) -> None:
    outer, _ = state.nests[DOT].loops
    _renest(state, Loop("M", 4, outer.factor))


def _no_such_factor(state: State) -> None:
    _renest(state, Loop("M", 2, Factor(16, (0, 1), (0,))))


def _stale_factor(state: State) -> None:
    """The inner loop as it would be if it stood outermost."""
    outer, inner = state.nests[DOT].loops
    _renest(state, outer, Loop("B", 4, inner.factor.resized(16)))


def _loop_does_not_divide(state: State) -> None:
    outer, inner = state.nests[DOT].loops
    _renest(state, outer, inner, Loop("C", 3, inner.factor.resized(2)))


def _marked_but_no_loop(state: State) -> None:
    state.chosen["C"][DOT] = 1


def _loop_but_not_marked(state: State) -> None:
    state.chosen["B"][DOT] = 0


def _unmarked_tie(state: State) -> None:
    tie = next(n for n in range(len(state.nests)) if state.graph.op(n) is None)
    while not state.chosen["B"][tie]:
        tie += 1
    state.chosen["B"][tie] = 0


def _forged(state: State, **changes: object) -> None:
    """A nest that does not say what follows from its loops; others keep theirs."""
    copy = Nest(state.graph.signatures[DOT], state.nests[DOT].loops)
    copy.__dict__.update(changes)
    state.nests[DOT] = copy


def _wrong_operand_tiling(state: State) -> None:
    swapped: Tiling = (("B", "M"), ())
    _forged(state, needs=(swapped, state.nests[DOT].needs[1]))


def _wrong_result_tiling(state: State) -> None:
    _forged(state, gives=(((), ()),))


def _wrong_local_type(state: State) -> None:
    _forged(state, result_types=state.graph.signatures[DOT].results)


# Values


def _retile(state: State, value: int, *dims: tuple[str, ...]) -> None:
    state.tilings[value] = dims


def _wrong_rank(state: State) -> None:
    _retile(state, X, ("M", "B"))


def _axis_tiles_twice(state: State) -> None:
    _retile(state, X, ("M", "B"), ("M",))


def _tiled_over_unknown_axis(state: State) -> None:
    _retile(state, X, ("M", "B", "Z"), ())


def _tile_does_not_divide(state: State) -> None:
    _retile(state, X, ("M", "B", "C"), ())
    state.homes["C"][X] = state.seen["C"][X] = 0
    state.value_origins["C"][X] = Origin(0, None, 9)


def _axes_out_of_order(state: State) -> None:
    _retile(state, X, ("B", "M"), ())


def _no_stamp(state: State) -> None:
    del state.value_origins["B"][X]


def _pinned_but_tiled(state: State) -> None:
    _retile(state, W, ("B",), ())
    state.value_origins["B"][W] = Origin(0, None, 9)


def _home_but_not_tiled(state: State) -> None:
    _retile(state, X, ("M",), ())


def _home_on_other_dimension(state: State) -> None:
    state.homes["B"][X] = 1


def _tiled_without_home(state: State) -> None:
    state.homes["B"][X] = state.seen["B"][X] = UNDECIDED


def _home_is_no_dimension(state: State) -> None:
    state.homes["C"][X] = state.seen["C"][X] = 2


def _readers_see_another_dimension(state: State) -> None:
    state.seen["B"][X] = 1


def _pin_that_readers_miss(state: State) -> None:
    state.seen["B"][W] = UNDECIDED


def _tiled_where_closed(state: State) -> None:
    state.closed["B", X] = frozenset({0})


def _partly_closed_and_whole(state: State) -> None:
    state.closed["B", W] = frozenset({0})
    state.seen["B"][W] = UNDECIDED


CORRUPTIONS: list[tuple[Callable[[State], None], str]] = [
    (_another_ops_nest, "dot_general.*nest is that of another op"),
    (_axis_twice, 'dot_general.*two loops over axis "M"'),
    (_unknown_axis, 'dot_general.*has no axis "Z"'),
    (_wrong_trip_count, 'dot_general.*loop "M" has size 4, the axis 2'),
    (_no_such_factor, 'loop "M" is along .* does not have inside no other loop'),
    (_stale_factor, r'loop "B" is along .* does not have inside loops \(.M.,\)'),
    (_loop_does_not_divide, 'loop "C" of size 3 does not divide .* size 2 inside'),
    (_marked_but_no_loop, 'dot_general.*marked as looping over "C"'),
    (_loop_but_not_marked, 'dot_general.*loops over "B" but is not marked'),
    (_unmarked_tie, 'tie of .* in %.*/while.*loops over "B" but is not marked'),
    (_wrong_operand_tiling, r"operand 0 is said to be tiled \[{B,M}, {}\]"),
    (_wrong_result_tiling, r"result 0 is said to be tiled \[{}, {}\], its loops"),
    (_wrong_local_type, r"result 0 is f32\[2,12\] inside the loops, not f32\[16,12\]"),
    (_wrong_rank, r"x: its tiling \[{M,B}\] is not of f32\[16,12\]'s rank"),
    (_axis_tiles_twice, 'x: axis "M" tiles it more than once'),
    (_tiled_over_unknown_axis, 'x: the mesh B=4,M=2,C=3 has no axis "Z"'),
    (_tile_does_not_divide, "x: dimension 0 of size 16 does not divide into 24 parts"),
    (_axes_out_of_order, "x: dimension 0 is tiled over .*, not as decided"),
    (_no_stamp, "x: dimension 0 is tiled over .*, unknown since when"),
    (_pinned_but_tiled, 'w: kept whole on axis "B" but tiled'),
    (_home_but_not_tiled, 'x: its home on axis "B" is dimension 0, but its tiling'),
    (_home_on_other_dimension, 'x: its home on axis "B" is dimension 1, but'),
    (_tiled_without_home, 'x: tiled .* with no home on axis "B"'),
    (_home_is_no_dimension, 'x: its home on axis "C" is 2, no dimension'),
    (_readers_see_another_dimension, 'x: home on axis "B" is 0, but readers see 1'),
    (_pin_that_readers_miss, f'w: home on axis "B" is {WHOLE}, but readers see -1'),
    (_tiled_where_closed, 'x: dimension 0 is tiled over axis "B", closed to it'),
    (_partly_closed_and_whole, f'w: home on axis "B" is {WHOLE}, but readers see -1'),
]


def _corruption_name(item: object) -> str | None:
    return item.__name__.strip("_") if callable(item) else ""


@pytest.mark.parametrize(("corrupt", "message"), CORRUPTIONS, ids=_corruption_name)
def test_corruption_is_found(
    corrupt: Callable[[State], None], message: str, state: State
) -> None:
    corrupt(state)
    with pytest.raises(PartirError, match=f"^ill-formed partition: .*{message}"):
        check(state)


def test_place_is_the_source_line(state: State) -> None:
    _loop_but_not_marked(state)
    with pytest.raises(PartirError, match=r"test_check\.py:\d+ \(layers\)"):
        check(state)


def test_undone_state_is_sound(state: State) -> None:
    mark = state.mark()
    state.set_home(PRODUCT, 1, "C", None)
    check(state)
    state.undo(mark)
    check(state)


def test_value_kept_whole_at_its_uses_may_be_tiled(state: State) -> None:
    state.pin(X, "B", uses_only=True)
    check(state)


def test_value_closed_to_an_axis_may_be_sliced_by_readers(state: State) -> None:
    mark = state.mark()
    assert state.close(PRODUCT, "C", frozenset({0, 1}))
    assert not state.close(PRODUCT, "C", frozenset({0}))
    assert not state.set_home(PRODUCT, 1, "C", None)
    assert (state.homes["C"][PRODUCT], state.seen["C"][PRODUCT]) == (WHOLE, UNDECIDED)
    check(state)
    state.undo(mark)
    assert not state.closed
    assert state.close(X, "C", frozenset({0}))
    assert not state.set_home(X, 0, "C", None)
    assert state.set_home(X, 1, "C", None)
    check(state)


class _AroundTheActions:
    """A tactic that writes what only actions may write."""

    def apply(self, made: partir.Partition) -> None:
        made.state.homes["B"][X] = 0


def test_tests_check_after_every_tactic() -> None:
    """`tests/conftest.py` sees to it, wherever a test partitions something."""
    args = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((8, 4), (4, 4))]
    with pytest.raises(PartirError, match=r"^ill-formed partition: a"):
        partir.partition(jnp.matmul, AXES, [_AroundTheActions()], args=args)
