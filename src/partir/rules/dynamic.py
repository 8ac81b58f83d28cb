"""Ops that take a shape as an operand. As all shapes are known, it says nothing new.

Those that take more than a shape (dynamic_pad, dynamic_gather, dynamic_conv,
real_dynamic_slice) have no rule: with constants they are read as the static op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from partir.ir.attributes import integer
from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import Emitter, Ssa, constant
from partir.rules.nest import Nest
from partir.rules.registry import factors_of, local_form, rule

_KEPT = ("broadcast_dimensions", "iota_dimension")


@rule("dynamic_reshape", "dynamic_broadcast_in_dim", "dynamic_iota")
def as_static(op: Signature) -> Iterator[Factor]:
    """``(i), (_) -> (i)``: as the static op, the shape being whole."""
    attrs = {name: op.attrs[name] for name in _KEPT if name in op.attrs}
    kind = _static(op)
    for factor in factors_of(Signature.of(kind, attrs, op.operands[:-1], op.results)):
        yield replace(factor, operands=(*factor.operands, None))


def _static(op: Signature) -> str:
    return op.kind.replace("dynamic_", "")


@local_form("dynamic_reshape", "dynamic_broadcast_in_dim")
def static_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """The static op: the tile's shape is none that the program computes."""
    attrs = {name: nest.attrs[name] for name in _KEPT if name in nest.attrs}
    kind = _static(nest.signature)
    return emitter.op(kind, operands[:-1], nest.result_types, attrs)


@rule("get_dimension_size")
def get_dimension_size(op: Signature) -> Iterator[Factor]:
    """``(i) -> ()``: any dimension; the size is that of the whole."""
    for dim, size in enumerate(op.operands[0].shape):
        yield Factor(size, (dim,), (None,))


@local_form("get_dimension_size")
def get_dimension_size_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """A constant."""
    dim = integer(nest.signature.attrs["dimension"])
    size = nest.signature.operands[0].shape[dim]
    return (constant(emitter, nest.result_types[0], str(size)),)
