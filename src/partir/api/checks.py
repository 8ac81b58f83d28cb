"""What users pass to `partition`, `trace` and `jit`, checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partir.errors import PartitionError
from partir.frontend.jax_private import known_platforms
from partir.frontend.leaves import abstract, show_aval


def require_arguments(args: Any, kwargs: Any, more: Sequence[Any] = ()) -> None:
    """`args` is a tuple of arguments, `kwargs` a mapping; nothing comes behind them."""
    one_by_one = (
        "partition takes a function's arguments together: write args=(params, x), not "
        "partition(fn, mesh, schedule, params, x)"
    )
    if more or not (kwargs is None or isinstance(kwargs, Mapping)):
        given = more[0] if more else kwargs
        raise PartitionError(f"{one_by_one}; got {_shown(given)} after the first one")
    if not isinstance(args, list | tuple):
        hint = "; arguments by name go into kwargs=" if isinstance(args, dict) else ""
        raise PartitionError(
            "partition: args= is a tuple of all arguments, also of a single one: "
            f"write args=(x,); got {_shown(args)}{hint}"
        )
    if isinstance(kwargs, Mapping) and not all(isinstance(n, str) for n in kwargs):
        raise PartitionError(
            f"partition: kwargs= maps names to arguments; got {kwargs}"
        )


def _shown(given: Any) -> str:
    """An array by its type, anything else by its kind: values may be large."""
    aval = abstract(given)
    return f"a {type(given).__name__}" if aval is None else show_aval(aval)


def require_platform(platform: Any) -> str:
    """A platform that jax has lowering rules for."""
    known = known_platforms()
    if not isinstance(platform, str) or platform not in known:
        raise PartitionError(
            "trace_for takes a platform and a function; a platform is one of "
            f"{', '.join(sorted(known))}, got {platform!r}"
        )
    return platform
