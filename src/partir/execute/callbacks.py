"""Host callbacks: those of a traced function are carried over, others can't run."""

from __future__ import annotations

from partir.errors import PartitionError
from partir.frontend.trace import Traced
from partir.ir.core import Op, Program
from partir.rules.host import HOST_OPS, calls_host


def refuse_callbacks(program: Program) -> None:
    """A callback in lowered text is an index into a table of that lowering.

    Run from anywhere else, it would call some other function, or kill the process.
    """
    carried = isinstance(program, Traced) and bool(program.callbacks)
    for op in program.ops:
        if _is_callback(op) and not (carried and calls_host(op.signature)):
            raise PartitionError(
                f"{program.name} calls the host back (jax.debug.print, pure_callback, "
                f"io_callback) at {op.location}, and the function it calls is not part "
                "of the module. Such a program can be partitioned and looked at, but "
                "not run: partition the function itself instead of its lowered module, "
                "or take the call out of it"
            )


def _is_callback(op: Op) -> bool:
    target = op.signature.attrs.get("call_target_name", "")
    return "callback" in target or op.kind in HOST_OPS
