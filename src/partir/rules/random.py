"""Random numbers: the same ones on all devices, however they are tiled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import INDEX, Emitter, Ssa, compared, constant, emit_default
from partir.rules.monoids import additive
from partir.rules.nest import Loop, Nest
from partir.rules.positions import all_of, zero_outside_tile
from partir.rules.registry import local_form, rule
from partir.rules.shape import slice_tile

DRAW = "stablehlo.rng"


@rule("rng_bit_generator")
def rng_bit_generator(op: Signature) -> Iterator[Factor]:
    """``(_) -> (_), (i, j)``: every dimension of the bits; the state is whole."""
    for dim, size in enumerate(op.results[1].shape):
        yield Factor(size, (None,), (None, dim))


@local_form("rng_bit_generator")
def rng_bit_generator_form(
    nest: Nest, emitter: Emitter, operands: Sequence[Ssa]
) -> tuple[Ssa, ...]:
    """All bits are drawn and the tile's are kept: which they are is up to XLA."""
    signature = nest.signature
    state, bits = emitter.op(
        signature.kind, operands, signature.results, signature.attrs
    )
    return state, slice_tile(nest, emitter, bits, position=2)


@rule(DRAW, pieces=True)
def rng(op: Signature) -> Sequence[Factor]:
    """No loop to choose: it is inside `drawn_once` anyway."""
    return ()


def drawn_once(op: Signature, axes: Mapping[str, int]) -> Nest:
    """The op in loops over all axes of a mesh: one device draws, all get its numbers.

    Without a state to start from, every device draws others.
    """
    monoid = additive(op.results[0].dtype)
    loops = [
        Loop(axis, size, Factor(size, (None,) * len(op.operands), (None,), monoid))
        for axis, size in axes.items()
        if size > 1
    ]
    return Nest(op, tuple(loops))


@local_form(DRAW)
def rng_form(nest: Nest, emitter: Emitter, operands: Sequence[Ssa]) -> tuple[Ssa, ...]:
    """Nothing but on the first device."""
    (made,) = emit_default(nest, emitter, operands)
    zero = constant(emitter, INDEX, "0")
    first = [
        compared(emitter, emitter.index(loop.axis), "EQ", zero) for loop in nest.loops
    ]
    return (zero_outside_tile(emitter, made, all_of(emitter, first)),)
