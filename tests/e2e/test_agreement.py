"""Who is asked whether all processes run one program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from partir.execute.agreement import require_agreement


def test_processes_that_are_not_there_are_not_asked() -> None:
    """Devices to compile for may belong to several processes; here there is one."""
    devices = [SimpleNamespace(process_index=number) for number in (0, 0, 1, 1)]
    mesh: Any = SimpleNamespace(devices=np.array(devices).reshape(2, 2))
    plan: Any = SimpleNamespace(name="step")  # would be read if any were asked
    require_agreement(plan, mesh)
