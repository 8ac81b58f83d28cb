"""Models with the schedules that experts would write for them, and where they run.

Every model has a small size, which runs on eight virtual devices, and a full size, of
which only shapes exist. ``MODELS`` is what automatic tactics are measured against: for
each model the devices and meshes, each with a global batch, and the expert schedules
that apply there. The memory limit is the device's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import partir
from benchmarks.models import (
    decoding,
    gns,
    mlp,
    moe,
    schedules,
    stacked,
    transformer,
    unet,
)

Schedule = Sequence[Any]


@dataclass(frozen=True)
class Target:
    """A mesh of devices of one kind, and the size of the batch for all of them."""

    device: str
    axes: Mapping[str, int]
    batch: int

    @property
    def mesh(self) -> partir.Mesh:
        """The mesh; needs no devices."""
        return partir.Mesh(dict(self.axes))

    def __str__(self) -> str:
        """Device and axes, on one line."""
        return f"{self.device} {self.mesh}"


@dataclass(frozen=True)
class Model:
    """One model; ``step`` and ``args`` take a config of its module.

    ``full`` makes the config of a batch size; ``small_mesh`` has eight devices.
    """

    name: str
    step: Callable[[Any], Callable[..., Any]]
    args: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]
    small: Any
    full: Callable[[int], Any]
    schedules: Mapping[str, Schedule]
    targets: Sequence[Target]
    donate: tuple[int, ...] = (0, 1)
    small_mesh: Mapping[str, int] = field(default_factory=lambda: {"B": 4, "M": 2})

    def small_case(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and its arguments' shapes, small."""
        return self.step(self.small), self.args(self.small)[0]

    def full_case(self, target: Target) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and its arguments' shapes, at full size for a target."""
        config = self.full(target.batch)
        return self.step(config), self.args(config)[0]

    def schedules_on(
        self, axes: Mapping[str, int], batch: int | None = None
    ) -> dict[str, Schedule]:
        """Expert schedules that use no other axes than these.

        With ``batch``, only those under which it divides.
        """
        return {
            name: schedule
            for name, schedule in self.schedules.items()
            if all(tactic.axis in axes for tactic in schedule)
            and (batch is None or batch % _batch_parts(schedule, axes) == 0)
        }


def _batch_parts(schedule: Schedule, axes: Mapping[str, int]) -> int:
    """Into how many parts a schedule splits the batch: BP, BP2, BP(M), EP, MQ do."""
    over = {t.axis for t in schedule if t.name[:2] in ("BP", "EP", "MQ")}
    return math.prod(axes[axis] for axis in over)


# An outer data axis (pods, or nodes): the batch is split over it, parameters are not.
_OUTER = partir.ManualPartition({"tokens": 0, "targets": 0}, axis="P", name="BP2")
_OUTER_BATCH = partir.ManualPartition({"batch/*": 0}, axis="P", name="BP2")
_BP, _MP, _Z2, _Z3 = schedules.BP, schedules.MP, schedules.Z2, schedules.Z3
_EMB = schedules.EMB
_TRANSFORMER = {
    **schedules.SCHEDULES,
    **schedules.EMBEDDED_SCHEDULES,
    "BP+Z2": [_BP, _Z2],
    "BP+Z3": [_BP, _Z3],
    "BP+BP(M)+Z3+Z3(M)": [_BP, schedules.BP_M, _Z3, schedules.Z3_M],
    "BP2+BP+MP+Z2": [_OUTER, _BP, _MP, _Z2],
    "BP2+BP+MP+Z3": [_OUTER, _BP, _MP, _Z3],
    "BP2+BP+MP+Z3+EMB": [_OUTER, _BP, _MP, _Z3, _EMB],
}

