"""Collectives in regions that a model's author wrote for one device (a shard_map)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from partir.ir.core import Lambda, Op, Signature

KINDS = (
    "all_gather",
    "all_reduce",
    "reduce_scatter",
    "all_to_all",
    "collective_permute",
)
_GROUP = re.compile(r"\[([\d, ]+)\]")
_NUMBER = re.compile(r"dense<(-?\d+)>")


class ManualCollective(NamedTuple):
    """A collective: bytes of its whole, the devices of one group, how often it runs.

    No devices if the text doesn't say: all of them.
    """

    kind: str
    bytes: int
    devices: tuple[int, ...]
    times: int


def inner_ops(signature: Signature) -> Iterator[tuple[Op, int]]:
    """Ops in an op's regions, and in loops inside them, with how often they run."""
    for region in signature.lambdas:
        yield from _walk(region, 1)


def _walk(region: Lambda, times: int) -> Iterator[tuple[Op, int]]:
    for op in region.ops:
        yield op, times
        if op.signature.kind == "stablehlo.while":
            trips = _trips(region, op)
            for inner in op.signature.lambdas:
                yield from _walk(inner, times * trips)
        elif op.signature.kind == "stablehlo.case":
            for inner in op.signature.lambdas:
                yield from _walk(inner, times)


def manual_collectives(signature: Signature) -> Iterator[ManualCollective]:
    """Collectives among them."""
    for op, times in inner_ops(signature):
        kind = op.signature.name
        if kind not in KINDS:
            continue
        text = op.signature.attrs.get("replica_groups", "")
        text = text or op.signature.attrs.get("source_target_pairs", "")
        group = _GROUP.search(text)
        devices = tuple(map(int, group.group(1).split(","))) if group else ()
        pairs = zip(op.signature.operands, op.signature.results, strict=True)
        for operand, result in pairs:
            yield ManualCollective(
                kind, max(operand.bytes, result.bytes), devices, times
            )


def _trips(region: Lambda, op: Op) -> int:
    """Iterations of a loop that counts up to a constant; 1 if that is not known."""
    condition, body = op.signature.lambdas
    test = _maker(condition, condition.results[0])
    if test is None or test.signature.name != "compare":
        return 1
    counter, bound = test.operands
    if counter not in condition.arguments:
        return 1
    position = condition.arguments.index(counter)
    start = _number(region, op.operands[position])
    stop, step = _number(condition, bound), _step(body, position)
    if start is None or stop is None or not step:
        return 1
    return max(-(-(stop - start) // step), 0)


def _step(body: Lambda, position: int) -> int | None:
    op = _maker(body, body.results[position])
    argument = body.arguments[position]
    if op is None or op.signature.name != "add" or argument not in op.operands:
        return None
    return _number(body, op.operands[1 - op.operands.index(argument)])


def _maker(region: Lambda, value: int) -> Op | None:
    return next((op for op in region.ops if value in op.results), None)


def _number(region: Lambda, value: int) -> int | None:
    op = _maker(region, value)
    if op is None or op.signature.name != "constant":
        return None
    found = _NUMBER.match(op.signature.attrs["value"])
    return int(found.group(1)) if found else None
