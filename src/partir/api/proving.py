"""What comes of a proof before a program runs: nothing, a warning, or an error."""

from __future__ import annotations

import warnings

from partir.errors import NotProvedWarning
from partir.frontend.opaque_calls import local_functions
from partir.frontend.trace import Traced
from partir.ir.core import Program
from partir.rules.user import user_rules
from partir.verify import Promises, Proof


def promises(program: Program) -> Promises:
    """What users say of calls: their rules, and functions that are kept whole."""
    opaque = program.opaque if isinstance(program, Traced) else {}
    return Promises(user_rules(), local_functions(opaque))


def require_proof(proof: Proof, strict: bool) -> None:
    """Raise what is wrong, and warn of what is not proved; raise that, too, if strict.

    Raises:
        VerificationError: a result that is wrong, or not proved.
    """
    if proof.disproved or strict:
        proof.require()
    if proof.not_proved:
        warnings.warn(_not_proved(proof), NotProvedWarning, stacklevel=5)


def _not_proved(proof: Proof) -> str:
    """One warning for all results: the first, with its op and line."""
    first, count = proof.not_proved[0], len(proof.not_proved)
    others = f", nor are {count - 1} others" if count > 1 else ""
    op = f", at {first.op}" if first.op else ""
    return (
        f"{first}{op}{others}. The program runs all the same; p.verify() shows the "
        'part, strict=True makes this an error, verify="off" leaves the proof out'
    )
