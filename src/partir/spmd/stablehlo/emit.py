"""Writing StableHLO text, op by op. The generic form: every op is spelled alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from partir.errors import PartitionError
from partir.ir.attributes import CALLED, FORMED
from partir.ir.core import Lambda
from partir.ir.filled import literal_of
from partir.ir.source import Location
from partir.ir.types import TensorType
from partir.ir.user_rule import FUNCTION_ID
from partir.rules.gather import takes_one_window, window_in_range
from partir.rules.host import runs_once
from partir.rules.indexing import in_range, takes_a_range
from partir.rules.joins import join_of
from partir.rules.local import Ssa, constant, emit_default
from partir.rules.masks import has_garbage, once_operands, without_garbage
from partir.rules.nest import Nest
from partir.rules.registry import form_hook
from partir.spmd.stablehlo.opaque_functions import MakeText, OpaqueFunctions

ssa = partial(tuple.__new__, Ssa)  # what `Ssa` does, at half the price
Template = tuple[str, str]
"""What stands before the names of an op's operands, and what stands behind."""


class TextEmitter:
    """Collects lines; an `Emitter` for local forms. Subclasses define loop indices."""

    def __init__(self, opaque: MakeText | None = None) -> None:
        """Start empty; `opaque` gives the text of opaque functions."""
        self.lines: list[str] = []
        self.functions = OpaqueFunctions(opaque)
        self.aliases: dict[str, str] = {}
        self._count = 0
        self._locations: dict[Location, str] = {}
        # By id, quicker than by hash; what it is of is kept, so that the id stays its.
        self._places: dict[int, tuple[Location, str]] = {}
        self._templates: dict[Nest, Template | None] = {}
        # Constants of one number, by their nests.
        self._numbers: dict[Nest, tuple[TensorType, str]] = {}
        # Those that are written already, in the block that is being written.
        self._written: dict[tuple[TensorType, str], Ssa] = {}
        self.place = ""

    def index(self, axis: str) -> Ssa:
        """Index of the loop over `axis`, an i32 scalar."""
        raise NotImplementedError

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"%{self._count}"

    def at(self, location: Location) -> None:
        """Ops that follow come from here."""
        known = self._places.get(id(location))
        if known is None:
            alias = self._locations.get(location)
            if alias is None:
                alias = self._locations[location] = self._define_location(location)
            known = self._places[id(location)] = location, alias
        self.place = known[1]

    def _define_location(self, location: Location) -> str:
        if not location.path and not location.file:
            return ""
        alias = f"#loc{len(self._locations)}"
        inner = ""
        if location.file:
            inner = f"{_quoted(location.file)}:{location.line}:0"
            if location.function:
                inner = f"{_quoted(location.function)}({inner})"
        name = _quoted(location.path)
        text = f"{name}({inner})" if location.path and inner else inner or name
        self.aliases[alias] = f"loc({text})"
        return f" loc({alias})"

    def op(
        self,
        kind: str,
        operands: Sequence[Ssa],
        results: Sequence[TensorType],
        attrs: Mapping[str, str] | None = None,
        lambdas: tuple[Lambda, ...] = (),
        regions: Sequence[str] = (),
    ) -> tuple[Ssa, ...]:
        """Emit one op."""
        names = [operand.name for operand in operands]
        types = tuple([operand.type for operand in operands])
        if attrs and FUNCTION_ID in attrs:
            symbol = self.functions.symbol(attrs, types, tuple(results))
            kind, attrs = "func.call", {"callee": f"@{symbol}"}
        tail = op_tail(types, tuple(results), attrs or {})
        body = self._regions(attrs or {}, lambdas, regions)
        made, left = self.results(results)
        self.lines.append(f'{left}"{kind}"({", ".join(names)}){body}{tail}{self.place}')
        return made

    def results(self, types: Sequence[TensorType]) -> tuple[tuple[Ssa, ...], str]:
        """Names for an op's results, and its left-hand side."""
        if not types:
            return (), ""
        name = self.fresh()
        if len(types) == 1:
            return (ssa((name, types[0])),), f"{name} = "
        made = tuple(Ssa(f"{name}#{i}", t) for i, t in enumerate(types))
        return made, f"{name}:{len(types)} = "

    def _regions(
        self,
        attrs: Mapping[str, str],
        lambdas: tuple[Lambda, ...],
        regions: Sequence[str] = (),
    ) -> str:
        if CALLED in attrs:  # functions of the module, which the op names
            symbols = attrs[CALLED].strip("[]").replace("@", "").split(", ")
            for symbol, function in zip(symbols, lambdas, strict=bool(lambdas)):
                self.functions.add(function_text(symbol, function))
            return ""
        parts = [*map(lambda_text, lambdas), *regions]
        return f" ({', '.join(parts)})" if parts else ""

    def local(
        self, nest: Nest, operands: Sequence[Ssa], splats: Sequence[str | None]
    ) -> tuple[Ssa, ...]:
        """One iteration of an op's nest, on operands sliced as its loops need them."""
        template = self.template(nest)
        if template is not None:
            return self.line(nest, template, operands)
        if nest.joins:
            return join_of(nest).partial(nest, self, operands, splats)
        operands = without_garbage(nest, self, operands)
        operands = once_operands(nest, self, operands, splats)
        if takes_a_range(nest):
            operands = in_range(nest, self, operands, splats)
        elif takes_one_window(nest):
            operands = window_in_range(nest, self, operands)
        form = form_hook(nest.signature.kind) or emit_default
        return form(nest, self, operands)

    def line(
        self, nest: Nest, template: Template, operands: Sequence[Ssa]
    ) -> tuple[Ssa, ...]:
        """An op that has no special form."""
        if nest in self._numbers:
            return self._repeated(*self._numbers[nest])
        names = ", ".join([operand.name for operand in operands])
        made, left = self.results(nest.result_types)
        head, tail = template
        self.lines.append(f"{left}{head}{names}{tail}{self.place}")
        return made

    def _repeated(self, type_: TensorType, literal: str) -> tuple[Ssa, ...]:
        """A number, written where it is first read in a block."""
        made = self._written.get((type_, literal))
        if made is None:
            made = self._written[type_, literal] = constant(self, type_, literal)
        return (made,)

    def template(self, nest: Nest) -> Template | None:
        """The op's line but for names, where it has no special form."""
        if nest not in self._templates:
            self._templates[nest] = self._template(nest)
        return self._templates[nest]

    def _template(self, nest: Nest) -> Template | None:
        signature = nest.signature
        own = signature.kind.startswith("partir.")  # no op but of ours
        own = own or FORMED in signature.attrs
        formed = (nest.loops or own) and form_hook(signature.kind)
        special = formed or FUNCTION_ID in signature.attrs or has_garbage(nest)
        special = special or takes_a_range(nest) or takes_one_window(nest)
        special = special or bool(nest.joins)
        special = special or runs_once(signature)
        literal = literal_of(signature)
        if literal and not nest.result_types[0].shape:
            self._numbers[nest] = nest.result_types[0], literal
            return "", ""  # none of its own
        if special or any(loop.factor.once for loop in nest.loops):
            return None
        tail = op_tail(nest.operand_types, nest.result_types, nest.attrs)
        body = self._regions(nest.attrs, signature.lambdas)
        return f'"{signature.kind}"(', f"){body}{tail}"

    def region(
        self, arguments: Sequence[Ssa], body: Callable[[], Sequence[Ssa]]
    ) -> str:
        """A region in which `body` emits ops and says what they yield."""
        outer, place, written = self.lines, self.place, self._written
        self.lines, self._written = [], {}
        results = body()
        self.place = ""
        self.op("stablehlo.return", results, ())
        head = ", ".join(f"{a.name}: {a.type.text}" for a in arguments)
        label = f"^bb0({head}):\n" if arguments else ""
        text = "{ " + label + "\n".join(self.lines) + " }"
        self.lines, self.place, self._written = outer, place, written
        return text

    def module(
        self,
        name: str,
        arguments: Sequence[Ssa],
        results: Sequence[Ssa],
        attrs: Mapping[str, str] | None = None,
    ) -> str:
        """A module whose `main` has the lines so far as its body."""
        head = ", ".join(f"{a.name}: {a.type.text}" for a in arguments)
        outs = ", ".join(r.type.text for r in results)
        names = ", ".join(r.name for r in results)
        lines = [f"{alias} = {text}" for alias, text in self.aliases.items()]
        shown = ", ".join(
            f"{key} = {_quoted(text)}" for key, text in (attrs or {}).items()
        )
        lines += [
            f"module @{_symbol(name)}{f' attributes {{{shown}}}' if shown else ''} {{",
            f"func.func public @main({head}) -> ({outs}) {{",
            *self.lines,
            f'"func.return"({names}) : ({outs}) -> ()',
            "}",
            *self.functions.texts,
            "}",
        ]
        return "\n".join(lines)


