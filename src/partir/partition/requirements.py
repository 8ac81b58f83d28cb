"""What actions ask before anything changes, and the errors if it is not so.

A message names the tactic that asked, the value with its type, the reason with the
tactic that gave it, and what would work.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from partir.errors import PartitionError
from partir.partition.state import State
from partir.partition.values import Value, Values
from partir.rules.nest import UNDECIDED, WHOLE

MODELS_OWN = "the model's own"  # tactic: what it decides itself, before any other


class Requirements:
    """The state and names that actions are checked against."""

    def __init__(self, state: State, names: Values) -> None:
        """No tactic has been applied yet."""
        self.state = state
        self.names = names
        self.tactics: list[str] = []

    def _refused(self, text: str) -> PartitionError:
        """An error that says which tactic asked."""
        asked = f'tactic "{self.tactics[-1]}": ' if self.tactics else ""
        return PartitionError(asked + text)

    def require_axis(self, axis: str) -> int:
        """Size of an axis, or an error that lists the mesh's."""
        try:
            return self.state.require_axis(axis)
        except PartitionError as error:
            raise self._refused(str(error)) from None

    def _dimension(self, view: Value, dim: Any) -> int:
        """The value's own number for the user's dimension."""
        rank = len(view.shape)
        try:
            number = operator.index(dim)
        except TypeError:
            number = None
        if number is None or isinstance(dim, bool):
            raise self._refused(
                f"{view.name} is {view.type_text}: a dimension is a whole number, got "
                f"{dim!r}"
            )
        if not -rank <= number < rank:
            allowed = f"use 0 to {rank - 1}" if rank else "a scalar can't be tiled"
            raise self._refused(
                f"{view.name} is {view.type_text}: dimension {number} is out of range; "
                f"{allowed}"
            )
        return view.dims[number % rank]

    def _require_undecided(self, view: Value, inner: int, axis: str, home: int) -> None:
        if home == UNDECIDED:
            return
        asked = (
            f"{view.name} can't be tiled on dimension {view.outer(inner)} over axis "
            f'"{axis}": it is'
        )
        if home == WHOLE:
            raise self._refused(
                f"{asked} kept whole on that axis {self._because(view, axis)}. A later "
                f"tactic never undoes an earlier one: tile it "
                f"{self._before(view, axis)}"
            )
        raise self._refused(
            f"{asked} already tiled on dimension {view.outer(home)} over it "
            f"{self._because(view, axis)}. A later tactic never undoes an earlier one: "
            f"say dimension {view.outer(home)} or nothing, or tile it "
            f"{self._before(view, axis)}"
        )

    def _require_open(self, view: Value, inner: int, axis: str) -> None:
        if inner in self.state.closed.get((axis, view.number), ()):
            raise self._refused(
                f"{view.name} can't be tiled on dimension {view.outer(inner)} over "
                f'axis "{axis}": the model\'s own sharding constraint keeps that '
                f"dimension whole ({view.source}). Make it PartitionSpec.UNCONSTRAINED "
                "there, or tile another dimension"
            )

    def _require_divisible(self, view: Value, inner: int, axis: str, size: int) -> None:
        if self.state.fits(view.number, inner, axis):
            return
        left = self.state.local_size(view.number, inner)
        dim = view.outer(inner)
        whole = view.shape[dim]
        tiled = self.state.tilings[view.number][inner]
        within = f" ({left} left inside {', '.join(tiled)})" if tiled else ""
        sizes = enumerate(view.local_shape)
        fitting = [str(d) for d, local in sizes if local and local % size == 0]
        taken = math.prod(self.state.mesh.axes[a] for a in tiled)
        multiple = max(1, -(-whole // (size * taken))) * size * taken
        raise self._refused(
            f"{view.name} is {view.type_text}: dimension {dim} of size "
            f'{whole}{within} does not divide over axis "{axis}" of size {size}; '
            f"dimensions that do: {', '.join(fitting) or 'none'}; the next multiple of "
            f"{size * taken} is {multiple}{self._padding(view, inner, axis, dim)}"
        )

    def _padding(self, view: Value, inner: int, axis: str, dim: int) -> str:
        """What to write so that callers pad it, if that would do."""
        if not self.state.fills(view.number, inner, axis):
            return ""
        return f": partir.padded({dim}) pads it to that"

    def settled(self, view: Value, axis: str) -> str:
        """How this axis is settled for a value, and by whom; nothing if it is not."""
        home = self.state.homes[axis][view.number]
        if home == UNDECIDED:
            return ""
        how = (
            "kept whole" if home == WHOLE else f"tiled on dimension {view.outer(home)}"
        )
        return f"already {how} {self._because(view, axis)}".rstrip()

    def _because(self, view: Value, axis: str) -> str:
        origin = self.state.tactic_of(axis, view.number)
        if origin is None:
            return ""
        name = self.tactic_name(origin.step)
        if origin.node is None:
            return f'(by tactic "{name}")'
        via = self.names.node_name(self.state.graph, origin.node)
        op = self.state.graph.op(origin.node)
        where = f" at {op.location}" if op else ""
        return f'(by tactic "{name}", propagated through {via}{where})'

    def _before(self, view: Value, axis: str) -> str:
        """Where an action would have come in time."""
        origin = self.state.tactic_of(axis, view.number)
        if origin is None or origin.step == self.state.step:
            return "before that"
        tactic = self.tactic_name(origin.step)
        if tactic == MODELS_OWN:
            return "in the model itself"
        return f'in a tactic before "{tactic}"'

    def tactic_name(self, step: int) -> str:
        """Name of the tactic that ran as this step."""
        return self.tactics[step] if step < len(self.tactics) else f"step {step}"
