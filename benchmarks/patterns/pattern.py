"""A pattern: a function, the shapes of its arguments, and tactics that tile them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

Shape = jax.ShapeDtypeStruct
Tactics = Sequence[Mapping[str, int]]


@dataclass(frozen=True)
class Pattern:
    """One line of the table; each tactic tiles arguments over the same axis."""

    fn: Callable[..., Any]
    args: tuple[Shape, ...]
    tactics: Tactics

    @property
    def name(self) -> str:
        """The function's."""
        return self.fn.__name__

    @property
    def held_out(self) -> bool:
        """Whether it is kept from whoever improves the partitioner: a third are."""
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 3 == 0

    @property
    def dims(self) -> dict[str, int]:
        """The tiled dimension of each argument that has one."""
        return {name: dim for tactic in self.tactics for name, dim in tactic.items()}


def f32(*sizes: int) -> Shape:
    """An array of floats."""
    return Shape(sizes, "float32")


def i32(*sizes: int) -> Shape:
    """An array of whole numbers, to look something up with."""
    return Shape(sizes, "int32")


class Registry(dict[str, Pattern]):
    """Patterns by name; called, it is a decorator that adds one."""

    def __call__(
        self, *args: Shape, tiled: Mapping[str, int] | Tactics
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """`tiled`: one tactic, or several in order."""
        tactics = [tiled] if isinstance(tiled, Mapping) else list(tiled)

        def add(fn: Callable[..., Any]) -> Callable[..., Any]:
            if fn.__name__ in self:
                raise ValueError(f"two patterns are called {fn.__name__}")
            self[fn.__name__] = Pattern(fn, args, tactics)
            return fn

        return add


pattern = Registry()
