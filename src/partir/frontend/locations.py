"""MLIR locations -> `Location`: the user's innermost line, and the stack around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from partir.frontend.jax_private import (
    inner_jaxprs,
    is_call,
    is_fused,
    is_line,
    is_name,
)
from partir.frontend.stack_boundary import BOUNDARY
from partir.ir.source import Frame, Location, framework_of

_NOWHERE = Location()
# What lowering a scan brings, which no jaxpr shows.
_SCANS = frozenset({"dynamic_index_in_dim", "dynamic_update_index_in_dim"})
_FUNCTION = re.compile(r"[\w.<>]+")


class Locations:
    """Reads each distinct location once.

    Ops inlined from a call have its stack behind their own. In `borrowed` functions,
    which jax brings, they have it instead: jax traces those once for all their callers
    and may leave the first one's lines in them.
    """

    def __init__(self, borrowed: frozenset[str] = frozenset()) -> None:
        """Start with an empty call stack."""
        self._borrowed = borrowed
        # By the caller's id (it is kept, so that the id stays its), and if borrowed.
        self._known: dict[tuple[int, bool], tuple[Location, dict[Any, Location]]] = {}
        self._here: dict[Any, Location] = {}
        self._stacks: dict[Any, tuple[Frame, ...]] = {}
        self._caller, self._inside_borrowed = _NOWHERE, False

    def known(self) -> Mapping[int, Location]:
        """Places that were read, by the module's numbers, where ops are now."""
        return self._here

    def read(self, location: Any, number: int | None = None) -> Location:
        """The source place of an op, to be `known` by a number if it has one."""
        key = location.attr if number is None else number
        found = self._here.get(key)
        if found is not None:
            return found
        if self._caller is _NOWHERE and is_line(location):
            # Every line of a text is a place of its own, not worth remembering.
            return Location("", location.filename, location.start_line)
        found = self._here[key] = self._parse(location)
        return found

    @contextmanager
    def called_from(self, location: Any, function: str) -> Iterator[None]:
        """While inside, ops are those of a function that is called here."""
        before = self._caller, self._inside_borrowed, self._here
        self._caller = self.read(location)
        self._inside_borrowed = _is_among(function, self._borrowed)
        key = id(self._caller), self._inside_borrowed
        self._here = self._known.setdefault(key, (self._caller, {}))[1]
        yield
        self._caller, self._inside_borrowed, self._here = before

    def _parse(self, location: Any) -> Location:
        path, location = _path(location)
        caller = self._caller
        if caller.path:
            path = f"{caller.path}/{path}" if path else caller.path
        frames = () if self._inside_borrowed else self._stack(location)
        frames = _joined(frames, caller.frames)
        own = (frame for frame in frames if framework_of(frame.file) is None)
        frame = next(own, frames[0] if frames else Frame("", "", 0))
        return Location(*frame, path, frames)

    def _stack(self, location: Any) -> tuple[Frame, ...]:
        """Frames, innermost first."""
        found = self._stacks.get(location.attr)
        if found is None:
            found = self._stacks[location.attr] = self._frames(location)
        return found

    def _frames(self, location: Any) -> tuple[Frame, ...]:
        function = ""
        if is_call(location):
            callee = self._stack(location.callee)
            if callee and callee[0].file == BOUNDARY:
                return ()
            return _joined(callee, self._stack(location.caller))
        if is_fused(location):
            return self._stack(location.locations[0]) if location.locations else ()
        if is_name(location):
            function, location = location.name_str, location.child_loc
        if is_line(location):
            return (Frame(function, location.filename, location.start_line),)
        structured = is_call(location) or is_fused(location) or is_name(location)
        return self._stack(location) if structured else ()


def _path(location: Any) -> tuple[str, Any]:
    """The name stack on top of a location, and what is below it.

    A name right above a line is a function's, unless it can't be one.
    """
    path = ""
    while is_name(location):
        name, child = location.name_str, location.child_loc
        marked = path.endswith(":")  # "add:" above "jit(f)/add"
        line = is_line(child)
        if line and not marked and _FUNCTION.fullmatch(name):
            break
        if path and not marked:
            break
        path, location = name, child
    return path.removesuffix(":"), location


def _joined(inner: tuple[Frame, ...], outer: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Two parts of a stack, of which jax may have written the outer one twice."""
    if not outer or inner[-len(outer) :] == outer:
        return inner
    return inner + outer


def _is_among(function: str, names: frozenset[str]) -> bool:
    """Whether a function's symbol, perhaps numbered, is one of these names."""
    return function in names or re.sub(r"_\d+$", "", function) in names


def borrowed_functions(jaxpr: Any) -> frozenset[str]:
    """Names of the jitted functions in a jaxpr that jax brings, and nobody else."""
    jaxs: set[str] = set()
    others: set[str] = set()
    seen: set[int] = set()

    def walk(jaxpr: Any) -> None:
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "jit":
                info = eqn.params["jaxpr"].jaxpr.debug_info
                is_jaxs = framework_of(info.func_filename or "") == "jax"
                (jaxs if is_jaxs else others).add(eqn.params["name"])
            for inner in inner_jaxprs(eqn.params):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    walk(inner)

    walk(jaxpr)
    return frozenset((jaxs | _SCANS) - others)
