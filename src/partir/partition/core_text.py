"""PartIR:Core as text: every op inside its nest of loops.

An op that is in loops prints as::

    %3 = loop "B" [#tile<0>] (%rB: range<4>) loop "M" [#sum] (%rM: range<2>) {
      yield dot_general(slice (0, 1) %x[%rB, %rM], slice 0 %w[%rM]) : f32[2,32]
    } : f32[8{B},32]

- Loops stand outermost first on one line, which is short for nested braces. A result is
  tiled (`#tile<dim>`), reduced (`#sum`, `#max`, …) or the same in every iteration
  (`#any`); an op with several results has a tuple, ``[(#tile<0>, #any)]``.
- `slice d %x[%r]` is iteration `%r`'s tile of `%x` along dimension `d`; with several
  loops, `slice (d, e) %x[%r, %s]`, outermost first, so that of two loops on one
  dimension the first gives the major part.
- `window d %x[%r*64-1 : +66]` is a part that reaches beside the tile: where it starts
  and how long it is. What lies outside of `%x` is masked where it would count; with
  `wrap` it is counted from the other end. The same goes for a last, short tile.
- `yield` has the local type. The type behind the loops is the whole value's; its braces
  are the value's home: ``f32[8{B},32]`` is tiled along dimension 0 over axis B, and
  ``8{B,M}`` over B and then M. An argument's home stands in the function's head.
- Values kept whole on an axis, ops that propagation could not decide, and products that
  were put into other loops afterwards, since fewer bytes move so, are marked by a
  comment.
- A control-flow op is followed by its ties, each with its loops, which hold for all of
  its values alike, and the values that flow ``(from -> to)``; then by its regions. Ties
  of the whole program (state that one call hands to the next) stand before `return`.

Attributes are in `Program.text()`; here they are left out unless asked for, except
where there is no operand, since nothing else would tell such ops apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from partir.ir.core import Port, Region
from partir.ir.printer import Names, attrs_text
from partir.ir.types import TensorType
from partir.partition.state import State
from partir.partition.tied import tied
from partir.rules.nest import WHOLE, Loop, Nest, Tiling
from partir.rules.reach import Extent

_STEP = "  "


def core_text(state: State, attributes: bool = False) -> str:
    """The partition as PartIR:Core; the module's docstring says how to read it."""
    return "\n".join(_Printer(tied(state), attributes).function())


class _Printer:
    def __init__(self, state: State, attributes: bool) -> None:
        self.state = state
        self.program = state.graph.program
        self.names = Names(self.program)
        self.attributes = attributes
        self.remarks = _conflict_remarks(state)

    def function(self) -> Iterator[str]:
        yield f"func @{self.program.name}("
        for port in self.program.arguments:
            yield f"{_STEP}{self._argument(port)}"
        yield ") {"
        yield from self._ops(self.program.body, _STEP)
        first = len(self.program.ops)
        for number, tie in enumerate(self.program.ties):
            if tie.owner is None:
                yield f"{_STEP}{self._tie(first + number)}"
        yield f"{_STEP}return {self.names.many(self.program.body.results)}"
        yield "}"

    def _argument(self, port: Port) -> str:
        text = f"{self.names[port.value]}: {self._type(port.value)},"
        return text + _comment(self._pins(port.value))

    # Ops

    def _ops(self, region: Region, indent: str) -> Iterator[str]:
        for node in region.ops:
            if self.program.ops[node].regions or node in self.state.graph.owned:
                yield from self._control(node, indent)
            else:
                yield from self._op(node, indent)

    def _op(self, node: int, indent: str) -> Iterator[str]:
        op, nest = self.program.ops[node], self.state.nests[node]
        left = f"{self.names.many(op.results)} = " if op.results else ""
        operands = ", ".join(
            _slice(nest, position, self.names[value])
            for position, value in enumerate(op.operands)
        )
        call = f"{op.signature.name}({operands}){self._attrs(nest)}"
        home = f" : {self._types(op.results)}" if op.results else ""
        tail = home + _comment(self._remarks(node, op.results))
        if not nest.loops:
            yield f"{indent}{left}{call}{tail}"
            return
        local = ", ".join(map(str, nest.result_types))
        yield f"{indent}{left}{_loops(nest)} {{"
        yield f"{indent}{_STEP}yield {call} : {local}"
        yield f"{indent}}}{tail}"

    def _control(self, node: int, indent: str) -> Iterator[str]:
        op = self.program.ops[node]
        left = f"{self.names.many(op.results)} = " if op.results else ""
        call = f"{op.signature.name}({self.names.many(op.operands)})"
        home = f" : {self._types(op.results)}" if op.results else ""
        remarks = _comment(self._remarks(node, op.results))
        yield f"{indent}{left}{call}{home}{remarks}"
        inner = indent + _STEP
        for tie in self.state.graph.owned.get(node, ()):
            yield f"{inner}{self._tie(tie)}"
        for region in op.regions:
            yield f"{inner}({self._arguments(region)}) {{"
            yield from self._ops(region, inner + _STEP)
            yield f"{inner}{_STEP}return {self.names.many(region.results)}"
            yield f"{inner}}}"

    def _arguments(self, region: Region) -> str:
        names = self.names
        return ", ".join(f"{names[v]}: {self._type(v)}" for v in region.arguments)

    def _tie(self, node: int) -> str:
        graph, nest = self.state.graph, self.state.nests[node]
        sources, targets = (
            self.names.many(values[node]) for values in (graph.operands, graph.results)
        )
        loops = f"{_loops(nest, 1)} " if nest.loops else ""
        remarks = _comment(self._remarks(node, ()))
        return f"tie {loops}({sources} -> {targets}){remarks}"

    def _attrs(self, nest: Nest) -> str:
        if self.attributes or not nest.signature.operands:
            return attrs_text(nest.attrs)
        return ""

    # Types and remarks

    def _types(self, values: Sequence[int]) -> str:
        return ", ".join(self._type(v) for v in values)

    def _type(self, value: int) -> str:
        return _homed(self.program.types[value], self.state.tilings[value])

    def _remarks(self, node: int, values: Sequence[int]) -> Iterator[str]:
        yield from self.remarks.get(node, ())
        if node in self.state.resting:
            yield "fewer bytes move in these loops"
        for value in values:
            yield from self._pins(value)

    def _pins(self, value: int) -> Iterator[str]:
        for axis in self.state.mesh:
            if self.state.homes[axis][value] == WHOLE:
                yield f'{self.names[value]} whole on "{axis}"'
            elif self.state.seen[axis][value] == WHOLE:
                yield f'{self.names[value]} whole on "{axis}" at its uses'


