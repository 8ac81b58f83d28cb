"""Calls to the host. Their effects happen once, not once per device."""

from __future__ import annotations

from partir.ir.core import Signature

HOST_OPS = frozenset(
    {"stablehlo.send", "stablehlo.recv", "stablehlo.infeed", "stablehlo.outfeed"}
)
"""Ops that speak with the host, or with other devices, by themselves."""


def has_effects(op: Signature) -> bool:
    """Whether it does more than make its results, so that it can't be left out."""
    return op.attrs.get("has_side_effect") == "true" or op.kind in HOST_OPS


def calls_host(op: Signature) -> bool:
    """Whether the op calls a Python function on the host."""
    return "python" in op.attrs.get("call_target_name", "")


def runs_once(op: Signature) -> bool:
    """Whether only one device may run it; the others get its results from there."""
    custom = op.kind == "stablehlo.custom_call"
    return custom and calls_host(op) and op.attrs.get("has_side_effect") == "true"
