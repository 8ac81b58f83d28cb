"""shard_maps of a model: whole tensors in, whole tensors out, devices between them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import partir
from partir.api.partitioned import Partitioned

MESH = {"B": 4, "M": 2}
ROUND = [(n, (n + 1) % 4) for n in range(4)]
X = jax.ShapeDtypeStruct((16, 8), "float32")


def mapped(local: Any, ins: Any, outs: Any, **kwargs: Any) -> Any:
    return jax.shard_map(local, in_specs=ins, out_specs=outs, check_vma=False, **kwargs)


def summed(x: Any) -> Any:
    def local(x: Any) -> Any:
        return lax.psum(jnp.sin(x), "M") * (1 + lax.axis_index("B"))

    return mapped(local, P("B", "M"), P("B"))(x)


def partly(x: Any) -> Any:
    def local(x: Any) -> Any:
        return lax.psum(jnp.sin(x), "M")

    return mapped(local, P(None, "M"), P(), axis_names={"M"})(x)


def turned(x: Any) -> Any:
    def local(x: Any) -> Any:
        return x + 10 * lax.axis_index("B") + lax.axis_index("M")

    return mapped(local, P(("M", "B")), P(("M", "B")))(x)


def exchanged(x: Any) -> Any:
    def local(x: Any) -> Any:
        y = jnp.cumsum(lax.all_to_all(x, "B", 1, 0, tiled=True), axis=0)
        return lax.all_to_all(y, "B", 0, 1, tiled=True)

    return mapped(local, P("B"), P("B"))(x)


def scattered(x: Any) -> Any:
    def local(x: Any) -> Any:
        y = jnp.sin(lax.psum_scatter(x, "M", scatter_dimension=1, tiled=True))
        return lax.all_gather(y, "M", axis=1, tiled=True) - lax.pmax(x, "M")

    return mapped(local, P("B", "M"), P("B"))(x)


def stages(x: Any) -> Any:
    """Nothing comes to the first stage: it gets zeros."""

    def local(x: Any) -> Any:
        return jnp.cos(lax.ppermute(x, "B", ROUND[:3])) * x

    return mapped(local, P("B"), P("B"))(x)


def ring(x: Any) -> Any:
    def local(x: Any) -> Any:
        def step(turn: Any, carry: Any) -> Any:
            total, held = carry
            held = lax.ppermute(held, "B", ROUND)
            return 2 * total + held * turn, held

        return lax.fori_loop(0, 3, step, (jnp.zeros_like(x), x))

    return mapped(local, P("B"), (P("B"), P("B")))(x)


def loops(x: Any) -> Any:
    """One inside of the other; a value that differs from the second turn on."""

    def local(x: Any) -> Any:
        def outer(turn: Any, carry: Any) -> Any:
            a, b, total = carry

            def inner(turn: Any, y: Any) -> Any:
                return jnp.sin(y) + lax.ppermute(y, "B", ROUND)

            return b, lax.axis_index("M") + b, lax.fori_loop(0, 2, inner, total) * a

        start = (jnp.int32(1), jnp.int32(2), x)
        return lax.fori_loop(0, 3, outer, start)[2]

    return mapped(local, P(("B", "M")), P(("B", "M")))(x)


def differing(x: Any) -> Any:
    """Said to be equal on all devices, which it is not."""
    return mapped(lambda x: 2 * x, P("B"), P())(x)


def differing_later(x: Any) -> Any:
    def local(x: Any) -> Any:
        def step(turn: Any, carry: Any) -> Any:
            _, b = carry
            return b, b + lax.axis_index("B")

        return lax.fori_loop(0, 3, step, (jnp.int32(1), jnp.int32(2)))[0]

    return mapped(local, P("B"), P())(x)


def left_alone(x: Any) -> Any:
    """Devices leave a loop at turns of their own."""

    def local(x: Any) -> Any:
        times = lax.axis_index("B")
        return lax.while_loop(lambda c: c[0] < times, _more, (0, x))[1]

    return mapped(local, P("B"), P("B"))(x)


def _more(carry: Any) -> Any:
    return carry[0] + 1, jnp.sin(carry[1])


RIGHT: list[Callable[..., Any]] = [
    *(summed, partly, turned, exchanged, scattered, stages, ring, loops)
]


def of(fn: Any) -> Partitioned:
    rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
    return partir.partition(fn, MESH, [rows], args=(X,))


@pytest.mark.parametrize("fn", RIGHT, ids=lambda fn: fn.__name__)
def test_is_proved(fn: Any) -> None:
    assert not of(fn).proof().not_proved


@pytest.mark.parametrize("fn", [differing, differing_later, left_alone])
def test_what_says_nothing_is_not_proved(fn: Any) -> None:
    proof = of(fn).proof()
    assert not proof.proved
    assert "source: " in proof.not_proved[0].reason


class Change(NamedTuple):
    """Something in the text of a device-local module, and what is there instead."""

    fn: Callable[..., Any]
    old: str
    new: str


def groups(numbers: list[list[int]]) -> str:
    return f"replica_groups = dense<{numbers}>"


def pairs(numbers: list[list[int]]) -> str:
    return f"source_target_pairs = dense<{numbers}>"


ROWS, COLUMNS = [[0, 1], [2, 3], [4, 5], [6, 7]], [[0, 2], [1, 3], [4, 6], [5, 7]]
RINGS, TWISTED = [[0, 2, 4, 6], [1, 3, 5, 7]], [[0, 4, 2, 6], [1, 5, 3, 7]]
BACK = [[2, 0], [4, 2], [6, 4], [0, 6], [3, 1], [5, 3], [7, 5], [1, 7]]
CROSSED = [[0, 3], [2, 5], [4, 7], [6, 1], [1, 2], [3, 4], [5, 6], [7, 0]]
FORTH = [[0, 2], [2, 4], [4, 6], [6, 0], [1, 3], [3, 5], [5, 7], [7, 1]]
STAGES = [pair for pair in FORTH if pair[0] < 6]
INNER = 'l1_3 = "stablehlo.constant"() '
WRONG: dict[str, Change] = {
    "over other devices": Change(summed, groups(ROWS), groups(COLUMNS)),
    "another reduction": Change(summed, 'add"(%l0', 'maximum"(%l0'),
    "numbers of other devices": Change(summed, "divide", "multiply"),
    "another device's number": Change(
        summed, "dense<4> : tensor<ui", "dense<2> : tensor<ui"
    ),
    "not summed": Change(partly, 'func.return"(%3)', 'func.return"(%2)'),
    "a tile of others": Change(turned, "pairs_M-B--B-M, ", "pairs_B-M--M-B, "),
    "exchanged in another order": Change(exchanged, groups(RINGS), groups(TWISTED)),
    "scattered over others": Change(scattered, groups(ROWS), groups(COLUMNS)),
    "round about": Change(stages, pairs(STAGES), pairs(FORTH)),
    "the other way round": Change(ring, pairs(FORTH), pairs(BACK)),
    "one turn less": Change(ring, "dense<3> : tensor<i32>", "dense<2> : tensor<i32>"),
    "another start": Change(ring, "%4, %3, %2, %arg0", "%4, %3, %arg0, %arg0"),
    "results swapped": Change(ring, "%5#2, %5#3", "%5#3, %5#2"),
    "the inner loop's turns": Change(
        loops, INNER + "{value = dense<2>", INNER + "{value = dense<3>"
    ),
    "the next turn's value": Change(loops, 'convert"(%l2)', 'convert"(%l3)'),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_differs_is_not_proved(name: str) -> None:
    fn, old, new = WRONG[name]
    record = of(fn)
    text = record.stablehlo()
    assert old in text
    changed = text.replace(old, new)
    if "tensor<6x2xi64>" in text and new == pairs(FORTH):
        changed = changed.replace("tensor<6x2xi64>", "tensor<8x2xi64>")
    assert not record.proof(changed).proved


def test_what_is_equal_on_devices_may_come_from_any_of_them() -> None:
    """The rows that a ring hands on are the same along M."""
    record = of(ring)
    text = record.stablehlo()
    assert pairs(FORTH) in text
    assert not record.proof(text.replace(pairs(FORTH), pairs(CROSSED))).not_proved


def widened_sum(x: Any) -> Any:
    def local(x: Any) -> Any:
        return lax.psum(x.astype(jnp.float32), "M")

    return mapped(local, P("B", "M"), P("B"))(x)


def test_what_is_added_up_wide_is_not_added_up_narrow() -> None:
    """Devices widen a sum in place of adding up what is widened."""
    args = (jax.ShapeDtypeStruct((16, 8), "bfloat16"),)
    p = partir.partition(widened_sum, MESH, [], args=args)
    assert not p.proof().not_proved
    text = p.stablehlo()
    (widens,) = re.findall(r'%\w+ = "stablehlo.convert".*\n', text)
    narrow, wide = re.findall(r"tensor<\w+>", widens)
    after, before = re.findall(r"%\w+", widens)
    rest = text.replace(widens, "").replace(f"({after})", f"({before})", 1)
    adds = rest.index('"stablehlo.all_reduce"')
    ends = rest.index('"func.return"')
    (summed_,) = re.findall(r"(%\w+) = $", rest[:adds])
    sums = rest[adds:ends].replace("f32", "bf16")
    behind = widens.replace(f"({before})", f"({summed_})")
    returned = rest[ends:].replace(f"({summed_})", f"({after})", 1)
    assert (narrow, wide) == ("tensor<4x4xbf16>", "tensor<4x4xf32>")
    assert not p.proof(rest[:adds] + sums + behind + returned).proved
