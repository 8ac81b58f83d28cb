"""Where a nan comes from, when jax_debug_nans or jax_debug_infs finds one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from partir.errors import NotFinite, user_line
from partir.execute.interface import Interface
from partir.execute.placing import several_processes


def raise_not_finite(
    name: str,
    interface: Interface,
    arrays: Sequence[Any],
    mesh: Any,
    error: FloatingPointError,
) -> NoReturn:
    """Run the function itself, op by op, on the same arguments: jax names the op then.

    jax does not donate while it looks for such values: the arguments are still there.
    """
    told = str(error).rstrip(".")
    what = f"{name}, partitioned, gave a value that is not finite ({told})"
    if interface.fn is None:
        raise NotFinite(
            f"{what}. To find the op, partition the function instead of its lowered "
            "module: it is then run op by op"
        ) from error
    if several_processes(mesh):
        raise NotFinite(
            f"{what}. With several processes the op is not looked for: run the "
            "function on one process, jax.jit(fn)(...), with smaller arguments"
        ) from error
    _run_op_by_op(what, interface, arrays)
    raise NotFinite(
        f"{what}. Run op by op without partitioning, it gives none: compare it with "
        "jax.jit(fn)(...) on one device; sums are added in another order here, and one "
        "of their parts may overflow"
    ) from error


def _run_op_by_op(what: str, interface: Interface, arrays: Sequence[Any]) -> None:
    assert interface.fn is not None
    args, kwargs = interface.call.rebuild(arrays)
    try:
        interface.fn(*args, **kwargs)
    except FloatingPointError as found:
        line = user_line(found)
        raise NotFinite(
            f"{what}. Run op by op without partitioning: {found}"
            + ("" if line is None else f" at {line}")
        ) from found
    except Exception as failed:
        reason = str(failed).partition("\n")[0]
        raise NotFinite(
            f"{what}. To find the op it was run op by op without partitioning, which "
            f"failed: {type(failed).__name__}: {reason}"
        ) from failed
