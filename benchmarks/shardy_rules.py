"""partir's rules beside those of Shardy, which jaxlib carries: writes docs/shardy.md.

    python -m benchmarks.shardy_rules

The ops are the samples that tests/rules draws on. Shardy is asked in a process of its
own, since some ops make it crash.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax

import tests.rules.samples  # noqa: F401  (registers every family)
from benchmarks.shardy_page import page
from benchmarks.shardy_verdicts import Verdict, compared
from partir.ir.core import Signature
from tests.rules.samples.sample import kinds, samples_of
from tests.rules.tiles import Local

PAGE = Path(__file__).parents[1] / "docs" / "shardy.md"
ANSWERS = Path(__file__).with_name("shardy_answers.py")


def main() -> None:
    """Compare and write the page."""
    PAGE.write_text(page(verdicts()), encoding="utf-8")
    print(f"wrote {PAGE}")


def verdicts() -> list[Verdict]:
    """One for each op that differs from others in its rules."""
    with jax.enable_x64(True):
        ops = list(signatures())
    answers = ask([module_text(op) for op in ops])
    found = (compared(op, answer) for op, answer in zip(ops, answers, strict=True))
    return list({verdict.key: verdict for verdict in found}.values())


def signatures() -> Iterator[Signature]:
    """Ops of the samples; custom calls are the caller's business in Shardy too."""
    for kind in sorted(kinds()):
        if kind.startswith(("stablehlo.", "chlo.")) and "custom_call" not in kind:
            for sample in samples_of(kind):
                yield sample.signature


def module_text(op: Signature) -> str:
    """A module with nothing but this op."""
    emitter = Local()
    operands = [emitter.argument(type_) for type_ in op.operands]
    results = emitter.op(op.kind, operands, op.results, op.attrs, op.lambdas)
    return emitter.module("one", operands, results)


def ask(texts: Sequence[str]) -> list[str | None]:
    """Shardy's rule for the op of each module; None if it has none or crashes."""
    answers: list[str | None] = []
    while len(answers) < len(texts):
        found = _ask_until_crash(texts[len(answers) :])
        answers += found
        if len(answers) < len(texts):
            answers.append(None)
    return answers


def _ask_until_crash(texts: Sequence[str]) -> list[str | None]:
    done = subprocess.run(
        [sys.executable, ANSWERS],
        input="\n".join(map(json.dumps, texts)),
        capture_output=True,
        text=True,
        check=False,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    main()
