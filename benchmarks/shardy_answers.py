"""Shardy's rules for modules on standard input, a line of JSON each way.

A program of its own, which imports little: it is started anew after every crash.
"""

from __future__ import annotations

import json
import sys

from jax.extend.mlir import ir, passmanager
from jax.interpreters import mlir as jax_mlir

PASS = "builtin.module(func.func(sdy-populate-op-sharding-rules))"
RULE = "sdy.sharding_rule"


def rule(text: str) -> str | None:
    """The rule of the first op of a module's one function."""
    with jax_mlir.make_ir_context():
        try:
            module = ir.Module.parse(text)
            passmanager.PassManager.parse(PASS).run(module.operation)
        except ir.MLIRError:
            return None
        function = module.body.operations[0]
        op = function.regions[0].blocks[0].operations[0].operation
        return str(op.attributes[RULE]) if RULE in op.attributes else None


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        print(json.dumps(rule(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
