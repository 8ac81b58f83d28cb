"""Several elementwise ops as one op, where all of them are tiled alike.

The ops are its lambda. Every dimension of a value inside is one of the result, or is
repeated along it, so that loops run along the result's dimensions. Programs as they are
read have no such op: the search makes them, to have fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from partir.ir.attributes import ints
from partir.ir.core import Lambda, Op, Signature
from partir.ir.filled import filled
from partir.ir.source import Location
from partir.ir.types import TensorType
from partir.rules.elementwise import FUSED, POINTWISE
from partir.rules.factor import Dim, Factor
from partir.rules.local import Emitter, Ssa
from partir.rules.nest import Nest, nest_of
from partir.rules.registry import local_form, rule

Places = tuple[Dim, ...]
"""The result's dimension that each dimension of an operand runs along, if any."""

_BROADCAST = "stablehlo.broadcast_in_dim"
_CONVERT = "stablehlo.convert"


def is_pointwise(op: Signature) -> bool:
    """Whether every element of the result is made of those at the same place."""
    if op.kind not in POINTWISE or len(op.results) != 1:
        return False
    shape = op.results[0].shape
    return bool(shape) and all(t.shape in (shape, ()) for t in op.operands)


def is_broadcast(op: Signature) -> bool:
    """Whether the result repeats the operand."""
    return op.kind == _BROADCAST and bool(op.results[0].shape)


def is_conversion(op: Signature) -> bool:
    """Whether the result is the operand in another element type."""
    return op.kind == _CONVERT


def _operand_places(op: Signature, position: int, places: Places) -> Places:
    """Where an operand's dimensions are, given where those of the result are."""
    if op.kind != _BROADCAST:
        return places if op.operands[position].shape else ()
    shape, own = op.results[0].shape, op.operands[position].shape
    dims = ints(op.attrs["broadcast_dimensions"])
    return tuple(
        places[dim] if shape[dim] == size else None
        for dim, size in zip(dims, own, strict=True)
    )


def fuse(
    members: Sequence[Op], splats: Mapping[int, str] | None = None
) -> tuple[Signature, tuple[int, ...]]:
    """One op for several, the last of which makes the result; also its operands.

    Values that are known to be one number everywhere become constants inside.
    """
    places = _places(members)
    types: list[TensorType] = []
    inside: dict[object, int] = {}
    operands: dict[object, int] = {}
    made: list[Op] = []

    def new(key: object, type_: TensorType) -> int:
        inside[key] = len(types)
        types.append(type_)
        return inside[key]

    def read(op: Op, position: int) -> int:
        value, type_ = op.operands[position], op.signature.operands[position]
        if value in inside:
            return inside[value]
        own = _operand_places(op.signature, position, places[op.results[0]])
        key = value, own
        if splats and value in splats:
            if key not in inside:
                made.append(_constant(splats[value], type_, new(key, type_)))
            return inside[key]
        operands[key] = value
        return inside[key] if key in inside else new(key, type_)

    for op in members:
        reads = tuple(read(op, position) for position in range(len(op.operands)))
        (result,) = op.results
        number = new(result, op.signature.results[0])
        made.append(Op(op.signature, reads, (number,), Location()))
    arguments = tuple(inside[key] for key in operands)
    body = Lambda(tuple(types), arguments, tuple(made), made[-1].results)
    ins = tuple(types[number] for number in arguments)
    outs = members[-1].signature.results
    return Signature.of(FUSED, {}, ins, outs, (body,)), tuple(operands.values())


def _places(ops: Sequence[Op]) -> dict[int, Places]:
    """Where the dimensions of all values are in the result of the last op."""
    (last,) = ops[-1].results
    found: dict[int, Places] = {last: tuple(range(len(_type(ops[-1]).shape)))}
    for op in reversed(ops):
        places = found[op.results[0]]
        for position, value in enumerate(op.operands):
            found.setdefault(value, _operand_places(op.signature, position, places))
    return found


def _type(op: Op) -> TensorType:
    return op.signature.results[0]


def _constant(splat: str, type_: TensorType, number: int) -> Op:
    return Op(filled(type_, splat), (), (number,), Location())


def inside_of(op: Signature) -> Sequence[Op]:
    """The ops that a fused op does."""
    return op.lambdas[0].ops


def inner_types(nest: Nest) -> list[TensorType]:
    """Local types of what the ops inside make."""
    shape, body = nest.result_types[0].shape, nest.signature.lambdas[0]
    found = []
    for op, places in zip(body.ops, made_places(body), strict=True):
        sizes = zip(_type(op).shape, places, strict=True)
        local = (size if dim is None else shape[dim] for size, dim in sizes)
        found.append(_type(op).with_shape(tuple(local)))
    return found


@lru_cache(maxsize=1 << 12)
def made_places(body: Lambda) -> tuple[Places, ...]:
    """Where the dimensions of what each op inside makes are in the result."""
    found = _places(body.ops)
    return tuple(found[op.results[0]] for op in body.ops)


@lru_cache(maxsize=1 << 12)
def _argument_places(body: Lambda) -> tuple[Places, ...]:
    found = _places(body.ops)
    return tuple(found[value] for value in body.arguments)


def fused_nest(op: Signature, like: Nest) -> Nest:
    """The fused op in the loops of the op that makes its result."""
    made = nest_of(op)
    for loop in like.loops:
        dims, dim = [f.results[0] for f in made.factors], loop.factor.results[0]
        if dim is not None:
            made = made.inside(loop.axis, loop.size, dims.index(dim))
    return made


@rule(FUSED)
def fused(op: Signature) -> Iterator[Factor]:
    """``(i, j), (j) -> (i, j)``: every dimension of the result."""
    places = _argument_places(op.lambdas[0])
    for dim, size in enumerate(op.results[0].shape):
        operands = tuple(p.index(dim) if dim in p else None for p in places)
        yield Factor(size, operands, (dim,))


@local_form(FUSED)
def emit_fused(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """One op after another, at the local types."""
    body = nest.signature.lambdas[0]
    known = dict(zip(body.arguments, operands, strict=True))
    for inner, type_ in zip(body.ops, inner_types(nest), strict=True):
        reads = [known[value] for value in inner.operands]
        attrs = inner.signature.attrs
        if not reads:
            attrs = {"value": attrs["value"].replace(_type(inner).text, type_.text)}
        known[inner.results[0]], *_ = emitter.op(inner.kind, reads, (type_,), attrs)
    return (known[body.results[0]],)
