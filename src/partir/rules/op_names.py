"""One name for ops that are the same thing under several."""

from __future__ import annotations

from partir.ir.core import Signature

_BROADCASTING = "chlo.broadcast_"
_CHLO = frozenset(("next_after", "polygamma", "zeta"))


def canonical(op: Signature) -> str:
    """The kind under which tables of traits and costs have this op.

    chlo's broadcasting forms are those without; XLA's own functions, which come as
    custom calls, are chlo's.
    """
    kind = op.kind
    if kind.startswith(_BROADCASTING):
        name = kind[len(_BROADCASTING) :]
        return f"{'chlo' if name in _CHLO else 'stablehlo'}.{name}"
    if kind == "stablehlo.custom_call":
        target = op.attrs.get("call_target_name", "").strip('"')
        return f"chlo.{target[5:]}" if target.startswith("mhlo.") else kind
    return kind
