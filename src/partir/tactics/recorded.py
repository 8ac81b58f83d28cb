"""Schedules from what was done: actions by name, saved as data."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from partir.errors import PartitionError
from partir.files import write_whole
from partir.partition.actions import Action, Kind, Partition
from partir.partition.model_decisions import ModelDecisions
from partir.partition.patterns import Pattern, pattern_text
from partir.tactics.schedule import Schedule

_FORMAT = "partir schedule 1"


@dataclass(frozen=True)
class Recorded:
    """A tactic that takes recorded actions again, by the names of their targets."""

    name: str
    actions: tuple[Action, ...]

    def apply(self, partition: Partition) -> None:
        """Take the actions."""
        for action in self.actions:
            if action.kind == "tile":
                assert action.dim is not None
                partition.tile(
                    _exact(partition, action.target),
                    action.dim,
                    action.axis,
                    padded=action.at == "padded",
                )
            elif action.kind == "atomic":
                at: Any = action.at
                partition.atomic(_exact(partition, action.target), action.axis, at=at)
            elif action.kind == "gathered":
                target = _exact(partition, action.target)
                partition.gathered(target, action.axis, action.at)
            elif action.kind == "choose":
                assert action.dim is not None
                partition.choose(action.target, action.dim, action.axis)
            elif action.kind == "propagate":
                partition.propagate(action.axis or None)

    def __str__(self) -> str:
        """The tactic as the actions that it takes."""
        shown = "\n".join(f"    {action}" for action in self.actions)
        return f"{self.name}:\n{shown}" if shown else f"{self.name}: nothing"


def _exact(partition: Partition, name: str) -> Any:
    named = partition.names.exactly(name)
    if named is None:
        raise PartitionError(
            f'the recorded schedule names "{name}", which '
            f"{partition.program.name} does not have; nearest names: "
            f"{partition.names.nearest(name)}"
        )
    return partition.view(*named)


def recorded_tactics(steps: Iterable[tuple[str, Sequence[Action]]]) -> list[Recorded]:
    """Tactics that take these actions, a tactic for each step.

    What the model itself decides is left out: it will do so again.
    """
    return [
        Recorded(name, tuple(a for a in actions if a.kind != "skip"))
        for name, actions in steps
        if name != ModelDecisions.name
    ]


def recorded_schedule(steps: Iterable[tuple[str, Sequence[Action]]]) -> Schedule:
    """The same as a schedule."""
    return Schedule(recorded_tactics(steps))


def layout_actions(
    partition: Partition, pattern: Pattern, name: str
) -> list[tuple[str, list[Action]]]:
    """The layout of matching inputs: a tactic for each axis, in the order decided.

    On axes that don't tile them they are kept whole, by a tactic before the others.
    """
    arguments = {value for _, value, _ in partition.names.arguments}
    values = [v for v in partition.values(pattern) if v.number in arguments]
    if not values:
        text = pattern_text(pattern)
        raise PartitionError(
            f'input_schedule: no argument matches "{text}"; nearest names: '
            f"{partition.names.nearest(text)}"
        )
    order: dict[tuple[int, str], list[Action]] = {}
    whole = []
    for value in values:
        tiled = {axis for axes in value.tiling for axis in axes}
        whole += [
            Action("atomic", value.name, axis)
            for axis in partition.mesh
            if axis not in tiled
        ]
        for dim, axes in enumerate(value.tiling):
            for axis in axes:
                epoch = partition.state.value_origins[axis][value.number].epoch
                padded = value.number in partition.state.padded
                at = "padded" if padded else "everywhere"
                action = Action("tile", value.unique_name, axis, dim, at)
                order.setdefault((epoch, axis), []).append(action)
    ordered = sorted(order.items(), key=lambda item: item[0][0])
    tactics = [(f"{name} over {axis}", actions) for (_, axis), actions in ordered]
    return [(f"{name} kept whole", whole), *tactics] if whole else tactics


def save_schedule(tactics: Iterable[Recorded], path: str | os.PathLike[str]) -> None:
    """Write recorded tactics as JSON; nothing is left half-written."""
    data = [
        {"name": tactic.name, "actions": [_data(action) for action in tactic.actions]}
        for tactic in tactics
    ]
    text = json.dumps({"format": _FORMAT, "tactics": data}, indent=1)
    write_whole(path, text + "\n")


def load_schedule(path: str | os.PathLike[str]) -> Schedule:
    """Read a schedule that `Partitioned.save` wrote.

    Example:
        >>> import tempfile, pathlib, jax, partir
        >>> x = jax.ShapeDtypeStruct((8,), "float32")
        >>> rows = partir.ManualPartition({"x": 0}, axis="B", name="rows")
        >>> p = partir.partition(lambda x: x * 2, {"B": 4}, [rows], args=(x,))
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.json"
        >>> p.save(path)
        >>> print(load_schedule(path).name)
        rows
    """
    try:
        data = json.loads(Path(path).read_text())
        if data.get("format") != _FORMAT:
            raise ValueError(f"its format is not {_FORMAT!r}")
        return Schedule(
            [
                Recorded(str(t["name"]), tuple(_action(a) for a in t["actions"]))
                for t in data["tactics"]
            ]
        )
    except OSError as error:
        raise PartitionError(f"can't read {path}: {error.strerror}") from None
    except KeyError as error:
        raise PartitionError(
            f"{path} is not a saved schedule: it has no {error}"
        ) from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise PartitionError(f"{path} is not a saved schedule: {error}") from None


def _data(action: Action) -> dict[str, Any]:
    """What it takes to take an action again."""
    return {name: said for name, said in asdict(action).items() if name != "reason"}


def _action(data: Any) -> Action:
    """An action as `save_schedule` wrote it."""
    action = Action(**data)
    needs_dim = action.kind in ("tile", "choose")
    named = all(isinstance(n, str) for n in (action.target, action.axis, action.at))
    known = named and action.kind in get_args(Kind)
    if not known or needs_dim != (type(action.dim) is int):
        raise ValueError(f"{data} is no action")
    return action