def _symbol(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "main"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def op_tail(
    operands: tuple[TensorType, ...],
    results: tuple[TensorType, ...],
    attrs: Mapping[str, str],
) -> str:
    """Attributes and types: all that stands behind an op's operands and regions."""
    shown = ", ".join(f"{_name(name)} = {text}" for name, text in attrs.items())
    ins = ", ".join([t.text for t in operands])
    outs = ", ".join([t.text for t in results])
    outs = outs if len(results) == 1 else f"({outs})"
    return f"{f' {{{shown}}}' if shown else ''} : ({ins}) -> {outs}"


def _name(name: str) -> str:
    return name if name.replace("_", "a").replace(".", "a").isalnum() else f'"{name}"'


@lru_cache(maxsize=1 << 12)
def lambda_text(region: Lambda) -> str:
    """A closed region; its names are its own (MLIR scopes them to the region)."""
    return _lambda_text(region)


def function_text(symbol: str, region: Lambda) -> str:
    """A closed region as a private function."""
    ins = ", ".join(region.types[v].text for v in region.arguments)
    outs = ", ".join(region.types[v].text for v in region.results)
    attrs = (
        f"function_type = ({ins}) -> ({outs}), "
        f'sym_name = {_quoted(symbol)}, sym_visibility = "private"'
    )
    return f'"func.func"() ({lambda_text(region)}) {{{attrs}}} : () -> ()'


def _lambda_text(region: Lambda, depth: int = 0) -> str:
    if not region.types:
        return "{}"
    types = region.types
    prefix = f"%l{depth}_" if depth else "%l"
    names = [f"{prefix}{i}" for i in range(len(types))]
    head = ", ".join(f"{names[v]}: {types[v].text}" for v in region.arguments)
    lines = [f"{{ ^bb0({head}):"]
    for op in region.ops:
        if FUNCTION_ID in op.signature.attrs:
            name = op.signature.attrs[FUNCTION_ID].strip('"')
            raise PartitionError(
                f"partir.opaque({name}) is inside a loop or branch "
                "of a shard_map, where it can't be kept whole: call fn itself there"
            )
        ins = ", ".join(names[v] for v in op.operands)
        left = ", ".join(names[v] for v in op.results)
        tail = op_tail(op.signature.operands, op.signature.results, op.signature.attrs)
        inner = [_lambda_text(r, depth + 1) for r in op.signature.lambdas]
        body = f" ({', '.join(inner)})" if inner else ""
        equals = " = " if left else ""
        lines.append(f'{left}{equals}"{op.kind}"({ins}){body}{tail}')
    outs = ", ".join(names[v] for v in region.results)
    out_types = ", ".join(types[v].text for v in region.results)
    lines.append(f'"stablehlo.return"({outs}) : ({out_types}) -> () }}')
    return "\n".join(lines)