def _conflict_remarks(state: State) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for axis, conflicts in state.conflicts.items():
        for conflict in conflicts:
            found.setdefault(conflict.node, []).append(f'conflict on "{axis}"')
    return found


def _comment(remarks: Iterator[str]) -> str:
    text = "; ".join(remarks)
    return f"  // {text}" if text else ""


def _homed(type_: TensorType, tiling: Tiling) -> str:
    """A type with the axes of its tiled dimensions in braces."""
    if not any(tiling):
        return str(type_)
    dims = [
        f"{size}{{{','.join(axes)}}}" if axes else str(size)
        for size, axes in zip(type_.shape, tiling, strict=True)
    ]
    return f"{type_.dtype}[{','.join(dims)}]"


def _loops(nest: Nest, results: int | None = None) -> str:
    """The heads of the loops, with how the first `results` results are put together."""
    return " ".join(
        f'loop "{loop.axis}" [{_kinds(loop, results)}] '
        f"({_index(loop)}: range<{loop.size}>)"
        for loop in nest.loops
    )


def _kinds(loop: Loop, results: int | None) -> str:
    other = f"#{loop.factor.reduce}" if loop.factor.reduce else "#any"
    dims = loop.factor.results[:results]
    kinds = [other if dim is None else f"#tile<{dim}>" for dim in dims]
    return kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"


def _index(loop: Loop) -> str:
    return f"%r{loop.axis}"


def _slice(nest: Nest, position: int, name: str) -> str:
    """What the loops read of an operand."""
    windows = dict(nest.windows[position])
    cuts = [
        (str(dim), _index(loop))
        for loop in nest.loops
        if (dim := loop.factor.operands[position]) is not None and dim not in windows
    ]
    if cuts:
        dims, indices = (", ".join(part) for part in zip(*cuts, strict=True))
        name = f"slice {dims if len(cuts) == 1 else f'({dims})'} {name}[{indices}]"
    for dim, extent in windows.items():
        name = f"window {dim} {name}[{window_text(extent)}]"
    return name


def window_text(extent: Extent) -> str:
    """``%rX*64-1 : +66``: where a window starts, and its length."""
    terms = [
        f"%r{axis}*{step}" for axis, step in zip(extent.axes, extent.steps, strict=True)
    ]
    start = "+".join(terms).replace("+-", "-")
    first = f"{extent.first:+}" if extent.first else ""
    return f"{start}{first} : +{extent.length}{', wrap' if extent.wrap else ''}"
