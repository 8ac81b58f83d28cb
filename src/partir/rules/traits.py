"""Traits of op kinds: what they do to memory, and what they leave as it was.

A trait is a fact about the op, the same for every device. What a compiler makes of it
(what it fuses, what it computes again) is the device's `FusionPolicy`.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

from partir.ir.attributes import CONSTRAINT, ROLL
from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.rules.elementwise import FUSED
from partir.rules.fused import inside_of
from partir.rules.nest import Nest, nest_of
from partir.rules.op_names import canonical


class Role(IntEnum):
    """What an op does to memory; the higher ones decide where several are one op."""

    OPAQUE = 0  # reads and writes memory: a matrix product, a sort, a call
    CHEAP = 1  # little work for each element: better computed again than read
    COSTLY = 2  # enough work for each element that it should be done once
    VIEW = 3  # the same bytes under another shape
    ROOT = 4  # a reduction: can be computed with what it reads, not with its readers
    UPDATE = 5  # writes into its first operand where nobody else needs that


_CHEAP = (
    "abs add and bitcast_convert broadcast_in_dim ceil clamp compare complex "
    "concatenate constant convert count_leading_zeros dynamic_slice floor gather imag "
    "iota is_finite maximum minimum multiply negate not or pad partition_id popcnt "
    "real reduce_precision reverse round_nearest_afz round_nearest_even select "
    "shift_left shift_right_arithmetic shift_right_logical sign slice subtract "
    "transpose xor chlo.conj chlo.is_inf chlo.is_neg_inf chlo.is_pos_inf "
    "chlo.constant_like chlo.mulhi chlo.next_after chlo.square "
    "dynamic_broadcast_in_dim dynamic_iota broadcast torch_index_select"
).split()
_COSTLY = (
    "atan2 cbrt cosine divide exponential exponential_minus_one log log_plus_one "
    "logistic power remainder rsqrt sine sqrt tan tanh chlo.acos chlo.acosh chlo.asin "
    "chlo.asinh chlo.atan chlo.atanh chlo.bessel_i1e chlo.cosh chlo.digamma chlo.erf "
    "chlo.erf_inv chlo.erfc chlo.lgamma chlo.polygamma chlo.sinh chlo.tan chlo.zeta"
).split()
_ROOT = (
    "batch_norm_inference batch_norm_training batch_norm_grad map reduce reduce_window"
).split()
_UPDATE = "dynamic_update_slice scatter".split()


def _table() -> dict[str, Role]:
    views = ("stablehlo.reshape", "stablehlo.dynamic_reshape", CONSTRAINT)
    roles = dict.fromkeys(views, Role.VIEW)
    lists = {
        Role.CHEAP: _CHEAP,
        Role.COSTLY: _COSTLY,
        Role.ROOT: _ROOT,
        Role.UPDATE: _UPDATE,
    }
    roles[ROLL] = Role.CHEAP
    for role, kinds in lists.items():
        for kind in kinds:
            roles[kind if "." in kind else f"stablehlo.{kind}"] = role
    return roles


_ROLES = _table()
_ROLE = "role"


def role_of(nest: Nest) -> Role:
    """Role of an op; kinds without an entry are opaque.

    A transposed matrix is a view: products read it as it lies. Several ops in one are
    as costly as the costliest of them.
    """
    known: Role | None = nest.cache.get(_ROLE)
    if known is None:
        known = nest.cache[_ROLE] = _role_of(nest)
    return known


def _role_of(nest: Nest) -> Role:
    kind = nest.signature.kind
    if kind == FUSED:
        return _costliest(nest.signature)
    if kind == "stablehlo.transpose" and len(nest.result_types[0].shape) <= 2:
        return Role.VIEW
    return _ROLES.get(canonical(nest.signature), Role.OPAQUE)


@lru_cache(maxsize=1 << 12)
def _costliest(fused: Signature) -> Role:
    return max(role_of(nest_of(op.signature)) for op in inside_of(fused))


_REPEATED = {"stablehlo.broadcast_in_dim", "stablehlo.constant", "stablehlo.iota"}


def repeats(nest: Nest) -> bool:
    """Whether the result only repeats something small, so that keeping it is silly."""
    return nest.signature.kind in _REPEATED


_FORMS = {f"stablehlo.{kind}" for kind in ("broadcast_in_dim", "convert", "reshape")}
_FORMS.add("stablehlo.transpose")


def changes_form(nest: Nest) -> bool:
    """Whether the result is the operand in another type, shape or order."""
    return nest.signature.kind in _FORMS


_ORDERS = {f"stablehlo.{kind}" for kind in ("reshape", "reverse", "transpose")}


def changes_order(nest: Nest) -> bool:
    """Whether the result has the operand's elements, in other places."""
    return nest.signature.kind in _ORDERS


_MOVES = frozenset(
    f"stablehlo.{kind}"
    for kind in (
        "bitcast_convert broadcast_in_dim concatenate constant dynamic_slice gather "
        "imag iota pad real reshape reverse slice transpose"
    ).split()
)
_NARROW = frozenset(("bf16", "f16"))


def is_narrow(type_: TensorType) -> bool:
    """Whether it is of 16-bit floats."""
    return type_.tensor and type_.dtype in _NARROW


def rounds(nest: Nest) -> bool:
    """Whether it is arithmetic whose result is rounded to a 16-bit float."""
    return is_narrow(nest.result_types[0]) and nest.signature.kind not in _MOVES


_PARTS = {"stablehlo.dynamic_slice", "stablehlo.slice"}


def takes_part(nest: Nest) -> bool:
    """Whether the result is one part of the operand, as it lies there."""
    return nest.signature.kind in _PARTS


def puts_part(nest: Nest) -> bool:
    """Whether the result is the first operand with one part written over."""
    return nest.signature.kind == "stablehlo.dynamic_update_slice"


PASSED_ON = frozenset({CONSTRAINT})
"""Ops whose result is the operand itself, so that nothing has to be computed."""


def is_light(nest: Nest) -> bool:
    """Whether it does little: elementwise arithmetic, or moving data."""
    return role_of(nest) in (Role.CHEAP, Role.COSTLY, Role.VIEW)


def adds(nest: Nest) -> bool:
    """Whether the result is the sum of its operands."""
    return nest.signature.kind == "stablehlo.add"


_WINDOWS = {
    "stablehlo.dynamic_slice",
    "stablehlo.gather",
    "stablehlo.slice",
}


def window_bytes(nest: Nest) -> float | None:
    """Bytes that an op touches of its first operand, if that is less than all of it."""
    kind = nest.signature.kind
    if kind in _WINDOWS:
        return float(nest.result_types[0].bytes)
    if kind == "stablehlo.dynamic_update_slice":
        return float(nest.operand_types[1].bytes)
    if kind == "stablehlo.scatter":
        return float(nest.operand_types[-1].bytes)
    return None


_JOINING = frozenset(
    f"{'chlo' if kind == 'square' else 'stablehlo'}.{kind}"
    for kind in (
        "abs add divide exponential log maximum minimum multiply negate rsqrt sqrt "
        "square subtract tanh"
    ).split()
)


def joins_reduction(nest: Nest) -> bool:
    """Whether it is arithmetic that a reduction computes as it reads."""
    return nest.signature.kind in _JOINING
