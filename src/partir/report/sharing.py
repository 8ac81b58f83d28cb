"""How much of a program's work is shared out over the devices.

Work is arithmetic: flops as XLA counts them, and functions of an element. An op that
has no loop over an axis is computed whole by each of its devices; a loop may still
leave some of it undivided (a scatter that masks what other tiles get).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from partir.rules.nest import Nest, nest_of
from partir.simulate.kernels.work import work_of
from partir.spmd.program import Compute, SpmdProgram


@dataclass(frozen=True)
class Sharing:
    """Work of a program, and of all devices together on each axis and on the mesh."""

    whole: float
    everywhere: float
    on_axes: Mapping[str, float]

    @property
    def work(self) -> float:
        """How often the work is done in all; 1.0: it is perfectly shared out."""
        return self.everywhere / self.whole if self.whole else 1.0

    @property
    def work_by_axis(self) -> dict[str, float]:
        """The same for each axis alone; 1.0: it divides everything."""
        if not self.whole:
            return dict.fromkeys(self.on_axes, 1.0)
        return {axis: work / self.whole for axis, work in self.on_axes.items()}


def sharing(program: SpmdProgram) -> Sharing:
    """Add up all ops; loops multiply, those of unknown length count once."""
    computed: Counter[Nest] = Counter()
    ops: Counter[Nest] = Counter()  # an op that is computed twice is still one op
    seen: set[int] = set()
    for op, trips in program.walk():
        if type(op) is Compute:
            computed[op.nest] += trips
            if op.node not in seen:
                seen.add(op.node)
                ops[_in_source(program, op)] += trips
    axes = program.mesh.axes
    everywhere, on_axes = 0.0, dict.fromkeys(axes, 0.0)
    for nest, times in computed.items():
        work = work_in(nest)
        everywhere += times * work.everywhere(axes)
        for axis in axes:
            on_axes[axis] += times * work.on_axis(axis, axes[axis])
    whole = sum(times * work_in(nest).whole for nest, times in ops.items())
    return Sharing(whole, everywhere, on_axes)


def _in_source(program: SpmdProgram, op: Compute) -> Nest:
    """An op's nest; of an op that is computed in parts, that of the whole."""
    signature = program.program.ops[op.node].signature
    return op.nest if op.nest.signature is signature else nest_of(signature)


class NestWork(NamedTuple):
    """Work of an op outside its loops, and what each loop, or all, leave of it.

    What is left is 1.0 if nothing is done twice.
    """

    whole: float
    loops: Mapping[str, float]
    left: float
    iterations: int

    def on_axis(self, axis: str, size: int) -> float:
        """Work of all devices of an axis together, as if there were no other."""
        return self.whole * self.loops.get(axis, size)

    def everywhere(self, axes: Mapping[str, int]) -> float:
        """Work of all devices of a mesh together."""
        return self.whole * self.left * (math.prod(axes.values()) / self.iterations)


_WORK = "sharing"


def work_in(nest: Nest) -> NestWork:
    """Work of an op in its loops; kept with the nest."""
    work = nest.cache.get(_WORK)
    if not isinstance(work, NestWork):
        work = nest.cache[_WORK] = _work_in(nest)
    return work


def _work_in(nest: Nest) -> NestWork:
    inside, outside = work_of(nest), nest_of(nest.signature)
    sizes = {loop.axis: loop.size for loop in nest.loops}
    iterations = math.prod(sizes.values())
    if inside.per_device:
        even = dict.fromkeys(sizes, 1.0)
        return NestWork(inside.arithmetic * iterations, even, 1.0, iterations)
    loops = {a: _left(nest, nest.without((a,)), size) for a, size in sizes.items()}
    left = _left(nest, outside, iterations)
    return NestWork(work_of(outside).arithmetic, loops, left, iterations)


def _left(inside: Nest, outside: Nest | None, iterations: int) -> float:
    """How often the iterations together do what is outside them once.

    Never less: what a sum's iterations save, its reduction does.
    """
    whole = 0.0 if outside is None else work_of(outside).arithmetic
    if not whole:
        return 1.0
    return max(round(work_of(inside).arithmetic * iterations / whole, 9), 1.0)
