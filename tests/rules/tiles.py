"""Tiles recombined: the local form of an op, run once per iteration, beside the whole.

XLA runs the local op, its loops' indices being arguments. Operands are cut and results
put together here, so that nothing but the local form is shared with lowering. Every
other time it is XLA that cuts the operands, which may then see through the slices.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import numpy as np

from partir.execute.module import Module, call_module
from partir.execute.types import jax_struct
from partir.frontend.parsing import parse_module
from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.rules.elementwise import TIE
from partir.rules.factor import JOIN
from partir.rules.joins import join_of, lengths, whole_of
from partir.rules.local import INDEX, Ssa
from partir.rules.monoids import garbage
from partir.rules.nest import Nest, nest_of
from partir.rules.slices import window_of_whole
from partir.spmd.stablehlo.emit import TextEmitter
from tests.rules.dense import with_dense_products
from tests.rules.samples.sample import Sample

Splats = Sequence[str | None]
_JOIN = {
    "sum": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def nests(nest: Nest, depth: int) -> Iterator[Nest]:
    """Every nest of at most `depth` loops, each as short as its factor allows.

    The second loop may run over the factor of the first: two axes on one dimension.
    Every other time the loop is one that does not divide, where the factor allows it.
    """
    for number, factor in enumerate(nest.factors):
        sizes = [n for n in range(2, factor.size + 1) if factor.fits(n)]
        uneven = [n for n in sizes if factor.size % n]
        odd = (number + len(nest.loops)) % 2 == 1
        size = (
            uneven[0]
            if uneven and odd
            else next(n for n in sizes if factor.size % n == 0)
        )
        inner = nest.inside(f"axis{len(nest.loops)}", size, number)
        yield inner
        if depth > 1:
            yield from nests(inner, depth - 1)


def signature_nests(signature: Signature, depth: int = 2) -> list[Nest]:
    """All nests of a signature."""
    return list(nests(nest_of(signature), depth))


def describe(nest: Nest) -> str:
    """The op and its loops, for messages."""
    loops = [f"{loop.size} of {loop.factor}" for loop in nest.loops]
    return f"{nest.signature} {nest.signature.attrs} in loops {loops}"


class Local(TextEmitter):
    """Writes local ops; a loop's index is an argument, and so is every operand."""

    def __init__(self, depth: int = 0) -> None:
        super().__init__()
        self.arguments = [Ssa(f"%axis{i}", INDEX) for i in range(depth)]

    def index(self, axis: str) -> Ssa:
        return Ssa(f"%{axis}", INDEX)

    def argument(self, type_: TensorType) -> Ssa:
        self.arguments.append(Ssa(f"%arg{len(self.arguments)}", type_))
        return self.arguments[-1]

    def run(self, nest: Nest, splats: Splats, cut: bool = False) -> list[Ssa]:
        """One iteration on operands that are new arguments, or cut from them."""
        types = nest.signature.operands if cut else nest.operand_types
        operands = [self.argument(type_) for type_ in types]
        if cut:
            operands = [
                self._window(nest, position, operand)
                for position, operand in enumerate(operands)
            ]
        if nest.signature.kind == TIE:  # all its values are one
            return [operands[0]] * len(nest.result_types)
        return list(self.local(nest, operands, splats))

    def _window(self, nest: Nest, position: int, operand: Ssa) -> Ssa:
        for dim, axes in enumerate(nest.needs[position]):
            if axes:
                extent, outside = nest.extent(position, dim), garbage(operand.type)
                parts = nest.parts(axes)
                operand = window_of_whole(self, operand, dim, extent, parts, outside)
        return operand


