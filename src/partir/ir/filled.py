"""Constants that are one number everywhere, whatever their shape."""

from __future__ import annotations

from functools import lru_cache

from partir.ir.core import Signature
from partir.ir.types import TensorType

CONSTANT = "stablehlo.constant"
_LITERAL = "literal"


@lru_cache(maxsize=1 << 10)
def filled(type_: TensorType, literal: str) -> Signature:
    """The constant of this type that is one number, in MLIR's spelling, everywhere."""
    attrs = {"value": f"dense<{literal}> : {type_.text}"}
    return Signature.of(CONSTANT, attrs, (), (type_,))


def literal_of(signature: Signature) -> str | None:
    """The number that a constant is everywhere, if it is one."""
    if signature.kind != CONSTANT:
        return None
    if _LITERAL not in signature.cache:
        signature.cache[_LITERAL] = _literal_in(signature.attrs["value"])
    literal: str | None = signature.cache[_LITERAL]
    return literal


def _literal_in(text: str) -> str | None:
    if not text.startswith("dense<") or text.startswith(("dense<[", 'dense<"')):
        return None
    return text[len("dense<") : text.rindex(">", 0, text.rindex(" : "))]
