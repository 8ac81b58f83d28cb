"""The order of kernels."""

from __future__ import annotations

import partir
from partir.simulate.device.fusion_policy import XLA
from partir.simulate.kernels.fusion import Fuser
from partir.simulate.kernels.schedule import breadth_first
from tests.simulate import models


def test_breadth_first_is_an_order() -> None:
    block = Fuser(models.partitioned().spmd, XLA).run()
    ordered = breadth_first(block, partir.devices["cpu"])
    assert sorted(map(id, ordered.kernels)) == sorted(map(id, block.kernels))
    there = set(block.arguments)
    for kernel in ordered.kernels:
        assert there >= set(kernel.reads)
        there |= set(kernel.writes)
