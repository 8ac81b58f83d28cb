"""Which types have all numbers of which others, in the same order."""

from __future__ import annotations

# Floats of few bits: all of their numbers are numbers of every common type of floats.
SMALL = frozenset(
    "f4E2M1FN f6E2M3FN f6E3M2FN f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 "
    "f8E5M2FNUZ".split()
)
_COMMON = frozenset({"f16", "bf16", "f32", "f64"})
_WIDER = {"f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",)}


def is_whole(dtype: str) -> bool:
    """Whether a type is one of integers, or of truths."""
    return dtype[0] in "iu"


def widens(narrow: str, wide: str) -> bool:
    """Whether each number of a type is one of another, and stays what it is there."""
    if narrow in SMALL:
        return wide in _COMMON
    if not is_whole(narrow) or not is_whole(wide) or wide == "i1":
        return False
    if narrow == "i1":
        return True
    have, want = (int(dtype.lstrip("ui")) for dtype in (wide, narrow))
    return have > want and (narrow[0] == wide[0] or narrow[0] == "u")


def has_all_of(wide: str, narrow: str) -> bool:
    """Whether a type of floats has all numbers of another, common ones among them."""
    return wide == narrow or wide in _WIDER.get(narrow, ()) or widens(narrow, wide)
