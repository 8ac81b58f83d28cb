"""Branches that are known before the program runs."""

from __future__ import annotations

from partir.rules.identities import TAKEN, cites


@cites(TAKEN)
def taken_branch(kind: str, number: str | None, count: int) -> int | None:
    """The one branch that a case or if takes, which then stands in its place.

    `number` is what it branches on, if that is known. `lax.platform_dependent` makes
    such cases.

    rewrite:
        %0 = constant 1
        %y = case(%0) { %a } { %b }    ->    %y = %b
    """
    if kind == "stablehlo.if":
        return {"true": 0, "false": 1}.get(number or "")
    if count == 1:
        return 0
    if number is None:
        return None
    branch = int(number)
    return branch if 0 <= branch < count else count - 1
