"""Which calls of a program hand on residuals to which others."""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.core import Program
from partir.ir.residual_pairs import Pair, pairs_of
from partir.ir.user_rule import PAIRS

Group = tuple[tuple[int, Pair], ...]
"""Ops, by their numbers, that have to be in the same loops over a pair's names."""


def find_groups(program: Program) -> tuple[Group, ...]:
    """Groups of ops, in the program's order.

    Calls that share a residual belong together. Where one comes from, or goes, by
    another way (a loop over layers stacks them), all calls of the pair do.
    """
    by_key: dict[str, list[tuple[int, Pair]]] = {}
    paired = [n for n, op in enumerate(program.ops) if PAIRS in op.signature.attrs]
    for number in paired:
        for pair in pairs_of(program.ops[number].signature):
            by_key.setdefault(pair.key, []).append((number, pair))
    if not by_key:
        return ()
    read = _Readers(program)
    groups = (read.split(members) for members in by_key.values())
    return tuple(group for found in groups for group in found if len(group) > 1)


class _Readers:
    def __init__(self, program: Program) -> None:
        self.program = program
        regions = [program.body, *(r for op in program.ops for r in op.regions)]
        self.returned = {value for region in regions for value in region.results}

    def split(self, members: Sequence[tuple[int, Pair]]) -> list[Group]:
        """Members that share residuals directly; all of them if some don't."""
        alive = [member for member in members if not self._is_dead(*member)]
        numbers = {number for number, _ in alive}
        by_value: dict[int, list[tuple[int, Pair]]] = {}
        for member in alive:
            values = self._residuals(*member)
            if not values or not all(self._is_inside(v, numbers) for v in values):
                return [tuple(alive)]
            group = [member]
            for found in {id(g): g for v in values if (g := by_value.get(v))}.values():
                group += found
            shared = (v for one in group for v in self._residuals(*one))
            by_value.update(dict.fromkeys(shared, group))
        groups = {id(group): group for group in by_value.values()}.values()
        return [tuple(sorted(group, key=lambda one: one[0])) for group in groups]

    def _residuals(self, number: int, pair: Pair) -> list[int]:
        op = self.program.ops[number]
        values = (*op.operands, *op.results)
        return [values[place] for place in pair.positions]

    def _is_dead(self, number: int, pair: Pair) -> bool:
        """Whether the call saves what nobody reads."""
        values, uses = self._residuals(number, pair), self.program.uses
        made = self.program.ops[number].results
        return bool(values) and all(
            v in made and v not in uses and v not in self.returned for v in values
        )

    def _is_inside(self, value: int, numbers: set[int]) -> bool:
        """Whether only these make and read a value."""
        uses = self.program.uses.get(value, ())
        made = self.program.producers.get(value) in numbers
        return made and value not in self.returned and numbers.issuperset(uses)
