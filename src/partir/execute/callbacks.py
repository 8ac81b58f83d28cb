"""Host callbacks, which a device-local program can't run yet."""

from __future__ import annotations

from partir.errors import PartitionError
from partir.ir.core import Op, Program

_HOST_OPS = frozenset(
    {"stablehlo.send", "stablehlo.recv", "stablehlo.infeed", "stablehlo.outfeed"}
)


def refuse_callbacks(program: Program) -> None:
    """A callback in lowered text is an index into a table of that lowering.

    Run from anywhere else, it would call some other function, or kill the process.
    """
    for op in program.ops:
        if _is_callback(op):
            raise PartitionError(
                f"{program.name} calls the host back (jax.debug.print, pure_callback, "
                f"io_callback) at {op.location}. Such a program can be partitioned and "
                "looked at, but not run yet: take the call out of the function, or "
                "return the value and use it outside"
            )


def _is_callback(op: Op) -> bool:
    target = op.signature.attrs.get("call_target_name", "")
    return "callback" in target or op.kind in _HOST_OPS
