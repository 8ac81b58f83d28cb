"""Programs on formulas beside what the reference interpreter computes of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partir.ir.core import Program
from partir.verify.elements.alone import new_ops
from partir.verify.elements.cases import GARBAGE, Cases
from partir.verify.elements.constants import number
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.lockstep import Lockstep
from partir.verify.elements.rings import Complex, Integers, ring_of
from partir.verify.layouts.layout import Unreadable

LARGE = 10**6


def known_arguments(
    ops: Elementwise, program: Program, args: Sequence[Any]
) -> list[Any]:
    """Arguments as known numbers."""
    return [
        [_known(ops, one, program.types[value].dtype) for one in array.reshape(-1)]
        for value, array in zip(program.body.arguments, args, strict=True)
    ]


def _known(ops: Elementwise, one: Any, dtype: str) -> Any:
    if isinstance(ring_of(dtype), Complex):
        part = dtype[len("complex<") : -1]
        return tuple(number(ops, float(p), part) for p in (one.real, one.imag))
    return number(ops, float(one) if "f" in dtype else int(one), dtype)


class Assigned:
    """Arguments that are unknown, and what the unknown integers among them are."""

    def __init__(self, ops: Elementwise, program: Program, args: Sequence[Any]) -> None:
        """Each element has a name."""
        self.ops, self.numbers = ops, dict[int, int]()
        self.values: list[Any] = []
        for which, (value, array) in enumerate(
            zip(program.body.arguments, args, strict=True)
        ):
            dtype = program.types[value].dtype
            held = [
                self._named(dtype, (which, place), one)
                for place, one in enumerate(array.reshape(-1))
            ]
            self.values.append(held)

    def _named(self, dtype: str, key: tuple[int, int], one: Any) -> Any:
        ring, algebra = ring_of(dtype), self.ops.algebra
        if dtype == "i1":
            made = algebra.truth("argument", *key)
            self.numbers[made.unknown[0]] = int(one)
            return made
        found = ring.unknown(algebra.point, "argument", *key)
        if isinstance(ring, Integers):
            self.numbers[found[0]] = int(one)
        return found

    def number(self, scalar: Any, ring: Integers) -> int | None:
        """What an integer is, if it depends on arguments by tables alone."""
        while type(scalar) is Cases:
            base, bits = scalar.unknown
            if base not in self.numbers:
                return None
            scalar = scalar.at(self.numbers[base] % (1 << bits))
        base, rest = scalar
        known = self._wide()
        if base and base not in known:
            return None
        return ring.typed(known.get(base, 0) + rest)

    def _wide(self) -> Mapping[int, int]:
        """Integers by their polynomials, as wider types have them too."""
        narrow = self.ops.algebra._narrow
        found = dict(self.numbers)
        for made, (base, bits) in narrow.items():
            if base in self.numbers:
                found[made] = self.numbers[base] % (1 << bits)
        return found


def run(ops: Elementwise, program: Program, given: Sequence[Any]) -> dict[int, Any]:
    """All values that can be written out; ops that can't are left out."""
    state = Lockstep(ops, program, (), (), LARGE)
    for value, held in zip(program.body.arguments, given, strict=True):
        state.env[value] = [held]
    for index in program.body.ops:
        try:
            state._step(program.ops[index])
        except (Unreadable, KeyError):
            continue
    return {value: held[0] for value, held in state.env.items()}


def differences(
    program: Program, args: Sequence[Any], values: Mapping[int, np.ndarray]
) -> tuple[list[str], Counter[str]]:
    """Where formulas say something else than numbers; and how much was compared."""
    found: list[str] = []
    counts: Counter[str] = Counter()
    for kind in ("known", "unknown"):
        ops = new_ops()
        assigned = Assigned(ops, program, args)
        known = kind == "known"
        given = known_arguments(ops, program, args) if known else assigned.values
        for value, held in run(ops, program, given).items():
            ring = ring_of(program.types[value].dtype)
            if not isinstance(ring, Integers) or value not in values:
                continue
            for scalar, one in zip(held, values[value].reshape(-1), strict=True):
                assert scalar is not GARBAGE
                number_ = assigned.number(scalar, ring)
                if number_ is None:
                    counts[f"{kind}, open"] += 1
                elif number_ == ring.typed(int(one)):
                    counts[f"{kind}, equal"] += 1
                else:
                    op = program.ops[program.producers[value]]
                    found.append(f"{kind}: {op.signature}: {number_}, should be {one}")
                    break
    return found, counts
