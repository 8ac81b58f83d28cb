"""The last step before export: the program as one compiler wants it.

The collectives are those that were decided, by the values that they make; what changes
is how they are tied, and which of the ops around them stand before or behind. To add a
pass, write it here or beside its kin, and put it into `PREPARATIONS`.
"""

from __future__ import annotations

from collections.abc import Sequence

from partir.rules.identities import WAITING, cites
from partir.spmd.export_policy import ExportPolicy
from partir.spmd.preparations.authors_barriers import drop_barriers
from partir.spmd.preparations.carried_scatters import scatter_before_replacing
from partir.spmd.preparations.gathered_results import gather_results
from partir.spmd.preparations.joint_moves import move_together
from partir.spmd.preparations.kept_sums import keep_sums
from partir.spmd.preparations.last_gathers import use_before_replacing
from partir.spmd.preparations.late_operands import put_in_order_late
from partir.spmd.preparations.loop_sums import sum_inside_loops
from partir.spmd.preparations.major_scatters import (
    order_before_sums,
    scatter_major_dimensions,
)
from partir.spmd.preparations.product_order import waits_of
from partir.spmd.preparations.turned_products import halve_rows, turn_products
from partir.spmd.program import Collective, SpmdOp, SpmdProgram, has_barriers
from partir.spmd.rewrites.sweep import Pass, Sweep, run_pass
from partir.spmd.rewrites.tie_gathers import (
    gather_key,
    tie_gathers_in_loops,
    tie_large_gathers,
)


def has_ties(program: SpmdProgram) -> bool:
    """Whether a gather waits for what it is needed with."""
    return any(op.after >= 0 for op in program.moves)


@cites(WAITING)
def untie_first_gathers(sweep: Sweep, ops: Sequence[SpmdOp]) -> Sequence[SpmdOp]:
    """The first gather of a value waits for nothing.

    rewrite:
        %1 = all_gather 0 {B} %w after %x ; … ; %2 = all_gather 0 {B} %w after %y
        ->
        %1 = all_gather 0 {B} %w ; … ; %2 = all_gather 0 {B} %w after %y
    """
    if all(op.after < 0 for op in sweep.block.moves):
        return ops
    made, seen = list(ops), set[tuple[object, ...]]()
    for place, op in enumerate(ops):
        if type(op) is Collective and gather_key(op) not in seen:
            seen.add(gather_key(op))
            made[place] = op._replace(after=-1)
    return made


PREPARATIONS: tuple[tuple[str, bool, Pass], ...] = (
    ("ties_first", False, untie_first_gathers),
    ("ties_large", True, tie_large_gathers),
    ("scatters_major", True, scatter_major_dimensions),
    ("sums_ordered", True, order_before_sums),
    ("gathers_results", True, gather_results),
    ("ties_in_loops", True, tie_gathers_in_loops),
    ("sums_in_loops", True, sum_inside_loops),
    ("moves_together", True, move_together),
    ("turns_products", True, turn_products),
    ("scatters_first", True, scatter_before_replacing),
    ("uses_first", True, use_before_replacing),
    ("orders_late", True, put_in_order_late),
    ("halves_rows", True, halve_rows),
    ("keeps_sums", True, keep_sums),
)
"""A question of the policy, the answer to it, and the pass that is then run."""
# What is recomputed without the author's barriers, but behind ours, is hard to foresee:
# it may be merged with what it repeats, or not. Either ours are there or none.
_BARRIERS = (put_in_order_late, keep_sums)
_DROPPING = "drops_barriers", True, drop_barriers


def prepared(program: SpmdProgram, policy: ExportPolicy) -> SpmdProgram:
    """The program for a compiler; the same if there is nothing to change."""
    idle: bool | None = None  # the author's barriers; asked once, where it matters
    for question, answer, one in (*PREPARATIONS, _DROPPING):
        if getattr(policy, question) is not answer:
            continue
        if one in _BARRIERS or one is drop_barriers:
            idle = _has_idle_barriers(program, policy) if idle is None else idle
            if idle is not (one is drop_barriers):
                continue
        program = run_pass(program, one)
    return program


def _has_idle_barriers(program: SpmdProgram, policy: ExportPolicy) -> bool:
    """Whether the author has written barriers, and no gather and no product waits."""
    if not has_barriers(program, written=True):
        return False
    return not has_ties(program) and not waits_of(program, policy)
