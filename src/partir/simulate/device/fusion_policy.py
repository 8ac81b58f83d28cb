"""`FusionPolicy`: how a device's compiler makes kernels of ops.

What an op does to memory is a trait (`rules/traits.py`). What a compiler makes of that
differs between back ends and is here: data, part of a device's spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from partir.errors import PartitionError, nearest
from partir.rules.elementwise import FUSED
from partir.rules.fused import inside_of
from partir.rules.nest import Nest, nest_of
from partir.rules.op_names import canonical
from partir.rules.traits import Role, is_narrow, role_of

Roles = frozenset[Role]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionPolicy:
    """What fuses, what is computed again, how wide a kernel may grow.

    Args:
        name: what specs in files call it.
        fused: roles of ops that are computed inside the kernels that read them. (A view
            is always part of its readers; opaque ops and updates never are.)
        recomputed: roles of ops that several kernels compute, each for itself; others
            are computed once and stored.
        most_kernels: what more kernels than this would compute is computed once.
        most_operands: an op stays outside a kernel that would then read more values
            than this; 0 for no limit.
        shared_with_reductions: whether a reduction takes in what other kernels compute
            as well.
        repeats_in_reductions: whether a reduction repeats (broadcasts) what other
            kernels repeat as well.
        into_products: whether products compute what is elementwise in their operands.
        keeps_sources: whether a recomputed op that several kernels want is computed
            in each of them if what it is made of is in memory as long, or
            narrower and kept instead; stored if not.
        prefers_sources: whether it is computed in each of them, too, if all that it is
            made of is one value that would have to be kept instead and is no larger.
        narrow_products: whether what only products read is stored as bfloat16; what
            they read of it in loops, whole or in parts, is rounded before the loops.
        in_place: whether parts of larger values are read and written where they lie by
            the kernels that use or make them, and nobody fills what is written over:
            then a kernel that only cuts out, puts in or fills costs nothing.
        into_stacks: whether what is computed only to be put into a stack that a loop
            carries is made there, products too.
        wide_products: whether products of 16-bit floats read and make float32.
        rounds_once: whether what is rounded to a 16-bit float is computed once.
        writes_views: whether a reshape that is wanted in memory is written with the
            arithmetic before it, so that this is computed once for each shape.
        scatters_into_sums: whether what is scattered into zeros and then added to
            something is scattered into that.
        computes_again: whether a cheap op of one operand that some reader wants in
            memory is computed again in elementwise readers.
        merges_equal: whether what is computed twice from the same is computed once.
        unrolled_trips: a loop of no more iterations than this with nothing in it but
            what fuses is one kernel. (Random bits are such a loop where a function is
            traced for CPUs; for accelerators JAX writes them without one.)
        roles: op kinds to which this compiler gives another role than their own.
        narrow_roles: the same where the result is of 16-bit floats.

    Example:
        >>> careful = FusionPolicy(name="careful", most_kernels=1)
        >>> careful.as_data()["most_kernels"]
        1
    """

    name: str = ""
    fused: Roles = frozenset((Role.CHEAP, Role.COSTLY))
    recomputed: Roles = frozenset((Role.CHEAP,))
    most_kernels: int = 8
    most_operands: int = 0
    shared_with_reductions: bool = False
    repeats_in_reductions: bool = True
    into_products: bool = False
    keeps_sources: bool = False
    prefers_sources: bool = False
    narrow_products: bool = False
    in_place: bool = False
    into_stacks: bool = False
    wide_products: bool = False
    rounds_once: bool = False
    writes_views: bool = False
    computes_again: bool = False
    merges_equal: bool = False
    scatters_into_sums: bool = False
    unrolled_trips: int = 0
    roles: tuple[tuple[str, Role], ...] = ()
    narrow_roles: tuple[tuple[str, Role], ...] = ()
    key: str = field(init=False, repr=False, compare=False)
    """What caches key on: equal for policies that do the same."""

    def __post_init__(self) -> None:
        """Check the figures, and find the key."""
        for name in ("most_kernels", "most_operands", "unrolled_trips"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise PartitionError(
                    f'fusion policy "{self.name}": {name} must be a whole number of at '
                    f"least 0, got {value!r}"
                )
        own = (sorted(self.fused), sorted(self.recomputed), self.most_kernels)
        roles = sorted(self.roles), sorted(self.narrow_roles)
        more = (self.most_operands, self.shared_with_reductions, roles)
        shared = self.repeats_in_reductions, self.scatters_into_sums, self.merges_equal
        memory = (self.into_products, self.keeps_sources, self.narrow_products)
        written = (self.wide_products, self.rounds_once, self.writes_views)
        last = (self.unrolled_trips, self.in_place, self.computes_again)
        stacks = self.into_stacks, self.prefers_sources
        key = f"fusion {own} {more} {memory} {shared} {written} {last} {stacks}"
        object.__setattr__(self, "key", key)

    def role_of(self, nest: Nest) -> Role:
        """Role that this compiler gives to an op."""
        if not self.roles and not self.narrow_roles:
            return role_of(nest)
        if nest.signature.kind == FUSED:
            inner = inside_of(nest.signature)
            return max(self.role_of(nest_of(op.signature)) for op in inner)
        given = dict(self.roles).get(kind := canonical(nest.signature))
        if self.narrow_roles and is_narrow(nest.result_types[0]):
            given = dict(self.narrow_roles).get(kind, given)
        return role_of(nest) if given is None else given

    def as_data(self) -> str | dict[str, Any]:
        """Its name if it is built in, else all that it says; for files."""
        if POLICIES.get(self.name) == self:
            return self.name
        data = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        for name in ("fused", "recomputed"):
            data[name] = [role.name.lower() for role in sorted(data[name])]
        for name in ("roles", "narrow_roles"):
            data[name] = {kind: role.name.lower() for kind, role in data[name]}
        return data


# Figures are those that XLA's CPU compiler was seen to follow.
XLA = FusionPolicy(name="xla")
XLA_CPU = FusionPolicy(
    name="xla_cpu",
    repeats_in_reductions=False,
    wide_products=True,
    rounds_once=True,
    writes_views=True,
    scatters_into_sums=True,
    computes_again=True,
    merges_equal=True,
    roles=(("stablehlo.gather", Role.COSTLY),),
)
# Which functions are computed again was seen in programs of one function each, compiled
# for H100: h * h is multiplied by a matrix, and h + 1 by the result.
_AGAIN_ON_GPUS = (
    "stablehlo.cbrt stablehlo.divide stablehlo.exponential "
    "stablehlo.exponential_minus_one stablehlo.log stablehlo.logistic "
    "stablehlo.remainder stablehlo.rsqrt stablehlo.sqrt stablehlo.tanh chlo.erf"
).split()
_KEPT_NARROW_ON_GPUS = ("stablehlo.cbrt", "stablehlo.tanh")
XLA_GPU = FusionPolicy(
    name="xla_gpu",
    in_place=True,
    keeps_sources=True,
    prefers_sources=True,
    scatters_into_sums=True,
    unrolled_trips=8,
    roles=tuple((kind, Role.CHEAP) for kind in _AGAIN_ON_GPUS),
    narrow_roles=tuple((kind, Role.COSTLY) for kind in _KEPT_NARROW_ON_GPUS),
)
# What the compiler for TPUs keeps: read from its scheduled programs (libtpu 0.0.42.1).
XLA_TPU = FusionPolicy(
    name="xla_tpu",
    recomputed=frozenset((Role.CHEAP, Role.COSTLY)),
    shared_with_reductions=True,
    into_products=True,
    keeps_sources=True,
    narrow_products=True,
    in_place=True,
    into_stacks=True,
    scatters_into_sums=True,
    unrolled_trips=8,
)
POLICIES = {policy.name: policy for policy in (XLA, XLA_CPU, XLA_GPU, XLA_TPU)}


def policy_from_data(data: str | Mapping[str, Any], where: str) -> FusionPolicy:
    """A policy by its name, or from a table; errors name what is not known."""
    if isinstance(data, str):
        return _one_of(POLICIES, data, "fusion policy", where)
    known = {f.name: f for f in fields(FusionPolicy) if f.init}
    values = dict(data)
    for name in values:
        _one_of(known, name, "field of a fusion policy", where)
    for name in ("fused", "recomputed"):
        if name in values:
            values[name] = frozenset(_role(text, where) for text in values[name])
    for name in ("roles", "narrow_roles"):
        if name in values:
            named = values[name].items()
            values[name] = tuple((kind, _role(text, where)) for kind, text in named)
    return FusionPolicy(**values)


def _role(text: str, where: str) -> Role:
    return _one_of({role.name.lower(): role for role in Role}, text, "role", where)


def _one_of(known: Mapping[str, T], name: str, what: str, where: str) -> T:
    if name not in known:
        raise PartitionError(
            f'{where}: no {what} "{name}"; nearest: {nearest(name, known)}'
        )
    return known[name]
