"""Dimensions that a loop indexes one slice at a time: a scan's stacked layers.

They spread to whatever is tiled together with them (the optimizer's state of stacked
weights), so that `FIRST_DIVISIBLE_DIM` passes them over there too. Where a tiled batch
is reshaped to microbatches for a loop, the axis goes to what is within a microbatch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from partir.ir.core import Program, Signature
from partir.rules.indexing import scanned_dims
from partir.rules.nest import Nest
from partir.rules.shape import split_dims

ValueDims = set[tuple[int, int]]  # values, each with one of its dimensions


class GraphLike(Protocol):
    """What of a `Graph` is needed here."""

    program: Program
    signatures: list[Signature]
    operands: list[tuple[int, ...]]
    results: list[tuple[int, ...]]
    neighbours: list[list[int]]
    nests: list[Nest]

    @property
    def scanned(self) -> ValueDims:
        """Pairs of value and dimension."""
        ...


@dataclass(frozen=True, slots=True)
class Redirect:
    """A split of an operand's dimension whose major part a loop steps through."""

    operand_dim: int
    major: int
    others: tuple[int, ...]


def find_scanned(graph: GraphLike) -> ValueDims:
    """All (value, dimension) pairs that a loop steps through."""
    program = graph.program
    seeds = {
        (value, dim)
        for index in inside_loops(program)
        for value, dims in zip(
            program.ops[index].operands,
            scanned_dims(program.ops[index].signature),
            strict=True,
        )
        for dim in dims
    }
    return _spread(graph, seeds)


def find_stacked(graph: GraphLike) -> dict[tuple[int, int], int]:
    """Dimensions split into parts of which a loop steps through an inner one.

    With them, the size of what is outside of it: only that many tiles are good for
    anything (stages of a pipeline, each with its layers).
    """
    seeds: dict[int, ValueDims] = {}
    for node, signature in enumerate(graph.signatures if graph.scanned else ()):
        for operand_dim, parts in split_dims(signature):
            sizes = [signature.results[0].shape[dim] for dim in parts]
            for place, dim in enumerate(parts):
                if place and (graph.results[node][0], dim) in graph.scanned:
                    seed = (graph.operands[node][0], operand_dim)
                    seeds.setdefault(math.prod(sizes[:place]), set()).add(seed)
    outer: dict[tuple[int, int], int] = {}
    for size, pairs in seeds.items():
        for pair in _spread(graph, pairs):
            outer[pair] = math.gcd(size, outer.get(pair, size))
    return outer


def find_redirects(graph: GraphLike) -> dict[int, Redirect]:
    """Nodes whose split leaves a scanned major dimension."""
    found: dict[int, Redirect] = {}
    if not graph.scanned:
        return found
    for node, signature in enumerate(graph.signatures):
        for operand_dim, (major, *others) in split_dims(signature):
            if (graph.results[node][0], major) in graph.scanned:
                found[node] = Redirect(operand_dim, major, tuple(others))
    return found


def inside_loops(program: Program) -> set[int]:
    """Ops that a loop runs."""
    return {
        inner
        for op in program.ops
        if len(op.regions) == 2 and op.regions[1].arguments
        for region in op.regions
        for inner in program.walk(region)
    }


def _spread(graph: GraphLike, seeds: ValueDims) -> ValueDims:
    found, todo = set(seeds), list(seeds)
    while todo:
        value, dim = todo.pop()
        for node in graph.neighbours[value]:
            values = graph.operands[node] + graph.results[node]
            for factor in graph.nests[node].factors:
                pairs = {
                    (v, d)
                    for p, v in enumerate(values)
                    if (d := factor.dim(p)) is not None
                }
                if factor.reduce is None and (value, dim) in pairs:
                    todo += pairs - found
                    found |= pairs
    return found
