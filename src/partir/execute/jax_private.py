"""Private parts of jax that running programs needs, and what differs by its version.

The only file outside the frontend that may import `jax._src`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax._src import debugging, distributed, xla_bridge
from jax._src.array import ArrayImpl
from jax._src.lax import lax

HOST_EFFECT: Any = debugging.debug_effect
"""Of programs that call the host: jax then keeps what nobody reads."""

INTERPRETS_FFT = jax.__version_info__ >= (0, 9)
"""Whether the StableHLO interpreter that comes with jax knows `fft`."""

SCHEDULER_TYPES = jax.__version_info__ >= (0, 9)
"""Whether XLA on CPUs has schedulers by name; before, one is on or off."""


def any_deleted(arrays: Sequence[Any]) -> bool:
    """Whether one of these is an array that was donated or deleted."""
    try:
        return any(map(ArrayImpl.is_deleted, arrays))
    except TypeError:  # not all are of this class
        concrete = (a for a in arrays if not isinstance(a, jax.core.Tracer))
        return any(a.is_deleted() for a in concrete if isinstance(a, jax.Array))


def uses_devices() -> bool:
    """Whether a back end has been started, without starting one."""
    return bool(xla_bridge.backends_are_initialized())


def coordination_client() -> Any:
    """What reaches the service that processes meet at; None if there is none."""
    return distributed.global_state.client


def weaken(x: Any) -> Any:
    """The same array, weakly typed: its dtype gives way to others'."""
    return lax._convert_element_type(x, x.dtype, weak_type=True)


def spec_text(spec: Any) -> str:
    """A PartitionSpec as ``P('B', 'M')``; before 0.9 jax spells out the class."""
    return str(spec).replace("PartitionSpec(", "P(", 1)


def key_implementation(dtype: Any) -> str:
    """Which generator PRNG keys of this dtype are for."""
    return str(dtype._impl.name)
