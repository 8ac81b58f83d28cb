"""The versions of jax that partir runs on; any other is refused at import."""

from __future__ import annotations

import os
import re

import jax

from partir.errors import PartirError

FIRST, BEFORE = "0.8.3", "0.11"
"""The window, as in pyproject.toml. The newest patch of each minor version is tested.

What differs between versions is in `frontend/jax_private.py` and
`execute/jax_private.py`.
"""

ANY_JAX = "PARTIR_ANY_JAX"
"""Set to 1, this environment variable lets other versions through."""


GROUPS_BY_AXES = jax.__version_info__ >= (0, 10)
"""Whether StableHLO has replica groups that are spelled by mesh axes."""


class JaxVersionError(PartirError, ImportError):
    """A version of jax that partir is not made for."""


def require_jax(version: str = jax.__version__) -> None:
    """Check a version against the window.

    >>> require_jax("0.9.2")
    """
    if os.environ.get(ANY_JAX, "0") not in ("", "0"):
        return
    if not _numbers(FIRST) <= _numbers(version) < _numbers(BEFORE):
        raise JaxVersionError(
            f"partir runs on jax from {FIRST} to before {BEFORE}, and this is jax "
            f"{version}: pip install 'jax>={FIRST},<{BEFORE}'. To try this version all "
            f"the same, set {ANY_JAX}=1 in the environment"
        )


def _numbers(version: str) -> tuple[int, ...]:
    """``0.9.0.1`` as numbers; what follows them (``rc1``, ``.dev2026``) is ignored."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


require_jax()
