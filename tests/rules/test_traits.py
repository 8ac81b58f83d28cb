"""Traits of op kinds: no kind with a rule is opaque by oversight."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.rules.elementwise import POINTWISE
from partir.rules.nest import Nest, nest_of
from partir.rules.registry import kinds
from partir.rules.traits import (
    _ROLES,
    Role,
    changes_form,
    is_light,
    repeats,
    role_of,
    window_bytes,
)

pytestmark = pytest.mark.quick


X = jax.ShapeDtypeStruct((4, 8, 2), "float32")


def nests(fn: object) -> dict[str, Nest]:
    program = partir.trace(fn, X)  # type: ignore[arg-type]
    return {op.signature.name: nest_of(op.signature) for op in program.ops}


def test_elementwise_ops_are_cheap_or_costly() -> None:
    missing = [k for k in POINTWISE if _ROLES.get(k) not in (Role.CHEAP, Role.COSTLY)]
    assert missing == ["chlo._asin_acos_kernel"]  # a helper of acos


def test_no_role_is_given_to_a_kind_that_nobody_knows() -> None:
    known = {*kinds(), "stablehlo.partition_id"}
    assert not [kind for kind in _ROLES if kind not in known]


@pytest.mark.parametrize(
    ("name", "role", "form", "repeated"),
    [
        ("add", Role.CHEAP, False, False),
        ("exponential", Role.COSTLY, False, False),
        ("convert", Role.CHEAP, True, False),
        ("broadcast_in_dim", Role.CHEAP, True, True),
        ("reshape", Role.VIEW, True, False),
        ("transpose", Role.CHEAP, True, False),
        ("reduce", Role.ROOT, False, False),
        ("sort", Role.OPAQUE, False, False),
    ],
)
def test_traits(name: str, role: Role, form: bool, repeated: bool) -> None:
    def everything(x: jax.Array) -> object:
        y = jnp.exp(x + x).astype("bfloat16")
        sums = jnp.sum(y, 0)
        wide = jax.lax.broadcast_in_dim(sums, (3, 8, 2), (1, 2))
        return x.reshape(32, 2), x.transpose(2, 1, 0), wide, jnp.sort(x, 0)

    nest = nests(everything)[name]
    assert role_of(nest) is role
    assert changes_form(nest) is form
    assert repeats(nest) is repeated
    assert is_light(nest) is (role in (Role.CHEAP, Role.COSTLY, Role.VIEW))


def test_a_transposed_matrix_is_a_view() -> None:
    nest = nests(lambda x: x[0].T)["transpose"]
    assert role_of(nest) is Role.VIEW


def test_slices_touch_their_window_only() -> None:
    nest = nests(lambda x: x[:, :2])["slice"]
    assert window_bytes(nest) == 4 * 2 * 2 * 4
    assert window_bytes(nests(jnp.negative)["negate"]) is None
