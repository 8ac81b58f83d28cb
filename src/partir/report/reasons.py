"""Why tiling stopped at an op, in the user's words, and what would help."""

from __future__ import annotations

from collections.abc import Sequence

from partir.ir.core import Signature
from partir.partition.scanned_dims import inside_loops
from partir.partition.state import State
from partir.partition.values import Values
from partir.report.stops import Stop
from partir.rules.host import calls_host
from partir.rules.indexing import taken_dims
from partir.rules.registry import has_rule


class Reasons:
    """Reasons on one axis; `tactics` are the names of the steps so far.

    With `advice`, they say which other dimensions an op could be looped along.
    """

    def __init__(
        self,
        state: State,
        names: Values,
        tactics: Sequence[str],
        axis: str,
        advice: bool = True,
    ) -> None:
        """Nothing is looked up yet."""
        self.state, self.names, self.tactics, self.axis = state, names, tactics, axis
        self.advice = advice
        self.size = state.mesh.axes[axis]
        self._found: dict[Stop, str] = {}

    def of(self, stop: Stop) -> str:
        """Why tiling stopped there."""
        if stop not in self._found:
            make = {"reads": self._reads, "takes": self._takes, "makes": self._makes}
            self._found[stop] = make[stop.how](stop.node)
        return self._found[stop]

    def _reads(self, node: int) -> str:
        """Why a node that reads something tiled has no loop."""
        signature, nest = self.state.graph.signatures[node], self.state.nests[node]
        if not has_rule(signature):
            return f"it has no rule; {rule_remedy(signature)}"
        known = self.state.known(node, self.axis)
        factors = nest.supported(self.size, known)
        if factors:
            return f"its operands disagree: {self._asked(node)}; " + self._decide(
                node, factors
            )
        return self._no_loop(node)

    def _no_loop(self, node: int) -> str:
        """Of a node with no loop along the first of its operands that is tiled."""
        operands = self.state.graph.operands[node]
        homes = [self.state.seen[self.axis][value] for value in operands]
        position = next((p for p, home in enumerate(homes) if home >= 0), None)
        if position is None:
            return "what it reads is gathered"
        dim = homes[position]
        where = self._dimension(dim, operands[position])
        return self._uneven(node, position, dim, where) or (
            "its rule has no loop along the dimension that is tiled, "
            f"{where}{self._elsewhere(node, position)}"
        )

    def _uneven(self, node: int, position: int, dim: int, where: str) -> str | None:
        """Of a node whose loop along a dimension the axis does not divide."""
        factors = self.state.nests[node].factors
        sizes = [f.size for f in factors if f.dim(position) == dim]
        if not sizes or any(size % self.size == 0 for size in sizes):
            return None
        return (
            f"its loop along {where} has {sizes[0]} iterations, which "
            f'"{self.axis}" of size {self.size} does not divide; a multiple of '
            f"{self.size} would do"
        )

    def below(self, node: int, position: int, dim: int) -> str:
        """Why a node has no loop although the value at a position is tiled."""
        graph = self.state.graph
        value = (graph.operands[node] + graph.results[node])[position]
        where = self._dimension(dim, value)
        if found := self._uneven(node, position, dim, where):
            return found
        runs = any(f.dim(position) == dim for f in self.state.nests[node].factors)
        if runs:
            return f"its result is asked to be tiled otherwise too: {self._asked(node)}"
        return f"its rule has no loop along {where}"

    def _takes(self, node: int) -> str:
        """Of an op that takes one slice of a tiled dimension."""
        graph = self.state.graph
        value = graph.operands[node][0]
        (dim, *_), home = taken_dims(graph.signatures[node]), self.state.seen[self.axis]
        where = self._dimension(home[value] if home[value] >= 0 else dim, value)
        moves = len(graph.operands[node]) > 1  # by an index
        looped = moves and node in inside_loops(graph.program)
        remedy = self._elsewhere(node, 0)
        if looped:
            return (
                f"a loop steps through {where} one slice at a time, and every device "
                f"computes all of them{remedy}"
            )
        return (
            f"it takes one slice of {where}, and every device computes what follows "
            f"from it{remedy}"
        )

    def _makes(self, node: int) -> str:
        """Of an op whose result can't stay tiled as its loop makes it."""
        graph = self.state.graph
        split, types = graph.redirects.get(node), graph.program.types
        made = " and ".join(str(types[value]) for value in graph.results[node])
        axis = f'"{self.axis}" of size {self.size}'
        if split is None:
            return f"its result, {made}, can't be tiled over {axis}"
        shape = types[graph.results[node][0]].shape
        sizes = " and ".join(str(shape[dim]) for dim in split.others)
        return (
            f"a loop steps through dimension {split.major} of its result, {made}, and "
            f"what else the dimension is split into, {sizes}, does not divide over "
            f"{axis}; a multiple of {self.size} would"
        )

    # Parts of them

    def _dimension(self, dim: int, value: int) -> str:
        return f"dimension {dim} of {self._tiled(value)}"

    def _tiled(self, value: int) -> str:
        """A value and who tiled it."""
        tactic = self._tactic(value)
        by = f" (tiled by {tactic})" if tactic else ""
        return f"{self.names.name(value)}{by}"

    def _tactic(self, value: int) -> str:
        """The tactic that tiled a value, in quotes."""
        origin = self.state.tactic_of(self.axis, value)
        known = origin is not None and origin.step < len(self.tactics)
        return f'"{self.tactics[origin.step]}"' if origin and known else ""

    def _asked(self, node: int) -> str:
        """What each tactic tiled around a node."""
        asked: dict[str, list[str]] = {}
        for value, dim, name in dict.fromkeys(self._around(node).values()):
            tactic = self._tactic(value) or "the model"
            asked.setdefault(tactic, []).append(f"dimension {dim} of {name}")
        return ", ".join(
            f"{tactic} tiles {' and '.join(what)}" for tactic, what in asked.items()
        )

    def _around(self, node: int) -> dict[int, tuple[int, int, str]]:
        """Tiled values around a node by position: number, dimension, name."""
        graph, known = self.state.graph, self.state.known(node, self.axis)
        values = graph.operands[node] + graph.results[node]
        own = set(graph.results[node]) if graph.op(node) is not None else set()
        return {
            position: (v, dim, "its result" if v in own else self.names.name(v))
            for position, (v, dim) in enumerate(zip(values, known, strict=True))
            if dim >= 0
        }

    def _decide(self, node: int, factors: tuple[int, ...]) -> str:
        """What each loop that is asked for would follow."""
        graph, nest = self.state.graph, self.state.nests[node]
        if graph.op(node) is None or len(factors) < 2:
            return "tile them alike"
        follows = {
            number: next(
                name
                for position, (_, dim, name) in self._around(node).items()
                if nest.factors[number].dim(position) == dim
            )
            for number in factors
        }
        (first, one), *others = follows.items()
        rest = "".join(f", with {number} {name}" for number, name in others)
        address = self.names.node_name(graph, node)
        choice = f'partir.Choose({{"{address}": {first}}}, axis="{self.axis}")'
        return f"{choice} follows {one}{rest}"

    def _elsewhere(self, node: int, position: int) -> str:
        """Other dimensions of an operand along which the op makes tiles."""
        dims = {
            factor.operands[position]
            for factor in self.state.nests[node].factors
            if factor.size % self.size == 0 and not factor.reduce
        }
        shown = [str(dim) for dim in sorted(d for d in dims if d is not None)]
        if not shown:
            axis = f'"{self.axis}" of size {self.size}'
            return f"; no other dimension of it can be tiled here over {axis}"
        return f"; tile dimension {' or '.join(shown)} instead" if self.advice else ""


def rule_remedy(signature: Signature) -> str:
    """What gives an op a rule."""
    if calls_host(signature):
        return "the host gets whole values"
    target = signature.attrs.get("call_target_name", "").strip('"')
    if target:
        return f'partir.rule("{target}", "…") gives it one'
    return 'partir.opaque(function, "…") around it gives it one'
