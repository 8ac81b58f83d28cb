"""Ops computed whole because tiling stopped before them: which, how much, and why."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir import ManualPartition


def shape(*sizes: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def tiled(axis: str, **inputs: Any) -> ManualPartition:
    return ManualPartition(inputs, axis=axis, name="tiles")


def whole(fn: Any, size: int, args: Any, **inputs: Any) -> partir.Partitioned:
    """Partitioned over one axis; strict must refuse it."""
    schedule, mesh = [tiled("A", **inputs)], {"A": size}
    with pytest.raises(
        partir.PartitionError, match=r'strict: .* whole on "A"'
    ) as error:
        partir.partition(fn, mesh, schedule, args=args, strict=True)
    p = partir.partition(fn, mesh, schedule, args=args)
    assert p.replicated_ops[0].reason.partition("; ")[0] in str(error.value)
    return p


def places(p: partir.Partitioned) -> set[str]:
    return {
        op.stopped_at.rpartition("/")[0].rpartition("/")[2] for op in p.replicated_ops
    }


def reason(p: partir.Partitioned) -> str:
    (found,) = {op.reason for op in p.replicated_ops}
    return found


def share(p: partir.Partitioned) -> float:
    return sum(op.share for op in p.replicated_ops)


# What the program does


def accumulated(w: Any, x: Any) -> Any:
    """Gradients of microbatches ``x[step, batch, d]``, added up in a loop."""

    def body(total: Any, batch: Any) -> Any:
        return total + jax.grad(lambda w: jnp.sum(jnp.tanh(batch @ w)))(w), None

    return w - 0.1 * jax.lax.scan(body, jnp.zeros_like(w), x)[0]


LAYER = {
    **dict.fromkeys("qkv", shape(32, 4, 8)),
    **{"o": shape(4, 8, 32), "up": shape(32, 128), "down": shape(128, 32)},
}
PARAMS = {"table": shape(64, 32), "layers": [LAYER] * 8}


def language_model(params: Any, tokens: Any, cut: bool = False) -> Any:
    """Eight layers; after the fifth, all is transformed, or the last one cut off."""
    h = params["table"][tokens]
    for number, layer in enumerate(params["layers"]):
        q, k, v = (jnp.einsum("bsd,dhk->bshk", h, layer[name]) for name in "qkv")
        weights = jax.nn.softmax(jnp.einsum("bshk,bthk->bhst", q, k))
        mixed = jnp.einsum("bhst,bthk->bshk", weights, v)
        h += jnp.einsum("bshk,hkd->bsd", mixed, layer["o"])
        h += jax.nn.relu(h @ layer["up"]) @ layer["down"]
        if number == 4:
            h = h[:, :-1] if cut else jnp.fft.fftn(h).real
    return h @ params["table"].T


def test_a_loop_that_steps_through_what_is_tiled() -> None:
    p = whole(accumulated, 4, (shape(64, 64), shape(8, 128, 64)), x=0)
    assert p.work == pytest.approx(4, rel=0.01)
    assert places(p) == {"dynamic_slice"}
    assert share(p) == pytest.approx(1, rel=0.01)
    assert reason(p) == (
        'a loop steps through dimension 0 of x (tiled by "tiles") one slice at a time, '
        "and every device computes all of them; tile dimension 1 or 2 instead"
    )
    kinds = [op.kind for op in p.replicated_ops]
    assert kinds.count("stablehlo.dot_general") == 2
    assert not p.steps[-1].conflicts


def test_the_right_dimension_of_it() -> None:
    args, schedule = (shape(64, 64), shape(8, 128, 64)), [tiled("A", x=1)]
    p = partir.partition(accumulated, {"A": 4}, schedule, args=args, strict=True)
    assert p.replicated_ops == ()


def test_nothing_is_whole_behind_a_slice() -> None:
    args = PARAMS, shape(2, 64, dtype="int32")
    schedule, cut = [tiled("A", tokens=1)], partial(language_model, cut=True)
    p = partir.partition(cut, {"A": 8}, schedule, args=args, strict=True)
    assert p.work < 1.1
    assert p.replicated_ops == ()


def test_all_that_follows_an_fft() -> None:
    args = PARAMS, shape(2, 64, dtype="int32")
    p = whole(language_model, 8, args, tokens=1)
    assert p.work == pytest.approx(3.5, rel=0.15)
    assert places(p) == {"fft"}
    products = [op for op in p.replicated_ops if op.kind == "stablehlo.dot_general"]
    assert len(products) == 3 * 8 + 1
    assert {op.work for op in products} == {8.0}
    assert "no loop along the dimension that is tiled" in reason(p)
    assert p.replicated_ops[0].stopped_here
    assert p.replicated_ops[0].kind == "stablehlo.fft"
    assert products[0].stopped_source.file == __file__


NO_RULE = """
module {
  func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.exponential %x : tensor<64x64xf32>
    %1 = stablehlo.custom_call @unheard_of(%0)
      : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = stablehlo.tanh %2 : tensor<64x64xf32>
    return %3 : tensor<64x64xf32>
  }
}"""


def test_an_op_without_a_rule() -> None:
    p = whole(partir.load(NO_RULE), 4, (), arg0=0)
    kinds = [op.kind.removeprefix("stablehlo.") for op in p.replicated_ops]
    assert kinds == ["custom_call", "dot_general", "tanh"]
    assert {op.stopped_at for op in p.replicated_ops} == {"%main/custom_call/0"}
    assert reason(p) == 'it has no rule; partir.rule("unheard_of", "…") gives it one'
    assert str(p.replicated_ops[1]) == (
        '%main/dot_general/0 (line 7) is whole on "A" behind %main/custom_call/0 '
        f"(line 5): {reason(p)}"
    )
    assert p.work == pytest.approx(4, rel=0.01)


def test_nothing_is_whole_behind_a_conflict() -> None:
    def fn(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w)

    schedule, args = [tiled("A", x=0, w=1)], (shape(8, 8), shape(8, 8))
    p = partir.partition(fn, {"A": 4}, schedule, args=args, strict=True)
    (conflict,) = p.steps[-1].conflicts
    assert conflict.evidence == (("x", 0, 0), ("w", 1, 0))
    assert p.work == 1.0
    assert p.out_specs == jax.sharding.PartitionSpec("A")  # follows x


def test_a_value_that_meets_itself() -> None:
    schedule, args = [tiled("A", x=0)], (shape(8, 8),)
    p = partir.partition(
        lambda x: jnp.einsum("ik,jk->ij", x, x), {"A": 4}, schedule, args=args
    )
    assert len(p.steps[-1].conflicts) == 1
    assert p.replicated_ops == ()
    assert p.collectives["all_gather"] == 1


def test_a_size_that_does_not_divide() -> None:
    def fn(x: Any) -> Any:
        return jnp.tanh(x.reshape(3, 4)).sum(1)

    p = whole(fn, 4, (shape(12),), x=0)
    assert places(p) == {"reshape"}
    assert reason(p) == (
        'its loop along dimension 0 of x (tiled by "tiles") has 3 iterations, which '
        '"A" of size 4 does not divide; a multiple of 4 would do'
    )


def test_microbatches_that_are_too_small() -> None:
    def fn(x: Any, w: Any) -> Any:
        batches = x.reshape(4, 2, 8)
        return jax.lax.scan(lambda c, b: (c + jnp.sum(b @ w), None), 0.0, batches)[0]

    p = whole(fn, 4, (shape(8, 8), shape(8, 8)), x=0)
    assert places(p) == {"reshape"}
    assert "a loop steps through dimension 0 of its result, f32[4,2,8]" in reason(p)
    assert "2, does not divide" in reason(p)


def test_one_slice_of_what_is_tiled() -> None:
    def fn(x: Any, w: Any) -> Any:
        return jnp.tanh(x[2] @ w)

    p = whole(fn, 4, (shape(4, 8, 8), shape(8, 8)), x=0)
    assert places(p) == {"slice"}
    assert "it takes one slice of dimension 0 of x" in reason(p)
    assert "tile dimension 1 or 2 instead" in reason(p)


def test_what_a_loop_carries() -> None:
    def fn(x: Any, y: Any, w: Any) -> Any:
        def body(_: Any, carry: Any) -> Any:
            c, total = carry
            return y, total + jnp.sum(c @ w)

        return jax.lax.fori_loop(0, 3, body, (x, 0.0))

    p = whole(fn, 4, (shape(8, 8),) * 3, x=0, y=1)
    assert places(p) == {"while"}
    asked = '"tiles" tiles dimension 0 of x and dimension 1 of y'
    assert reason(p).startswith(f"its operands disagree: {asked}")
    assert reason(p).endswith("tile them alike")


# What is not listed


def test_details_are_not_listed() -> None:
    """The sort is, as it could not be tiled; not the little that follows it."""

    def fn(x: Any, w: Any) -> Any:
        return x @ w, jnp.exp(jnp.sort(x[:, 0]))

    args = shape(64, 256), shape(256, 256)
    p = partir.partition(fn, {"A": 4}, [tiled("A", x=0)], args=args)
    (found,) = p.replicated_ops
    assert found.kind == "stablehlo.sort"
    args = shape(64, 4), shape(4, 4)
    p = partir.partition(fn, {"A": 4}, [tiled("A", x=0)], args=args)
    kinds = [op.kind.removeprefix("stablehlo.") for op in p.replicated_ops]
    assert kinds == ["sort", "exponential"]


class KeptWhole:
    """Tiles x, and gathers what has a name where it is used."""

    name = "kept whole"

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def apply(self, partition: partir.Partition) -> None:
        partition.tile("x", 0, "A")
        partition.atomic(self.pattern, "A", at="uses")


@pytest.mark.parametrize("pattern", ["tagged", "%*/fft/0"])
def test_what_was_asked_for(pattern: str) -> None:
    """A value gathered by request, or the result of an op behind a stop."""

    def fn(x: Any, w: Any) -> Any:
        return jnp.tanh(jnp.fft.fft2(partir.tag(x, "tagged")).real @ w)

    args = shape(8, 8), shape(8, 8)
    p = partir.partition(fn, {"A": 4}, [KeptWhole(pattern)], args=args)
    assert p.work == 4.0
    kinds = {op.kind for op in p.replicated_ops}
    assert kinds == (set() if pattern == "tagged" else {"stablehlo.fft"})


def test_what_a_value_kept_whole_asks_for() -> None:
    """Replicated parameters want whole updates."""

    def step(w: Any, m: Any, x: Any) -> Any:
        grads = jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w)))(w)
        m = 0.9 * m + grads
        return w - 0.1 * m, m

    zero2 = ManualPartition(
        {"w": partir.REPLICATED, "m": partir.FIRST_DIVISIBLE_DIM}, axis="A", name="Z2"
    )
    args = shape(8, 8), shape(8, 8), shape(4, 8)
    p = partir.partition(
        step,
        {"A": 4},
        [tiled("A", x=0), zero2],
        args=args,
        donate_argnums=(0, 1),
        strict=True,
    )
    assert p.collectives["all_gather"] == 1
    assert p.work > 1.1


def test_what_nobody_tiled() -> None:
    """The second product reads the first one's sum, which is whole by nature."""

    def fn(x: Any, w: Any, v: Any) -> Any:
        return jnp.tanh(x @ w) @ v

    args = shape(8, 8), shape(8, 8), shape(8, 8)
    p = partir.partition(fn, {"A": 4}, [tiled("A", x=1)], args=args, strict=True)
    assert p.replicated_ops == ()
    assert p.work > 1.4