T32 = Model(
    name="T32",
    step=transformer.step_for,
    args=transformer.example_args,
    small=transformer.Config.small(
        layers=1, width=32, hidden=64, vocab=32, sequence=8, biased=True
    ),
    full=lambda batch: transformer.Config.t32(batch=batch),
    schedules=_TRANSFORMER,
    targets=(
        Target("tpu_v3", {"B": 16, "M": 2}, 48),
        Target("a100", {"B": 8, "M": 2}, 48),
        Target("h100", {"B": 8}, 16),
        Target("tpu_v5p", {"B": 64, "M": 4}, 256),
    ),
    small_mesh={"P": 2, "B": 2, "M": 2},
)
T48 = replace(
    T32,
    name="T48",
    full=lambda batch: transformer.Config.t48(batch=batch),
    targets=(
        Target("tpu_v3", {"B": 32, "M": 4}, 64),
        Target("h100", {"B": 32, "M": 8}, 256),
        Target("tpu_v5p", {"B": 256, "M": 16}, 1024),
        Target("tpu_v5p", {"P": 4, "B": 32, "M": 8}, 512),
    ),
)
SCANNED = Model(
    name="scanned T32",
    step=stacked.step_for,
    args=stacked.example_args,
    small=replace(T32.small, layers=2),
    full=lambda batch: transformer.Config.t32(batch=batch),
    schedules=stacked.SCHEDULES,
    targets=(
        Target("tpu_v3", {"B": 16, "M": 2}, 48),
        Target("h100", {"B": 16, "M": 8}, 128),
    ),
)
UNET = Model(
    name="UNet",
    step=unet.step_for,
    args=unet.example_args,
    small=unet.Config(),
    full=lambda batch: unet.Config.full(batch=batch),
    schedules=unet.SCHEDULES,
    targets=(
        Target("tpu_v3", {"B": 32}, 1024),
        Target("a100", {"B": 8}, 512),
        Target("h100", {"B": 16, "M": 2}, 1024),
    ),
)
GNS = Model(
    name="GNS",
    step=gns.step_for,
    args=gns.example_args,
    small=gns.Config(),
    full=lambda batch: gns.Config.full(nodes=2048 * batch, edges=32768 * batch),
    schedules=gns.SCHEDULES,
    targets=(
        Target("tpu_v3", {"B": 8}, 4),
        Target("a100", {"B": 8}, 8),
        Target("tpu_v3", {"B": 16, "M": 2}, 8),
    ),
)
IT32 = Model(
    name="IT32",
    step=decoding.step_for,
    args=decoding.example_args,
    small=decoding.Config(),
    full=lambda batch: decoding.Config.full(batch=batch),
    schedules=decoding.SCHEDULES,
    targets=(
        Target("tpu_v3", {"B": 16, "M": 2}, 512),
        Target("a100", {"B": 2, "M": 4}, 256),
        Target("tpu_v5p", {"B": 8, "M": 8}, 2048),
    ),
    donate=(),
)
MOE = Model(
    name="MoE",
    step=moe.step_for,
    args=moe.example_args,
    small=moe.Config(),
    full=lambda batch: moe.Config.full(batch=batch),
    schedules={
        **moe.SCHEDULES,
        "BP2+EP": [_OUTER_BATCH, moe.EP],
        "BP2+EP+MP": [_OUTER_BATCH, moe.EP, moe.MP],
        "BP2+EP+BP(M)": [_OUTER_BATCH, moe.EP, moe.BP_M],
    },
    targets=(
        Target("tpu_v5p", {"B": 64}, 512),
        Target("h100", {"B": 32, "M": 8}, 512),
        Target("tpu_v5p", {"P": 8, "B": 64, "M": 4}, 4096),
    ),
    small_mesh={"P": 2, "B": 2, "M": 2},
)
# MP on the axis that BP would take: where there is but one.
_MP_ALONE = partir.ManualPartition({"params/*/up": 1}, axis="B", name="MP alone")
_MLP = {
    "MP alone": [_MP_ALONE],
    "MP+MP alone": [mlp.MODEL, _MP_ALONE],
    "BP": [mlp.BATCH],
    "BP+Z2": [mlp.BATCH, _Z2],
    "BP+Z3": [mlp.BATCH, _Z3],
    "MP": [mlp.MODEL],
    "BP+MP": [mlp.BATCH, mlp.MODEL],
    "BP+MP+Z2": [mlp.BATCH, mlp.MODEL, _Z2],
}
WIDE_MLP = Model(
    name="wide MLP",
    step=lambda config: mlp.train_step,
    args=mlp.example_args,
    small=mlp.Config(blocks=2, width=8, hidden=16, batch=16),
    full=lambda batch: mlp.Config.wide(batch=batch),
    schedules=_MLP,
    targets=(
        Target("tpu_v3", {"B": 32}, 512),
        Target("h100", {"B": 2, "M": 8}, 512),
    ),
)
TALL_MLP = replace(
    WIDE_MLP,
    name="tall MLP",
    full=lambda batch: mlp.Config.tall(batch=batch),
    targets=(
        Target("tpu_v3", {"B": 32}, 1048576),
        Target("a100", {"B": 8}, 524288),
    ),
)

MODELS = {
    model.name: model
    for model in (
        T32,
        T48,
        SCANNED,
        UNET,
        GNS,
        IT32,
        MOE,
        WIDE_MLP,
        TALL_MLP,
    )
}
