"""`Nest`: an op inside its loops, with its local types and what the loops mean.

Nests are interned per signature: the layers of a model share them, and with them every
cached answer, which is what makes propagation and lowering fast.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from partir.ir.core import Signature
from partir.ir.types import TensorType
from partir.rules.factor import JOIN, Factor
from partir.rules.reach import Extent, layout
from partir.rules.registry import attrs_hook, factors_of

Tiling = tuple[tuple[str, ...], ...]
"""Axes of each dimension, major first."""

Dims = tuple[int | None, ...]
"""A factor's dimension in each value, if it has one there."""

Named = tuple[tuple[int, int], ...]
"""Positions of values, each with a dimension."""

Home = int
"""What an axis does to a value: the dimension that it tiles, or one of these two."""
UNDECIDED: Final = -1
WHOLE: Final = -2
Homes = tuple[Home, ...]  # of an op's operands, then of its results

Verdict = int
"""What homes say of an op's loop: the number of the one factor, or one of these two."""
NO_EVIDENCE: Final = -3  # no home is known
NO_SINGLE_FACTOR: Final = -4  # none agrees, or several do


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of a nest: the mesh axis, its size, the factor (with its outer size)."""

    axis: str
    size: int
    factor: Factor


class Nest:
    """An op's signature inside loops, outermost first. Get one by `nest_of`."""

    def __init__(self, signature: Signature, loops: tuple[Loop, ...]) -> None:
        """Derive local types and factors; use `nest_of` and `inside` instead."""
        self.signature = signature
        self.loops = loops
        self.axes = tuple(loop.axis for loop in loops)
        self.operand_types = _local_types(signature.operands, loops, 0)
        self.result_types = _local_types(
            signature.results, loops, len(signature.operands)
        )
        self.factors = self._local_factors()
        self.cache: dict[str, Any] = {}  # what others learn of it
        self._inside: dict[tuple[str, int, int], Nest] = {}
        self._named: dict[int, tuple[Named, Named]] = {}
        self._judged: dict[tuple[int, Homes], Verdict] = {}
        self._settled: dict[tuple[int, Homes, bool], Verdict] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by content, so that the copy is interned where it arrives."""
        return _nested, (self.signature, self.loops)

    def _local_factors(self) -> tuple[Factor, ...]:
        local = Signature.of(
            self.signature.kind,
            self.attrs,
            self.operand_types,
            self.result_types,
            self.signature.lambdas,
        )
        return factors_of(local) if self.loops else factors_of(self.signature)

    @cached_property
    def attrs(self) -> dict[str, str]:
        """Attributes of the local op."""
        hook = attrs_hook(self.signature.kind) if self.loops else None
        return hook(self) if hook else self.signature.attrs

    def inside(self, axis: str, size: int, index: int) -> Nest:
        """This op with one more, innermost, loop over its factor number `index`."""
        key = (axis, size, index)
        found = self._inside.get(key)
        if found is None:
            loop = Loop(axis, size, self.factors[index])
            made = Nest(self.signature, (*self.loops, loop))
            found = self._inside.setdefault(key, made)  # another thread may be first
        return found

    def without(self, axes: Collection[str]) -> Nest | None:
        """This op with the loops over these axes left out; None if that can't be."""
        made = nest_of(self.signature)
        for loop in self.loops:
            if loop.axis in axes:
                continue
            index = made.factor_like(loop.factor)
            if index is None or not made.factors[index].fits(loop.size):
                return None
            made = made.inside(loop.axis, loop.size, index)
        return made

    def factor_like(self, factor: Factor) -> int | None:
        """Number of the factor that runs along the same dimensions, if there is one."""
        numbers = range(len(self.factors))
        return next((i for i in numbers if self.factors[i].runs_like(factor)), None)

    # What propagation asks

    def named(self, index: int) -> tuple[Named, Named]:
        """Positions and dimensions that a factor runs along: operands', results'."""
        found = self._named.get(index)
        if found is None:
            factor = self.factors[index]
            read, made = (
                tuple((i, dim) for i, dim in enumerate(dims) if dim is not None)
                for dims in (factor.operands, factor.results)
            )
            found = self._named[index] = read, made
        return found

    def judge(self, size: int, homes: Homes) -> Verdict:
        """The one factor that agrees with all homes and that some home supports.

        Returns its number, NO_EVIDENCE or NO_SINGLE_FACTOR.
        """
        key = (size, homes)
        found = self._judged.get(key)
        if found is None:
            found = self._judged[key] = self._judge(size, homes)
        return found

    def _judge(self, size: int, homes: Homes) -> Verdict:
        if max(homes, default=UNDECIDED) < 0:
            return NO_EVIDENCE
        fitting = self._agreeing(self._dividing(size), homes)
        if not fitting and not self.supported(size, homes):
            fitting = self._agreeing(self._short(size), homes)
        return fitting[0] if len(fitting) == 1 else NO_SINGLE_FACTOR

    def _dividing(self, size: int) -> list[int]:
        """Factors that a loop cuts into equal parts."""
        factors = enumerate(self.factors)
        return [n for n, f in factors if f.size % size == 0 and f.fits(size)]

    def _short(self, size: int) -> list[int]:
        """Factors that a loop can cut only with a short last part."""
        return [n for n, f in enumerate(self.factors) if f.size % size and f.fits(size)]

    def _agreeing(self, numbers: list[int], homes: Homes) -> list[int]:
        factors = self.factors
        return [
            n
            for n in numbers
            if _agrees(factors[n].operands + factors[n].results, homes)
        ]

    def settle(self, size: int, homes: Homes, results_only: bool) -> Verdict:
        """For an op that `judge` left: the one factor of its results, or operands.

        The results' is that which agrees with all that are known and with at least one
        operand; operands that disagree are gathered at this use. If there is none, it
        is the one that agrees with all operands known: the results are moved after it.
        NO_SINGLE_FACTOR if there is none, or several.
        """
        key = (size, homes, results_only)
        found = self._settled.get(key)
        if found is None:
            found = self._settled[key] = self._settle(*key)
        return found

    def _settle(self, size: int, homes: Homes, results_only: bool) -> Verdict:
        count = len(self.signature.operands)
        operands, results = homes[:count], homes[count:]
        if max(results, default=UNDECIDED) < 0 or max(operands, default=UNDECIDED) < 0:
            return NO_SINGLE_FACTOR
        for ours in (self._dividing(size), self._short(size)):
            follow = self._following(ours, operands, results, results_only)
            if follow:
                return follow[0] if len(follow) == 1 else NO_SINGLE_FACTOR
        return NO_SINGLE_FACTOR

    def _following(
        self,
        ours: list[int],
        operands: tuple[int, ...],
        results: tuple[int, ...],
        results_only: bool,
    ) -> list[int]:
        follow = [
            number
            for number in ours
            if _allows(self.factors[number].results, results)
            and _supports(self.factors[number].operands, operands)
        ]
        if not follow and not results_only and WHOLE not in results:
            follow = [n for n in ours if _agrees(self.factors[n].operands, operands)]
        return follow

    def supported(self, size: int, homes: Homes) -> tuple[int, ...]:
        """Factors that at least one home asks for: the evidence of a conflict."""
        return tuple(
            number
            for number, factor in enumerate(self.factors)
            if factor.size % size == 0
            and any(h >= 0 and h == factor.dim(p) for p, h in enumerate(homes))
        )

    # What lowering asks

    def extent(self, position: int, dim: int) -> Extent:
        """Positions along a dimension that an iteration reads or makes."""
        size = (*self.signature.operands, *self.signature.results)[position].shape[dim]
        axes, steps, first, wrap = [], [], 0, False
        for loop in self.loops:
            if loop.factor.dim(position) == dim:
                start, step, size = _part(loop, position, size)
                reach = loop.factor.reach_of(position)
                wrap = wrap or (reach is not None and reach.wrap)
                first += start
                axes.append(loop.axis)
                steps.append(step)
        return Extent(tuple(axes), tuple(steps), first, size, wrap)

    @cached_property
    def windows(self) -> tuple[tuple[tuple[int, Extent], ...], ...]:
        """Of each operand, the dimensions that are not read in tiles as they lie."""
        if not any(loop.factor.reach or loop.factor.loose for loop in self.loops):
            return ((),) * len(self.signature.operands)
        return tuple(
            tuple(
                (dim, extent)
                for dim, axes in enumerate(need)
                if axes
                and (extent := self.extent(position, dim))
                != layout(type_.shape[dim], axes, self.parts(axes))
            )
            for position, (type_, need) in enumerate(
                zip(self.signature.operands, self.needs, strict=True)
            )
        )

    @cached_property
    def reads_windows(self) -> bool:
        """Whether some operand is read beside its tiles."""
        return any(self.windows)

    def parts(self, axes: Collection[str]) -> tuple[int, ...]:
        """Sizes of the loops over these axes."""
        sizes = {loop.axis: loop.size for loop in self.loops}
        return tuple(sizes[axis] for axis in axes)

    @cached_property
    def needs(self) -> tuple[Tiling, ...]:
        """Tiling that the loops read of each operand."""
        return tuple(
            self._tiling(position, len(type_.shape))
            for position, type_ in enumerate(self.signature.operands)
        )

    @cached_property
    def gives(self) -> tuple[Tiling, ...]:
        """Tiling in which the loops leave each result."""
        first = len(self.signature.operands)
        return tuple(
            self._tiling(first + position, len(type_.shape))
            for position, type_ in enumerate(self.signature.results)
        )

    @cached_property
    def pending(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Reductions that each result still needs: pairs of axis and monoid."""
        return tuple(
            tuple(
                (loop.axis, loop.factor.reduce)
                for loop in self.loops
                if loop.factor.reduce not in (None, JOIN)
                and loop.factor.results[position] is None
            )
            for position in range(len(self.signature.results))
        )

    @cached_property
    def joins(self) -> tuple[Loop, ...]:
        """Loops whose partial results the op itself puts together."""
        return tuple(loop for loop in self.loops if loop.factor.reduce == JOIN)

    def _tiling(self, position: int, rank: int) -> Tiling:
        dims: list[tuple[str, ...]] = [()] * rank
        for loop in self.loops:
            dim = loop.factor.dim(position)
            if dim is not None:
                dims[dim] += (loop.axis,)
        return tuple(dims)


def nest_of(signature: Signature) -> Nest:
    """The op outside any loop."""
    found = signature.cache.get("nest")
    if found is None:
        found = signature.cache.setdefault("nest", Nest(signature, ()))
    assert isinstance(found, Nest)
    return found


def _nested(signature: Signature, loops: tuple[Loop, ...]) -> Nest:
    """The op inside these loops."""
    made = nest_of(signature)
    for loop in loops:
        made = made.inside(loop.axis, loop.size, made.factors.index(loop.factor))
    return made


def _allows(dims: Dims, homes: Homes) -> bool:
    """Whether no known home contradicts a factor's dimensions."""
    for home, dim in zip(homes, dims, strict=True):
        if home == WHOLE:
            if dim is not None:
                return False
        elif home not in (UNDECIDED, dim):
            return False
    return True


def _supports(dims: Dims, homes: Homes) -> bool:
    """Whether a known home is a factor's dimension."""
    return any(home >= 0 and home == dim for home, dim in zip(homes, dims, strict=True))


def _agrees(dims: Dims, homes: Homes) -> bool:
    """Whether no known home contradicts a factor's dimensions, and one supports it."""
    return _allows(dims, homes) and _supports(dims, homes)


def _local_types(
    types: tuple[TensorType, ...], loops: tuple[Loop, ...], first: int
) -> tuple[TensorType, ...]:
    made = []
    for position, type_ in enumerate(types):
        shape = list(type_.shape)
        for loop in loops:
            dim = loop.factor.dim(first + position)
            if dim is not None:
                shape[dim] = _part(loop, first + position, shape[dim])[2]
        made.append(type_.with_shape(tuple(shape)))
    return tuple(made)


def _part(loop: Loop, position: int, size: int) -> tuple[int, int, int]:
    """Of a dimension: where the first iteration's part starts, the step, its length."""
    factor = loop.factor
    count = -(-factor.size // loop.size)
    reach = factor.reach_of(position)
    if reach is not None:
        return *reach.part(count), reach.rows(count)
    exact = factor.size % loop.size == 0
    length = size // loop.size if exact else count * (size // factor.size)
    return 0, length, length
