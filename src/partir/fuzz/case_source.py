"""A case as Python that can be kept as a test."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from partir.frontend.load import load
from partir.fuzz.case import Case, Failure, Trial
from partir.fuzz.edit import source_text, unlabelled
from partir.mesh import Mesh
from partir.partition.actions import Action

_LABEL = re.compile(r"%(v\d+)/")
Written = Sequence[Sequence[tuple[Any, ...]]]


def retry(
    module: str,
    mesh: Mapping[str, int],
    tactics: Written,
    holds: Sequence[str],
    seed: int,
    carry: Sequence[tuple[int, int]] = (),
    on_devices: bool = False,
) -> Failure | None:
    """Try a case that was found and written down; None if all agrees.

    Args:
        module: StableHLO.
        mesh: sizes of the axes.
        tactics: for each, its actions: kind, target, axis, and what else they have.
        holds: for each argument, the kind of numbers that it is given.
        seed: what they are drawn by.
        carry: numbers of results and of the arguments that they succeed.
        on_devices: whether to run it by XLA as well.
    """
    schedule = tuple(
        (f"tactic {n}", tuple(Action(*action) for action in actions))
        for n, actions in enumerate(tactics)
    )
    pairs = tuple((result, argument) for result, argument in carry)
    case = Case(module, Mesh(mesh), schedule, tuple(holds), seed, pairs)
    return Trial(case, on_devices).run()


def written(case: Case, failure: Failure) -> str:
    """A test that fails as long as the case does."""
    tactics = [[_action(a) for a in actions] for _, actions in case.schedule]
    lines = [
        "from partir.fuzz import retry",
        "",
        f'MODULE = r"""\n{_without_labels(case)}\n"""',
        "",
        f"def test_program_{case.seed}():",
        f"    # {failure.stage}: {failure.what.splitlines()[0]}",
        "    failure = retry(",
        "        MODULE,",
        f"        mesh={case.mesh.axes!r},",
        f"        tactics={tactics!r},",
        f"        holds={list(case.holds)!r},",
        f"        seed={case.seed},",
        *([f"        carry={list(case.carry)!r},"] if case.carry else []),
        *(["        on_devices=True,"] if failure.stage == "devices" else []),
        "    )",
        "    assert failure is None, failure",
    ]
    return "\n".join(lines)


def _action(action: Action) -> tuple[Any, ...]:
    """Without what it has by default."""
    if action.at != "everywhere":
        return action.kind, action.target, action.axis, action.dim, action.at
    if action.dim is not None:
        return action.kind, action.target, action.axis, action.dim
    return action.kind, action.target, action.axis


def _without_labels(case: Case) -> str:
    """The module, in which only ops that actions name have labels."""
    targets = [a.target for _, actions in case.schedule for a in actions]
    named = {label for target in targets for label in _LABEL.findall(target)}
    return source_text(unlabelled(load(case.text), named))
