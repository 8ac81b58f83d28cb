"""What each part of a fusion policy changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.rules.traits import Role
from partir.simulate.device.fusion_policy import XLA, FusionPolicy
from partir.simulate.kernels.fusion import Fuser
from partir.simulate.kernels.kernel import Kernel

X = jax.ShapeDtypeStruct((64, 64), "float32")
CHEAP, COSTLY = frozenset((Role.CHEAP,)), frozenset((Role.COSTLY,))


def kernels(fn: Callable[..., Any], policy: FusionPolicy, count: int) -> list[Kernel]:
    done = partir.partition(fn, {"B": 1}, [], args=(X,) * count)
    return Fuser(done.spmd, policy).run().kernels


def test_what_is_cheap_is_computed_again() -> None:
    def two(x: Any) -> Any:
        y = x * x
        return jnp.tanh(y), jnp.sqrt(y)

    assert [k.flops for k in kernels(two, XLA, 1)] == [64 * 64] * 2
    once = kernels(two, replace(XLA, recomputed=frozenset()), 1)
    assert [k.flops for k in once] == [64 * 64, 0, 0]
    assert len(kernels(two, replace(XLA, most_kernels=1), 1)) == 3


def test_what_is_costly_is_computed_once() -> None:
    def two(x: Any) -> Any:
        y = jnp.tanh(x)
        return y + 1, y * 2

    assert len(kernels(two, XLA, 1)) == 3
    again = replace(XLA, recomputed=CHEAP | COSTLY)
    assert [k.transcendentals for k in kernels(two, again, 1)] == [64 * 64] * 2
    # The same by the kind of op instead of its role.
    as_cheap = replace(XLA, roles=(("stablehlo.tanh", Role.CHEAP),))
    assert len(kernels(two, as_cheap, 1)) == 2


def test_products_compute_what_is_elementwise_in_their_operands() -> None:
    def product(x: Any, w: Any) -> Any:
        return jnp.tanh(x) @ w

    assert len(kernels(product, XLA, 2)) == 2
    (only,) = kernels(product, replace(XLA, into_products=True), 2)
    assert len(only.reads) == 2
    assert only.transcendentals == 64 * 64


SOURCES = replace(
    XLA,
    recomputed=frozenset((Role.CHEAP, Role.COSTLY)),
    into_products=True,
    keeps_sources=True,
)


def test_what_is_made_of_what_is_kept_is_not_kept() -> None:
    def perceptron(x: Any, w: Any) -> Any:
        h = x @ w
        return jnp.tanh(h) @ w + jnp.tanh(h).T @ w, h  # h is a result

    assert len(kernels(perceptron, XLA, 2)) > len(kernels(perceptron, SOURCES, 2))
    assert all(k.role is not Role.COSTLY for k in kernels(perceptron, SOURCES, 2))


def test_what_is_read_instead_of_its_source_is_kept() -> None:
    def softmax(x: Any, w: Any) -> Any:
        h = jnp.exp(x @ w)
        return h @ w, h.T @ w

    roles = [kernel.role for kernel in kernels(softmax, SOURCES, 2)]
    assert roles.count(Role.COSTLY) == 1


def test_numbers_are_kept_before_they_are_widened() -> None:
    def softmax(x: Any, w: Any) -> Any:
        h = x.astype("bfloat16") @ w.astype("bfloat16")
        exponentials = jnp.exp(h.astype("float32"))
        return exponentials @ w, exponentials.T @ w

    made = kernels(softmax, SOURCES, 2)
    assert all(kernel.role is not Role.COSTLY for kernel in made)
    assert made[1].reads[0] == made[0].writes[0] == made[2].reads[0]


def test_two_narrow_values_are_not_kept_for_a_wide_one() -> None:
    def gated(x: Any, w: Any) -> Any:
        x, v = x.astype("bfloat16"), w.astype("bfloat16")
        h = (x @ v).astype("float32") * jnp.tanh((x.T @ v).astype("float32"))
        return h @ w, h.T @ w

    roles = [kernel.role for kernel in kernels(gated, SOURCES, 2)]
    assert roles.count(Role.CHEAP) == 1


def test_short_loops_of_what_fuses_are_one_kernel() -> None:
    def dropped(x: Any) -> Any:
        return jnp.where(jax.random.bernoulli(jax.random.key(0), 0.5, x.shape), x, 0)

    rolled = kernels(dropped, XLA, 1)
    assert any(kernel.inner for kernel in rolled)  # threefry, as it is for CPUs
    unrolled = kernels(dropped, replace(XLA, unrolled_trips=8), 1)
    assert not any(kernel.inner for kernel in unrolled)
    assert sum(k.flops for k in unrolled) > 64 * 64 * 20


def test_loops_with_products_stay_loops() -> None:
    def loop(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, y: y @ x, x)

    (made,) = [k for k in kernels(loop, replace(XLA, unrolled_trips=8), 1) if k.inner]
    assert made.inner


def test_what_does_not_fuse_has_a_kernel_of_its_own() -> None:
    def chain(x: Any) -> Any:
        return jnp.tanh(x + 1) * 2

    assert len(kernels(chain, XLA, 1)) == 1
    assert len(kernels(chain, replace(XLA, fused=CHEAP), 1)) == 2
    assert len(kernels(chain, replace(XLA, fused=frozenset()), 1)) > 2


def test_reductions_take_in_what_others_compute_too() -> None:
    def two(x: Any) -> Any:
        y = x * x
        return y.sum(), jnp.tanh(y)

    assert len(kernels(two, XLA, 1)) == 3
    assert len(kernels(two, replace(XLA, shared_with_reductions=True), 1)) == 2


@pytest.mark.parametrize("most", [2, 3, 4])
def test_kernels_grow_no_wider_than_allowed(most: int) -> None:
    def total(*xs: Any) -> Any:
        found = xs[0]
        for x in xs[1:]:
            found = found + x
        return found

    (one,) = kernels(total, XLA, 8)
    assert len(one.reads) == 8
    limited = kernels(total, replace(XLA, most_operands=most), 8)
    assert max(len(k.reads) for k in limited) == most
    assert sum(k.flops for k in limited) == one.flops


def test_what_one_policy_learnt_is_not_used_by_another() -> None:
    done = partir.partition(lambda x: jnp.tanh(x) + 1, {"B": 1}, [], args=(X,))
    opaque = replace(XLA, roles=(("stablehlo.tanh", Role.OPAQUE),))
    counts = [len(Fuser(done.spmd, p).run().kernels) for p in (XLA, opaque, XLA)]
    assert counts == [1, 2, 1]
    spec = replace(partir.devices["tpu_v5e"], fusion=opaque)
    assert done.estimate_on(spec).seconds > done.estimate_on("tpu_v5e").seconds


def test_parts_are_read_and_written_where_they_lie() -> None:
    def stacked(x: Any, y: Any) -> Any:
        part = jax.lax.dynamic_slice(x, (8, 0), (8, 64))
        made = part @ y
        return jax.lax.dynamic_update_slice(x, made, (8, 0)), jnp.zeros((64, 64))

    def large(policy: FusionPolicy) -> list[bool]:
        """Whether each kernel that moves more than indices is a product."""
        found = kernels(stacked, policy, 2)
        return [k.matmul is not None for k in found if k.moved_bytes > 64]

    assert sorted(large(XLA)) == [False, False, False, True]
    assert large(replace(XLA, in_place=True)) == [True]


def test_what_is_computed_on_the_way_is_not_free() -> None:
    def stacked(x: Any) -> Any:
        part = jax.lax.dynamic_slice(x, (8, 0), (8, 64))
        return jax.lax.dynamic_update_slice(x, jnp.tanh(part), (8, 0))

    found = kernels(stacked, replace(XLA, in_place=True), 1)
    assert any(k.transcendentals and k.moved_bytes for k in found)
