"""How often a loop runs, where its bounds are constants."""

from __future__ import annotations

from partir.ir.core import Op, Program, Region


def trip_count(program: Program, index: int) -> int | None:
    """Iterations of a while that counts from a constant to a constant; None if unknown.

    Anything else with regions (a branch) runs once.
    """
    op = program.ops[index]
    if op.kind != "stablehlo.while":
        return 1
    condition, body = op.regions
    test = _producer(program, condition, condition.results[0])
    if test is None or test.kind != "stablehlo.compare":
        return None
    counter, bound = test.operands
    if counter not in condition.arguments:
        return None
    position = condition.arguments.index(counter)
    numbers = [
        _number(program, bound),
        _number(program, op.operands[position]),
        _step(program, body, position),
    ]
    if any(n is None for n in numbers):
        return None
    limit, start, step = (n for n in numbers if n is not None)
    direction = test.signature.attrs["comparison_direction"]
    limit += "LE>" in direction
    if not ("LT>" in direction or "LE>" in direction) or step <= 0:
        return None
    return max(0, -(-(limit - start) // step))


def _step(program: Program, body: Region, position: int) -> int | None:
    op = _producer(program, body, body.results[position])
    argument = body.arguments[position]
    if op is None or op.kind != "stablehlo.add" or argument not in op.operands:
        return None
    other = op.operands[1 - op.operands.index(argument)]
    return _number(program, other)


def _producer(program: Program, region: Region, value: int) -> Op | None:
    index = program.producers.get(value)
    return program.ops[index] if index in region.ops and index is not None else None


def _number(program: Program, value: int) -> int | None:
    text = program.splats.get(value, "")
    return int(text) if text.lstrip("-").isdigit() else None
