"""A random program from a seed: StableHLO, and what its arguments hold."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from partir.fuzz.programs.families import SHARES
from partir.fuzz.programs.sketch import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    NARROW_FLOATS,
    SMALL_INTEGERS,
    NoFit,
    Sketch,
)

_SIZES = (4, 8, 12, 4, 8, 12, 4, 8, 6, 6, 2, 2, 3, 5, 7, 9, 10)
MOST_RESULTS = 4
_REVERSE = re.compile(r"reverse = \[([^\]]*)\]")


@dataclass(frozen=True)
class Source:
    """A module as jax lowers it; `holds` says which numbers each argument is given."""

    text: str
    holds: tuple[str, ...]


def generate(seed: int, steps: int = 8) -> Source:
    """The program of a seed, of about so many steps; a step is one op or a few.

    Example:
        >>> generate(3).text == generate(3).text
        True
    """
    with jax.enable_x64(True):
        number = 0
        while True:
            rng = random.Random(f"{seed} {number}")
            try:
                return _lowered(_drawn(rng, rng.randrange(2, steps + 1)), rng)
            except NoFit:
                number += 1


def _drawn(rng: random.Random, steps: int) -> Sketch:
    dtypes = drawn_dtypes(rng)
    sizes = rng.sample(_SIZES, 3)
    sizes += [0] if rng.random() < 0.03 else [1] if rng.random() < 0.3 else []
    sketch = Sketch(rng, dtypes, tuple(sizes), SHARES)
    for _ in range(rng.choice([1, 2, 2, 3])):
        sketch.argument(sketch.shape(1), sketch.dtype())
    sketch.grow(steps)
    if not sketch.nodes:
        raise NoFit
    return sketch


def drawn_dtypes(rng: random.Random) -> tuple[str, ...]:
    """A few types: integers of any width, or floats with some of them."""
    whole = [*INTEGERS, "int32", "int8", "int8", "uint8", *SMALL_INTEGERS, "bool"]
    ways = "whole whole whole double double double low narrow complex mixed mixed"
    way = rng.choice(ways.split())
    if way == "whole":
        return tuple(rng.sample(whole, 3))
    if way == "double":
        return ("float64", "float64", rng.choice(whole))
    if way == "low":
        return (*rng.sample(FLOATS[:3], 2), rng.choice(whole))
    if way == "narrow":
        return (rng.choice(NARROW_FLOATS), rng.choice(FLOATS[:3]), rng.choice(whole))
    if way == "complex":
        return (*rng.sample(COMPLEX, 1), "float64", "float32")
    return (rng.choice(FLOATS), rng.choice(FLOATS), *rng.sample(whole, 2))


def _lowered(sketch: Sketch, rng: random.Random) -> Source:
    read = {v for node in sketch.nodes for v in node.operands}
    made = [v for node in sketch.nodes for v in node.results]
    ends = [v for v in made if v not in read]
    others = [v for v in made if v in read and rng.random() < 0.15]
    results = [*ends[-MOST_RESULTS:], *others[:2]]

    def program(*given: Any) -> list[Any]:
        env = sketch.evaluate(given)
        return [env[v] for v in results]

    values = [sketch.values[v] for v in sketch.arguments]
    structs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in values]
    text = jax.jit(program, keep_unused=True).lower(*structs).as_text()
    return Source(_REVERSE.sub(partial(_turned, rng), text), _holds(sketch, rng))


def _turned(rng: random.Random, found: re.Match[str]) -> str:
    """A convolution's kernel backwards, at times: jax never writes that."""
    flags = [str(rng.random() < 0.2).lower() for _ in found[1].split(",")]
    return f"reverse = [{', '.join(flags)}]"


def _holds(sketch: Sketch, rng: random.Random) -> tuple[str, ...]:
    """One way for all floats, which decides how exactly results can be compared."""
    floats = rng.choice(["whole", "whole", "plain", "wild", "wild"])
    integers = rng.choice(["full", "full", "small"])
    return tuple(
        holds
        if holds != "any"
        else floats
        if sketch.values[v].is_float or sketch.values[v].is_complex
        else integers
        for v, holds in sketch.arguments.items()
    )
