"""Dimensions that a loop indexes one slice at a time: a scan's stacked layers.

They spread to whatever is tiled together with them (the optimizer's state of stacked
weights), so that `FIRST_DIVISIBLE_DIM` passes them over there too.
"""

from __future__ import annotations

from partir.ir.core import Program
from partir.partition.state import Graph
from partir.rules.indexing import stepped_dims

Dims = set[tuple[int, int]]


def find_stepped(graph: Graph) -> Dims:
    """All (value, dimension) pairs that a loop steps through."""
    program = graph.program
    seeds = {
        (value, dim)
        for index in _inside_loops(program)
        for value, dims in zip(
            program.ops[index].operands,
            stepped_dims(program.ops[index].signature),
            strict=True,
        )
        for dim in dims
    }
    return _spread(graph, seeds)


def _inside_loops(program: Program) -> set[int]:
    return {
        inner
        for op in program.ops
        if len(op.regions) == 2 and op.regions[1].arguments
        for region in op.regions
        for inner in program.walk(region)
    }


def _spread(graph: Graph, seeds: Dims) -> Dims:
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
