"""`ExportPolicy`: how a program is written for a compiler that is to keep it.

What was decided is one thing, what a compiler makes of it another, and compilers
differ. What each was seen to need is here: data, part of a device's spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from partir.errors import PartitionError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPolicy:
    """What a compiler has to be given, so that gathers stay where they are.

    A weight that is gathered for the forward and again for the backward pass waits, by
    an optimization barrier, for what it is needed with: the gathers are *tied*.

    Args:
        name: what specs in files call it.
        ties_first: whether the first gather of a value is tied as well as later ones.
            If not, what it would wait for need not be in memory.
        ties_large: whether they are tied all the same where what they would wait for is
            little beside what they make.
        reads_through: whether a gather's reader reads through the barrier what the
            gather waited for. XLA on CPUs drops results of barriers that nobody reads,
            and with them the wait.
        scatters_major: whether what is scattered is put in order first, if that makes
            the scattered dimension a more major one.
        sums_ordered: whether what is reduced is put in order first, where it is
            transposed behind the reduction.
        gathers_results: whether results are made of tiles and gathered, instead of made
            of what was gathered.
        keeps_arguments: whether an argument is kept until the result that takes its
            place is gathered. XLA for TPUs would else copy it first.
        ties_in_loops: whether all gathers in loops are tied, not only repeated ones.
        sums_in_loops: whether a loop sums the slices that it writes into a stack,
            instead of the stack being summed behind it.
        outer_tiles: whether what is gathered, scattered or exchanged along an inner
            dimension is moved as tiles along an outer one, and put in order on the
            device.
        holds_scatters: whether what is scattered in a loop is held by a barrier, so
            that the loop stays as it is. XLA for GPUs would let the next iteration
            scatter it, and run the first one before the loop.
        orders_products: whether a product waits for those before it that free more
            memory than they take.
        orders_in_loops: whether that is so in loops, too.
        orders_gathered: whether it waits, too, if its weight is gathered for it. The
            gather does not wait, and the weight is in memory meanwhile.
        orders_summed: whether it waits for all of those, not only for gradients that
            are scattered.
        orders_sums: whether a product waits for sums before it as well that free more
            memory than it takes; if the compiler is told to mind memory, where it is.
        starts_late: whether what a scatter starts from, one number throughout, waits
            for what is scattered. XLA on CPUs makes it first of all.
        orders_reads: whether the compiler is told to read donated arguments for the
            last time before it overwrites them, instead of copying them first.
        minds_memory: whether the compiler is told to order ops by the memory that they
            take and free, not by what could run at once.
        turns_products: whether a product over rows is made the way round in which it is
            read, instead of transposed behind.
        orders_late: whether what such a product puts in order first waits for its other
            operand. XLA on CPUs does it as soon as it can, in the forward pass.
        halves_rows: whether such a product of matrices sums over two halves of its
            rows. XLA on CPUs puts operands in order for its quick kernels only if they
            have more than two dimensions.
        flattens_weights: whether a product reads its right operand as a matrix where it
            sums over the last dimensions of that. XLA on CPUs puts one of more than two
            dimensions in order first.
        scatters_first: whether what is scattered of what a loop carries is scattered
            before that is replaced. XLA on CPUs makes the whole of it before, but may
            scatter it last of all.
        uses_first: whether what is gathered last of a parameter is used before that is
            replaced. XLA on CPUs gathers it before, but may use it much later.
        keeps_sums: whether a sum is kept, by a barrier, where it outlives one of its
            parts. XLA on CPUs adds them up again in each kernel that reads it.
        moves_together: whether small values that go to other devices by one kind of
            collective go together, in one.
        drops_barriers: whether barriers that the author wrote are left out where no
            gather and no product waits. XLA on CPUs would take them out, and with them
            those that a joint collective's parts are read behind.

    Example:
        >>> ExportPolicy(name="mine", ties_first=False).as_data()["ties_first"]
        False
    """

    name: str = ""
    ties_first: bool = True
    ties_large: bool = False
    reads_through: bool = False
    scatters_major: bool = False
    sums_ordered: bool = False
    gathers_results: bool = False
    keeps_arguments: bool = False
    ties_in_loops: bool = False
    sums_in_loops: bool = False
    outer_tiles: bool = False
    holds_scatters: bool = False
    orders_products: bool = False
    orders_in_loops: bool = True
    orders_gathered: bool = True
    orders_summed: bool = True
    orders_sums: bool = False
    starts_late: bool = False
    orders_reads: bool = False
    minds_memory: bool = False
    turns_products: bool = False
    orders_late: bool = False
    halves_rows: bool = False
    flattens_weights: bool = False
    scatters_first: bool = False
    uses_first: bool = False
    keeps_sums: bool = False
    moves_together: bool = False
    drops_barriers: bool = False

    def __post_init__(self) -> None:
        """Check every answer."""
        for one in fields(self)[1:]:
            value = getattr(self, one.name)
            if not isinstance(value, bool):
                raise PartitionError(
                    f'export policy "{self.name}": {one.name} must be true or false, '
                    f"got {value!r}"
                )

    def as_data(self) -> str | dict[str, Any]:
        """Its name if it is built in, else all that it says; for files."""
        return self.name if POLICIES.get(self.name) == self else asdict(self)


PLAIN = ExportPolicy(name="plain")
# XLA:CPU runs what waits for nothing first: every gather at once (141 MB of temporaries
# for 16 layers of ZeRO-3; 25 MB if readers read through the barrier).
# It lays out what it gathers or scatters along an inner dimension with that dimension
# first, and copies all that this is made of. What devices exchange it cuts and puts
# together by kernels of its own, one for each place, and compiles some of them for
# every op again. It combines all-reduces in loops as well.
# A product over rows takes half to a third of the time if its left operand is put in
# order first, which XLA does not do by itself where the result is transposed, or where
# both operands are matrices.
# A weight that was gathered and then waits is in memory meanwhile: T5 with ZeRO-3 takes
# 383 MiB if its products wait, 351 if not.
XLA_CPU = ExportPolicy(
    name="xla_cpu",
    reads_through=True,
    scatters_major=True,
    gathers_results=True,
    ties_in_loops=True,
    sums_in_loops=True,
    outer_tiles=True,
    starts_late=True,
    orders_reads=True,
    orders_products=True,
    orders_gathered=False,
    orders_sums=True,
    minds_memory=True,
    turns_products=True,
    orders_late=True,
    halves_rows=True,
    flattens_weights=True,
    scatters_first=True,
    uses_first=True,
    keeps_sums=True,
    moves_together=True,
    drops_barriers=True,
)
# An MLP with ZeRO-2 takes 1313 MiB if updates are gathered, 1153 if parameters are.
# A scanned transformer with ZeRO-2 takes 1361 MiB of temporaries if an iteration of its
# backward pass runs before the loop, 1127 if not. A scanned MLP with large activations
# takes 1504 MiB if gradients are summed behind the loop, 1456 if in it. A transformer
# with large activations takes 1665 MiB if its loss is left for later, and the logits
# are kept for it, 1617 if the first products of the backward pass wait for the loss.
XLA_GPU = ExportPolicy(
    name="xla_gpu",
    gathers_results=True,
    sums_in_loops=True,
    holds_scatters=True,
    orders_products=True,
    orders_sums=True,
)
# XLA's scheduler for TPUs minds memory by itself, and hardly merges gathers; a tie
# keeps activations in memory that would have been fused, until the backward pass. It
# pays where these are small: an MLP with ZeRO-3 takes 597 MiB with ties, 677 without
# (v5p; 569 and 579 on v5e, and 0.96x of the cycles), and in loops, where activations
# are kept for the backward pass anyway: a scanned transformer takes 731 and 780 (v5e;
# 843 either way on v5p), with up to 3% more cycles. Which dimension is minor it chooses
# by what makes a value: if a gradient is scattered along its minor one, parameters and
# state are copied into that order. Updates that are gathered before they are subtracted
# are all in memory at once. An iteration has the products of one layer, whose order the
# scheduler finds: a scanned MLP with activations larger than weights takes 1330 MiB
# with data parallelism, 1378 if products wait (by memory_analysis, which counts what is
# lost between temporaries twice). With layers unrolled, gradients that stay whole are
# well ordered too: 1107 MiB and 16.5e6 cycles, 1171 and 17.4e6 if products wait for
# them. Scattered ones it leaves for later.
XLA_TPU = ExportPolicy(
    name="xla_tpu",
    ties_first=False,
    ties_large=True,
    scatters_major=True,
    sums_ordered=True,
    gathers_results=True,
    keeps_arguments=True,
    ties_in_loops=True,
    orders_products=True,
    orders_in_loops=False,
    orders_summed=False,
)
POLICIES = {policy.name: policy for policy in (PLAIN, XLA_CPU, XLA_GPU, XLA_TPU)}
_PLATFORMS = {"cpu": XLA_CPU, "tpu": XLA_TPU} | dict.fromkeys(
    ("gpu", "cuda", "rocm"), XLA_GPU
)


def policy_of(platform: str) -> ExportPolicy:
    """The policy of a platform as jax calls it; a plain one for those not known."""
    return _PLATFORMS.get(platform, PLAIN)


def export_policy_from_data(data: str | Mapping[str, Any], where: str) -> ExportPolicy:
    """A policy by its name, or from a table; errors name what is not known."""
    if isinstance(data, str):
        if data not in POLICIES:
            raise _unknown(where, "export policy", data, POLICIES)
        return POLICIES[data]
    known = {one.name: one for one in fields(ExportPolicy)}
    for name in data:
        if name not in known:
            raise _unknown(where, "field of an export policy", name, known)
    return ExportPolicy(**data)


def _unknown(
    where: str, what: str, name: str, known: Mapping[str, Any]
) -> PartitionError:
    return PartitionError(
        f'{where}: no {what} "{name}"; nearest: {nearest(name, known)}'
    )
