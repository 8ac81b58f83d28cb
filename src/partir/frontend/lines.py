"""The text of a device-local module, taken apart line by line.

In the generic form an op is a line: names of results, kind, names of operands, and a
rest, of which a deep model has a few hundred distinct ones. Whatever is written
otherwise (control flow, calls, comments) is not taken apart: `lines_of` gives None.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from partir.frontend.channels import one_channel

_MODULE = re.compile(r"module @\w+( attributes \{[^{}]*\})? \{")
_MAIN = re.compile(r"func\.func public @main\((.*)\) -> \((.*)\) \{")
_ARGUMENT = re.compile(r"(%\w+): (tensor<\w+>)")
_RETURN = re.compile(r'"func\.return"\(([%\w#, ]*)\) : \((.*)\) -> \(\)')
_NAMES = re.compile(r"(?:%[^\W_]+\n)*")
_KIND = re.compile(r'"[\w.]+"')
_RESULTS = re.compile(r"((:\d+)? = )?")
_PLACE = re.compile(r" loc\(#\w+\)")
_NOT_PLAIN = frozenset(
    {'"func.call"', '"stablehlo.while"', '"stablehlo.case"', '"stablehlo.if"'}
)


class LineForm(NamedTuple):
    """All of an op's text but names and place."""

    kind: str  # in quotes
    rest: str
    results: str  # `` = ``, or ``:2 = ``; without any, nothing

    def function(self, name: str) -> str:
        """A function that does this to its arguments, and nothing else."""
        types = split(self.rest.rpartition(" : (")[2].partition(") -> ")[0])
        names = [f"%in{n}" for n in range(len(types))]
        head = ", ".join(map("{}: {}".format, names, types))
        left = f"%out{self.results}" if self.results else ""
        op = f"{left}{self.kind}({', '.join(names)}){self.rest}"
        return f'func.func @{name}({head}) {{\n{op}\n"func.return"() : () -> ()\n}}'


OpLine = tuple[str, str, int, int]  # name, operands, form at its place, line


class ModuleLines(NamedTuple):
    """A module's lines, taken apart."""

    aliases: Sequence[str]
    arguments: Sequence[tuple[str, str]]  # names and types
    ops: Sequence[OpLine]
    forms: Sequence[LineForm]
    placed: Sequence[tuple[int, str]]  # forms by number, and places; "" is the line
    results: tuple[str, ...]
    result_types: tuple[str, ...]


class _Otherwise(Exception):
    """The text is not written as it is exported."""


def lines_of(text: str) -> ModuleLines | None:
    """A module's lines, if it is written as it is exported."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if not line.startswith("#")), 0)
    if lines[-2:] != ["}", "}"] or len(lines) < first + 5:
        return None
    main = _MODULE.fullmatch(lines[first]) and _MAIN.fullmatch(lines[first + 1])
    last = _RETURN.fullmatch(lines[-3])
    if not main or not last or last[2] != main[2]:
        return None
    head = [_ARGUMENT.fullmatch(one) for one in split(main[1])]
    arguments = [(one[1], one[2]) for one in head if one is not None]
    if len(arguments) != len(head):
        return None
    try:
        ops, forms = _ops(lines, first + 2, len(lines) - 3)
    except _Otherwise:
        return None
    placed = [*forms.placed_forms]
    return ModuleLines(
        *(lines[:first], arguments, ops, [*forms.forms], placed),
        *(split(last[1]), split(main[2])),
    )


def split(names: str) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(names.split(", ")) if names else ()


def _ops(lines: Sequence[str], start: int, end: int) -> tuple[list[OpLine], _Forms]:
    """The lines between two; those of a kind and rest seen before are looked up."""
    found: list[OpLine] = []
    forms = _Forms()
    known = forms.known
    while start < end:
        line, number = lines[start], start
        start += 1
        head, _, rest = line.partition("(")
        operands, _, rest = rest.partition(")")
        name, _, kind = head.rpartition(" = ")
        placed = known.get((kind, rest)) if name and ":" not in name else None
        if placed is None:
            if "({" in line:
                start = _closing(lines, number, end)
                whole = "\n".join(lines[number:start])
                rest = whole.partition("(")[2].partition(")")[2]
            name, placed = forms.placed(head, rest)
        found.append((name, operands, placed, number + 1))
    names = [op[0] for op in found if op[0]]
    if not _NAMES.fullmatch("\n".join([*names, ""])):
        raise _Otherwise
    return found, forms


class _Forms:
    """Forms of lines, and at which places they stand."""

    def __init__(self) -> None:
        self.forms: dict[LineForm, int] = {}
        self.texts: dict[tuple[str, ...], int] = {}
        self.placed_forms: dict[tuple[int, str], int] = {}
        self.known: dict[tuple[str, str], int] = {}  # of lines with one result

    def placed(self, head: str, rest: str) -> tuple[str, int]:
        """The name of what a line makes, and its form at its place, by number."""
        name, equals, kind = head.rpartition(" = ")
        name, colon, count = name.partition(":")
        key, place = (kind, rest), ""
        cut = rest.rfind(" loc(")
        if cut >= 0:
            place, rest = _alias(rest[cut:]), rest[:cut]
        if equals and not name:
            raise _Otherwise
        text = (kind, rest, colon, count, equals)
        number = self.texts.get(text)
        if number is None:
            number = self.forms.setdefault(_form(*text), len(self.forms))
            self.texts[text] = number
        made = self.placed_forms.setdefault((number, place), len(self.placed_forms))
        if equals and not colon and "({" not in rest:
            self.known[key] = made
        return name, made


def _form(kind: str, rest: str, *results: str) -> LineForm:
    """A form that is one op, and says all about it."""
    form = LineForm(kind, one_channel(rest), "".join(results))
    plain = _KIND.fullmatch(form.kind) and _RESULTS.fullmatch(form.results)
    if not plain or form.kind in _NOT_PLAIN:
        raise _Otherwise
    if "//" in form.rest or " loc(" in form.rest:
        raise _Otherwise
    return form


def _alias(place: str) -> str:
    """A place that has a meaning by itself."""
    if not _PLACE.fullmatch(place):
        raise _Otherwise
    return place


def _closing(lines: Sequence[str], start: int, end: int) -> int:
    """The line behind the one where all braces of an op with regions are closed."""
    depth = 0
    for number in range(start, end):
        depth += lines[number].count("{") - lines[number].count("}")
        if not depth:
            return number + 1
    raise _Otherwise
