"""The pipeline: from a function to a module for one device, one line per stage."""

from __future__ import annotations

from functools import partial

from partir.api.later import for_each, later
from partir.api.partitioned import Partitioned
from partir.api.running import Running
from partir.api.source import Source, donated, trace
from partir.api.step import Step
from partir.execute.device_module import export
from partir.explain.expectations import require_all
from partir.mesh import Mesh
from partir.partition.actions import Partition
from partir.partition.complete import complete
from partir.report.remarks import refuse_whole
from partir.spmd.lowering.lower import lower
from partir.spmd.lowering.resting_operands import rest_operands
from partir.spmd.rewrites.table import rewrite
from partir.spmd.stages import lower_state
from partir.tactics.apply import apply_schedule
from partir.tactics.schedule import Schedule


def pipeline(
    source: Source, mesh: Mesh, schedule: Schedule, running: Running
) -> Partitioned:
    """Trace, partition, complete, lower, rewrite, export.

    A schedule gives a partition after each of its tactics, and every one of them can be
    followed to the end. Of most nobody asks that: stages that are `later` are made when
    they are read.
    """
    program = trace(source, mesh)
    setting = running.setting(mesh, partial(donated, source, program))
    partition = Partition(program, mesh, lower_state, setting, running.share(mesh))
    steps: list[Step] = []
    for tactic in apply_schedule(schedule, partition):
        completed = later(complete, tactic.state)
        settled = later(rest_operands, completed)
        lowered = later(lower, settled)
        rewritten = later(rewrite, lowered)
        module = for_each(export, rewritten)
        stages = settled, rewritten, module
        steps.append(Step(*tactic, partition.names, setting, *stages))
    partitioned = Partitioned(partition, steps, source, running)
    if running.strict:
        refuse_whole(partitioned.replicated_ops)
    require_all(steps, running.expect)
    return partitioned