@dataclass(frozen=True)
class Case:
    """A nest of a sample; without loops it is the whole."""

    sample: Sample
    nest: Nest
    cut: bool

    def operands(self, iteration: Sequence[int]) -> list[np.ndarray]:
        """Operands of one iteration; of one that is not in the nest, any."""
        values = [np.asarray(value) for value in self.sample.values]
        if self.cut:
            return values
        loops = self.nest.loops
        index = {
            loop.axis: min(number, loop.size - 1)
            for loop, number in zip(loops, iteration, strict=False)
        }
        return [
            _window(self.nest, position, value, index)
            for position, value in enumerate(values)
        ]

    def joined(
        self, made: dict[tuple[int, ...], Any], position: int, at: tuple[int, ...] = ()
    ) -> np.ndarray:
        """The result at `position`, put together of what the iterations made."""
        loops = self.nest.loops
        if len(at) == len(loops):
            padding = (0,) * (len(next(iter(made))) - len(at))
            return made[(*at, *padding)][position]
        loop = loops[len(at)]
        parts = [self.joined(made, position, (*at, i)) for i in range(loop.size)]
        dim = loop.factor.results[position]
        if loop.factor.reduce == JOIN:
            return np.concatenate(parts, join_of(self.nest).dim(self.nest))
        if dim is not None:
            dim += bool(self.nest.joins) and join_of(self.nest).adds
            whole = np.concatenate(parts, dim)
            if loop.factor.size % loop.size == 0:
                return whole
            count = -(-loop.factor.size // loop.size)
            share = parts[0].shape[dim] // count
            return whole.take(range(loop.factor.size * share), dim)
        if loop.factor.reduce is None:
            assert all(equal(parts[0], part) for part in parts), describe(self.nest)
            return parts[0]
        return reduce(_JOIN[loop.factor.reduce], parts)

    def results(self, made: dict[tuple[int, ...], Any]) -> list[np.ndarray]:
        """All results; partial ones that exist are joined by the op itself."""
        nest, count = self.nest, len(self.nest.signature.results)
        joined = [self.joined(made, position) for position in range(count)]
        if not nest.joins:
            return joined
        join = join_of(nest)
        rows, parts = join.rows(nest)[0], lengths(nest)
        assert sum(parts) == nest.joins[0].factor.size or len(nest.joins) > 1
        there = [
            n * rows + row for n, k in enumerate(parts) for row in range(min(k, rows))
        ]
        if join.adds:
            joined = [value.take(there, join.dim(nest)) for value in joined]
        whole = nest_of(whole_of(nest, nest.signature.results))
        emitter, inits = Local(), [self.sample.values[i] for i in join.starts(nest)]
        emitted = emitter.run(whole, [None] * len(whole.signature.operands))
        text = emitter.module("joined", emitter.arguments, emitted)
        return run(text, [ssa.type for ssa in emitted], [*joined, *inits])


def _window(
    nest: Nest, position: int, value: np.ndarray, index: dict[str, int]
) -> np.ndarray:
    """What an iteration reads of a whole value; garbage outside of it."""
    for dim, axes in enumerate(nest.needs[position]):
        if not axes:
            continue
        extent = nest.extent(position, dim)
        steps = zip(extent.axes, extent.steps, strict=True)
        start = extent.first + sum(index[axis] * step for axis, step in steps)
        rows = np.arange(start, start + extent.length)
        size = value.shape[dim]
        made = value.take(rows % size if extent.wrap else rows.clip(0, size - 1), dim)
        outside = (rows < 0) | (rows >= size)
        if outside.any() and not extent.wrap:
            made[(slice(None),) * dim + (outside,)] = _garbage(value.dtype)
        value = made
    return value


def _garbage(dtype: np.dtype) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    return True if dtype.kind == "b" else dtype.type(np.nan)


def check(samples: Sequence[Sample]) -> list[str]:
    """Nests of the samples whose tiles, put together, are not the whole.

    Of samples that can't run, the text is only read back.
    """
    for sample in samples:
        if not sample.runs:
            parse_module(_module(_cases([sample]))[0])
    cases = _cases([s for s in samples if s.runs])
    return list(_different(cases, _run_all(cases))) if cases else []


def _cases(samples: Sequence[Sample]) -> list[Case]:
    return [
        Case(sample, nest, cut=number % 2 == 1)
        for sample in samples
        for outside in [nest_of(sample.signature)]
        for number, nest in enumerate((outside, *nests(outside, sample.depth)))
    ]


def _module(cases: Sequence[Case]) -> tuple[str, list[TensorType]]:
    """One iteration of every case, and its results' types."""
    emitter = Local(_depth(cases))
    results = [
        result
        for case in cases
        for result in emitter.run(case.nest, case.sample.splats, case.cut)
    ]
    text = emitter.module("tiles", emitter.arguments, results)
    return with_dense_products(text), [result.type for result in results]


def _depth(cases: Sequence[Case]) -> int:
    return max(len(case.nest.loops) for case in cases)


def _run_all(cases: Sequence[Case]) -> dict[tuple[int, ...], list[np.ndarray]]:
    """Results of all cases in every iteration of the longest loops."""
    text, types = _module(cases)
    call = compiled(text, types)
    sizes = [
        max(loops[place].size for c in cases if len(loops := c.nest.loops) > place)
        for place in range(_depth(cases))
    ]
    made = {}
    for iteration in itertools.product(*map(range, sizes)):
        values = [value for case in cases for value in case.operands(iteration)]
        made[iteration] = call([*map(np.int32, iteration), *values])
    return made


def _different(
    cases: Sequence[Case], made: dict[tuple[int, ...], list[np.ndarray]]
) -> Iterator[str]:
    """The whole of a sample stands before its tiles."""
    place = 0
    wholes: list[np.ndarray] = []
    for case in cases:
        count = len(case.nest.signature.results)
        own = {at: values[place : place + count] for at, values in made.items()}
        joined = case.results(own)
        if not case.nest.loops:
            wholes = joined
        for want, got in zip(wholes, joined, strict=True):
            if not equal(want, got):
                shown = f"{case.sample.label}: {describe(case.nest)}"
                yield f"{shown}\nwhole:\n{want}\ntiles:\n{got}"
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


def compiled(text: str, types: Sequence[TensorType]) -> Any:
    """A module as a function of a list of arrays, on one device."""
    outs = [jax_struct(type_) for type_ in types]
    module = Module(text)
    made = jax.jit(
        lambda *args: call_module(module, outs, *args),
        compiler_options=_QUICK,
        keep_unused=True,
    )
    return lambda values: [np.asarray(value) for value in made(*values)]


def run(
    text: str, types: Sequence[TensorType], values: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Results of a module on one device."""
    made: list[np.ndarray] = compiled(text, types)(values)
    return made
