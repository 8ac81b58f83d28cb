"""MLIR locations -> `Location`: the user's innermost function and line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jax._src.lib.mlir import ir

from partir.ir.core import Location

_NOWHERE = Location()


class Locations:
    """Reads each distinct location once.

    Ops inlined from a call keep their own line where they have one, else the call's.
    """

    def __init__(self) -> None:
        """Start with an empty call stack."""
        self._known: dict[tuple[Any, int], Location] = {}
        self._caller = _NOWHERE

    def read(self, location: Any) -> Location:
        """The source place of an op."""
        key = (location.attr, id(self._caller))  # kept alive by `_known` itself
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._parse(location)
        return found

    @contextmanager
    def called_from(self, location: Any) -> Iterator[None]:
        """While inside, ops without a line of their own take the call's."""
        before, self._caller = self._caller, self.read(location)
        yield
        self._caller = before

    def _parse(self, location: Any) -> Location:
        path = ""
        if isinstance(location, ir.NameLoc):
            path, location = location.name_str, location.child_loc
        function, file, line = _frame(location)
        caller = self._caller
        if caller.path:
            path = f"{caller.path}/{path.rpartition('/')[2]}"
        if not file:
            function, file, line = caller.function, caller.file, caller.line
        return Location(function, file, line, path)


def _frame(location: Any) -> tuple[str, str, int]:
    """Innermost frame: (function, file, line)."""
    function = ""
    while isinstance(location, (ir.CallSiteLoc, ir.NameLoc)):
        if isinstance(location, ir.CallSiteLoc):
            location = location.callee
        else:
            function, location = location.name_str, location.child_loc
    if isinstance(location, ir.FileLineColLoc):
        return function, location.filename, location.start_line
    if isinstance(location, ir.FusedLoc) and location.locations:
        return _frame(location.locations[0])
    return function, "", 0
