"""Where stacks of ops end: at the call of the user's function.

Who partitions a function is no part of its stacks. From jax 0.9 on jax ends them for us
(`StackScope`); before, this file is a mark in them that `Locations` looks for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from partir.frontend.jax_private import show_in_stacks

BOUNDARY = __file__


def call_user(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function; its stacks begin here."""
    return fn(*args, **kwargs)


show_in_stacks(BOUNDARY)
