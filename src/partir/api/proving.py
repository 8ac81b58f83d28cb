"""What comes of a proof before a program runs: nothing, a warning, or an error."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from partir.errors import NotProvedWarning, VerificationError
from partir.frontend.opaque_calls import local_functions
from partir.frontend.trace import Traced
from partir.ir.core import Program
from partir.rules.user import user_rules
from partir.verify import NotProved, Promises, Proof

_LIBRARIES = (
    "site-packages",
    "dist-packages",
    "<",
    str(Path(__file__).parents[1]),
    str(Path(os.__file__).parent),
)
_LONGEST = 100  # characters of an op that are shown


def promises(program: Program) -> Promises:
    """What users say of calls: their rules, and functions that are kept whole."""
    opaque = program.opaque if isinstance(program, Traced) else {}
    return Promises(user_rules(), local_functions(opaque))


def require_proof(proof: Proof, name: str, strict: bool) -> None:
    """Raise what is wrong, and warn of what is not proved; raise that, too, if strict.

    Raises:
        VerificationError: a result that is wrong, or not proved.
    """
    if proof.disproved:
        raise VerificationError(
            _shown(name, proof, proof.disproved)
            + ". A wrong program is a bug of partir, please report it: it is not run "
            f'unless you say verify="off"{_part(proof.disproved[0])}'
        )
    if proof.not_proved and strict:
        raise VerificationError(
            _shown(name, proof, proof.not_proved)
            + ". With strict=True only what is proved runs; verify="
            f'"off" leaves the proof out{_part(proof.not_proved[0])}'
        )
    if proof.not_proved:
        warnings.warn(
            _shown(name, proof, proof.not_proved)
            + ". It runs, and may well be right: not all programs can be proved yet. "
            'verify="off" leaves the proof out, strict=True makes this an error, '
            "p.verify() shows the part",
            NotProvedWarning,
            stacklevel=_users_level(),
        )


def _users_level() -> int:
    """How many calls up the first line is that is neither ours nor a library's."""
    frame, level = sys._getframe(1), 1
    while any(part in frame.f_code.co_filename for part in _LIBRARIES):
        if frame.f_back is None:
            return 1
        frame, level = frame.f_back, level + 1
    return level


def _shown(name: str, proof: Proof, failed: tuple[NotProved, ...]) -> str:
    """The first result with its op and line, and how many there are."""
    first, total = failed[0], len(proof.proved) + len(proof.not_proved)
    op = first.op if len(first.op) <= _LONGEST else first.op[:_LONGEST] + " …"
    others = f" ({len(failed)} of {total} results)" if total > 1 else ""
    return f"{name}: {first}{f', in {op}' if op else ''}{others}"


def _part(failed: NotProved) -> str:
    return f".\nThe part that shows it:\n{failed.module}" if failed.module else ""
