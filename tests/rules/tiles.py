"""Tiles recombined: an op inside loops, unrolled on one device, beside the whole op.

Slices here are static and results are joined by concatenate or by the monoid's op, so
that nothing but the local form itself is shared with lowering.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import jax
import numpy as np

from partir.execute.module import Module, call_module
from partir.execute.types import jax_struct
from partir.frontend.stablehlo import parse_module
from partir.ir.attributes import i64_array
from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.rules.elementwise import TIE
from partir.rules.local import INDEX, Ssa, binary, constant
from partir.rules.monoids import OPS
from partir.rules.nest import Loop, Nest, nest_of
from partir.spmd.emit import TextEmitter
from tests.rules.dense import with_dense_products
from tests.rules.samples.sample import Sample

Splats = Sequence[str | None]


def nests(nest: Nest, depth: int) -> Iterator[Nest]:
    """Every nest of at most `depth` loops, each as short as its factor allows.

    The second loop may run over the factor of the first: two axes on one dimension.
    """
    for number, factor in enumerate(nest.factors):
        size = next(n for n in range(2, factor.size + 1) if factor.size % n == 0)
        inner = nest.inside(f"axis{len(nest.loops)}", size, number)
        yield inner
        if depth > 1:
            yield from nests(inner, depth - 1)


def describe(nest: Nest) -> str:
    """The op and its loops, for messages."""
    loops = [f"{loop.size} of {loop.factor}" for loop in nest.loops]
    return f"{nest.signature} {nest.signature.attrs} in loops {loops}"


class Unrolled(TextEmitter):
    """Writes every iteration of a nest; a loop's index is a constant."""

    def __init__(self) -> None:
        super().__init__()
        self._indices: dict[str, int] = {}

    def index(self, axis: str) -> Ssa:
        return constant(self, INDEX, str(self._indices[axis]))

    def run(self, nest: Nest, operands: Sequence[Ssa], splats: Splats) -> list[Ssa]:
        """All results of an op, made of its tiles."""
        return self._loop(nest, nest.loops, list(operands), splats)

    def _loop(
        self, nest: Nest, loops: tuple[Loop, ...], operands: list[Ssa], splats: Splats
    ) -> list[Ssa]:
        """Run the outermost of the loops left; within all of them, the local op."""
        if not loops:
            assert [o.type for o in operands] == list(nest.operand_types), nest
            return self._local(nest, operands, splats)
        loop, *rest = loops
        made = []
        for index in range(loop.size):
            self._indices[loop.axis] = index
            tiles = [
                self._tile(operand, dim, index, loop.size)
                for operand, dim in zip(operands, loop.factor.operands, strict=True)
            ]
            made.append(self._loop(nest, tuple(rest), tiles, splats))
        return [
            self._join(parts, dim, loop.factor.reduce)
            for parts, dim in zip(
                zip(*made, strict=True), loop.factor.results, strict=True
            )
        ]

    def _local(self, nest: Nest, operands: list[Ssa], splats: Splats) -> list[Ssa]:
        if nest.signature.kind == TIE:  # all its values are one
            return [operands[0]] * len(nest.result_types)
        return list(self.local(nest, operands, splats))

    def _tile(self, operand: Ssa, dim: int | None, index: int, count: int) -> Ssa:
        if dim is None:
            return operand
        shape = list(operand.type.shape)
        size = shape[dim] // count
        starts, limits = [0] * len(shape), list(shape)
        starts[dim], limits[dim] = index * size, (index + 1) * size
        shape[dim] = size
        attrs = {
            "start_indices": i64_array(starts),
            "limit_indices": i64_array(limits),
            "strides": i64_array([1] * len(shape)),
        }
        type_ = operand.type.with_shape(tuple(shape))
        return self.op("stablehlo.slice", (operand,), (type_,), attrs)[0]

    def _join(self, parts: Sequence[Ssa], dim: int | None, monoid: str | None) -> Ssa:
        if dim is not None:
            shape = list(parts[0].type.shape)
            shape[dim] *= len(parts)
            type_ = parts[0].type.with_shape(tuple(shape))
            attrs = {"dimension": f"{dim} : i64"}
            return self.op("stablehlo.concatenate", parts, (type_,), attrs)[0]
        if monoid is None:  # the same in every iteration
            return parts[-1]
        kind = OPS[monoid].removeprefix("stablehlo.")
        return reduce(lambda left, right: binary(self, kind, left, right), parts)


def check(samples: Sequence[Sample]) -> list[str]:
    """Nests of the samples whose tiles, put together, are not the whole.

    Of samples that can't run, the text is only read back.
    """
    parse_module(_both([s for s in samples if not s.runs])[0])
    samples = [s for s in samples if s.runs]
    if not samples:
        return []
    text, types, plan = _both(samples)
    values = [value for sample in samples for value in sample.values]
    return list(_different(plan, run(with_dense_products(text), types, values)))


Plan = list[tuple[str, int, Nest]]  # label, place of the whole, nest


def _both(samples: Sequence[Sample]) -> tuple[str, list[TensorType], Plan]:
    """A module that computes wholes and tiles, its results and what they are."""
    emitter = Unrolled()
    arguments: list[Ssa] = []
    results: list[Ssa] = []
    plan: Plan = []
    for sample in samples:
        types = sample.signature.operands
        operands = [
            Ssa(f"%arg{len(arguments) + i}", type_) for i, type_ in enumerate(types)
        ]
        arguments += operands
        outside = nest_of(sample.signature)
        place = len(results)
        results += emitter.run(outside, operands, sample.splats)
        for nest in nests(outside, sample.depth):
            plan.append((sample.label, place, nest))
            results += emitter.run(nest, operands, sample.splats)
    text = emitter.module("tiles", arguments, results)
    return text, [r.type for r in results], plan


def _different(plan: Plan, made: Sequence[np.ndarray]) -> Iterator[str]:
    """Tiled results stand behind their whole, in order."""
    place = -1
    for label, whole, nest in plan:
        count = len(nest.signature.results)
        place = max(place, whole + count)
        for number in range(count):
            want, got = made[whole + number], made[place + number]
            if not equal(want, got):
                yield f"{label}: {describe(nest)}\nwhole:\n{want}\ntiles:\n{got}"
        place += count


def equal(want: np.ndarray, got: np.ndarray) -> bool:
    """Exactly, but for the order in which floating-point numbers are added."""
    if want.dtype.kind in "fc":
        return np.allclose(want, got, rtol=1e-9, atol=1e-12, equal_nan=True)
    return np.array_equal(want, got)


# Compiling is most of the time of these tests; the code need not be fast.
_QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


def run(
    text: str, types: Sequence[TensorType], values: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Results of a module on one device."""
    outs = [jax_struct(type_) for type_ in types]
    module = Module(text)
    compiled = jax.jit(
        lambda *args: call_module(module, outs, *args), compiler_options=_QUICK
    )
    return [np.asarray(value) for value in compiled(*values)]


def signature_nests(signature: Signature, depth: int = 2) -> list[Nest]:
    """All nests of a signature."""
    return list(nests(nest_of(signature), depth))
