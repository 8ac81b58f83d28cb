"""Opaque functions (`partir.opaque`): private ones of the module, called by it.

Here they are text. Whoever can trace them at given types hands in `MakeText`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from partir.errors import PartitionError
from partir.ir.types import TensorType
from partir.ir.user_rule import FUNCTION_ID

Types = tuple[TensorType, ...]
MakeText = Callable[[str, str, Types, Types], str]
"""(id, symbol, operand types, result types) -> functions, the first named `symbol`.

The names of all others begin with `symbol` too.
"""


class OpaqueFunctions:
    """The private functions of one module, one for each id and local types."""

    def __init__(self, make: MakeText | None = None) -> None:
        """Start without any."""
        self.texts: list[str] = []
        self._make = make
        self._symbols: dict[Any, str] = {}

    def add(self, text: str) -> None:
        """One more function, which stays the same at all types."""
        if text not in self.texts:
            self.texts.append(text)

    def symbol(self, attrs: Mapping[str, str], operands: Types, results: Types) -> str:
        """Name of the function for a call of these local types."""
        name = attrs[FUNCTION_ID].strip('"')
        key = (name, operands, results)
        if key not in self._symbols:
            if self._make is None:
                raise PartitionError(
                    f'the program calls "{name}", which partir.opaque keeps whole: '
                    "only where its function was traced can it be exported"
                )
            symbol = f"{name}_{len(self._symbols)}"
            self.texts.append(self._make(name, symbol, operands, results))
            self._symbols[key] = symbol
        return self._symbols[key]
