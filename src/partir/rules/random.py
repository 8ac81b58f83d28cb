"""Random bits: the same ones as on one device, however they are tiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.local import Emitter, Ssa
from partir.rules.nest import Nest
from partir.rules.registry import local_form, rule
from partir.rules.shape import slice_tile


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
