"""A random program under way: values by type, and the jax functions between them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MOST_ELEMENTS = 800
MOST_DIMENSIONS = 4

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SMALL_INTEGERS = ("int4", "uint4")
NARROW_FLOATS = ("float8_e4m3fn", "float8_e5m2")
FLOATS = ("bfloat16", "float16", "float32", "float64", *NARROW_FLOATS)
COMPLEX = ("complex64", "complex128")


class NoFit(Exception):
    """What was drawn does not go together; draw again."""


@dataclass(frozen=True)
class Var:
    """A value: its number, shape and dtype."""

    number: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_integer(self) -> bool:
        """Whether it counts; booleans don't."""
        return self.dtype in INTEGERS or self.dtype in SMALL_INTEGERS

    @property
    def is_float(self) -> bool:
        """Whether it is a real floating-point number."""
        return self.dtype in FLOATS

    @property
    def is_complex(self) -> bool:
        """Whether it has two parts."""
        return self.dtype in COMPLEX

    @property
    def is_bool(self) -> bool:
        """Whether it is a truth value."""
        return self.dtype == "bool"


@dataclass(frozen=True)
class Node:
    """A jax function of values drawn before it."""

    fn: Callable[..., Any]
    operands: tuple[int, ...]
    results: tuple[int, ...]


@dataclass
class Sketch:
    """The program so far, and the lots that it is drawn by.

    `dtypes` and `sizes` are few, so that values fit each other often.
    """

    rng: random.Random
    dtypes: tuple[str, ...]
    sizes: tuple[int, ...]
    families: Mapping[Callable[[Sketch], None], float]  # with their shares
    depth: int = 0  # of the loops and branches that this is the body of
    values: list[Var] = field(default_factory=list)
    arguments: dict[int, str] = field(default_factory=dict)  # with what they hold
    nodes: list[Node] = field(default_factory=list)
    closed: bool = False  # takes no more arguments

    # Drawing

    def chance(self, share: float) -> bool:
        """True in this share of cases."""
        return self.rng.random() < share

    def dtype(self) -> str:
        """One of the program's types."""
        return self.rng.choice(self.dtypes)

    def shape(self, least: int = 0, most: int = 3) -> tuple[int, ...]:
        """Up to `most` dimensions of the program's sizes, few elements."""
        rank = self.rng.choice([n for n in (0, 1, 2, 2, 3, 3, 4) if least <= n <= most])
        made = tuple(self.rng.choice(self.sizes) for _ in range(rank))
        while math.prod(made) > MOST_ELEMENTS // 2:
            made = tuple(max(1, n // 2) for n in made)
        return made

    def any(self, test: Callable[[Var], bool] = lambda v: True) -> Var:
        """A value that passes, rather a late one."""
        found = [v for v in self.values if test(v)]
        if not found:
            raise NoFit
        late = found[-4:]
        return self.rng.choice(late if self.chance(0.7) else found)

    def like(self, shape: Sequence[int], dtype: str, holds: str = "any") -> Var:
        """A value of this type: one there is, a new argument, or one made to fit."""
        shape = tuple(shape)
        if math.prod(shape) > MOST_ELEMENTS or len(shape) > MOST_DIMENSIONS:
            raise NoFit
        same = [v for v in self.values if (v.shape, v.dtype) == (shape, dtype)]
        if same and holds == "any" and self.chance(0.7):
            return self.rng.choice(same)
        if not self.closed and (len(self.arguments) < 2 or self.chance(0.75)):
            return self.argument(shape, dtype, holds)
        if holds == "index":
            return self.counting(shape, dtype)
        return self.fitted(self.any(), shape, dtype)

    def argument(self, shape: Sequence[int], dtype: str, holds: str = "any") -> Var:
        """A new argument; `holds` says which numbers it is given."""
        made = Var(len(self.values), tuple(shape), dtype)
        self.values.append(made)
        self.arguments[made.number] = holds
        return made

    def index(self, shape: Sequence[int] = ()) -> Var:
        """Whole numbers, most of them small enough to index with."""
        dtype = self.rng.choice(["int32", "int32", "int64", "uint8", "int8", "uint32"])
        return self.like(shape, dtype, "index")

    # Acting

    def grow(self, steps: int) -> None:
        """Add so many steps; what does not fit is drawn again, up to a limit."""
        families, shares = list(self.families), list(self.families.values())
        done = 0
        for _ in range(12 * steps):
            if done == steps:
                return
            values, nodes, arguments = len(self.values), len(self.nodes), self.arguments
            self.arguments = dict(arguments)
            try:
                self.rng.choices(families, shares)[0](self)
                done += 1
            except NoFit:
                del self.values[values:], self.nodes[nodes:]
                self.arguments = arguments

    def body(self, inputs: Sequence[Var], grown: bool = True) -> Sketch:
        """A small program of values of these types, for a loop or a branch."""
        if self.depth > 1:
            raise NoFit
        rng = random.Random(self.rng.random())
        inner = Sketch(rng, self.dtypes, self.sizes, self.families, self.depth + 1)
        for value in inputs:
            inner.argument(value.shape, value.dtype)
        inner.closed = True
        if grown:
            inner.grow(rng.choice([1, 2, 3]))
        return inner

    def evaluate(self, given: Sequence[Any]) -> dict[int, Any]:
        """All values, of these arguments; inside a jax trace."""
        env = dict(zip(self.arguments, given, strict=True))
        for node in self.nodes:
            made = jax.tree.leaves(node.fn(*(env[v] for v in node.operands)))
            env.update(zip(node.results, made, strict=True))
        return env

    def do(self, fn: Callable[..., Any], *operands: Var) -> tuple[Var, ...]:
        """Apply a jax function to values; its results are new ones."""
        structs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in operands]
        try:
            made = jax.tree.leaves(jax.eval_shape(fn, *structs))
        except (TypeError, ValueError, NotImplementedError, IndexError) as error:
            raise NoFit from error
        if any(math.prod(m.shape) > MOST_ELEMENTS for m in made):
            raise NoFit
        if any(len(m.shape) > MOST_DIMENSIONS for m in made):
            raise NoFit
        first = len(self.values)
        results = tuple(
            Var(first + i, tuple(m.shape), str(m.dtype)) for i, m in enumerate(made)
        )
        self.values += results
        numbers = tuple(v.number for v in operands)
        self.nodes.append(Node(fn, numbers, tuple(r.number for r in results)))
        return results

    def one(self, fn: Callable[..., Any], *operands: Var) -> Var:
        """The same for a function with one result."""
        return self.do(fn, *operands)[0]

    def counting(self, shape: Sequence[int], dtype: str) -> Var:
        """Small whole numbers out of an iota."""
        step, start, size = (self.rng.randrange(1, 5) for _ in range(3))
        dim = self.rng.randrange(len(shape)) if shape else 0

        def count() -> Any:
            if not shape:
                return jnp.full((), start, dtype)
            made = lax.broadcasted_iota(jnp.int32, tuple(shape), dim)
            return lax.convert_element_type((made * step + start) % (3 * size), dtype)

        return self.one(count)

    def fitted(self, value: Var, shape: Sequence[int], dtype: str) -> Var:
        """A value cut, padded and converted to a type."""
        return self.one(lambda x: fitted(x, tuple(shape), dtype), value)

    def constant(self, dtype: str) -> Any:
        """A small number."""
        number = self.rng.choice([0, 1, 2, 3, -1, -2])
        return _number(number % 4 if dtype[0] in "ub" else number, dtype)


def identity(way: str, dtype: str) -> Any:
    """What changes nothing when it is added, multiplied or compared."""
    if way in ("add", "mul"):
        return _number(way == "mul", dtype)
    floating = dtype in FLOATS
    limits: Any = jnp.finfo if floating else jnp.iinfo
    info = limits(dtype)
    ends = (-jnp.inf, jnp.inf) if floating else (info.min, info.max)
    return _number(ends[way == "min"], dtype)


def _number(number: Any, dtype: str) -> np.ndarray:
    """As numpy has it: jax looks at what reductions start from, which traces hide."""
    return np.asarray(number, jnp.dtype(dtype))


def converted(x: Any, dtype: str) -> Any:
    """Convert; what no integer can stand for is made to fit first."""
    to_integer = dtype in INTEGERS or dtype in SMALL_INTEGERS
    if jnp.issubdtype(x.dtype, jnp.complexfloating) and dtype not in COMPLEX:
        x = lax.real(x)
    if to_integer and jnp.issubdtype(x.dtype, jnp.floating):
        low = 0 if dtype.startswith("u") else -7
        x = lax.select(lax.eq(x, x), x, lax.full_like(x, 0))
        x = lax.clamp(jnp.asarray(low, x.dtype), x, jnp.asarray(7, x.dtype))
    return lax.convert_element_type(x, dtype)


def fitted(x: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Cut, pad and convert an array to a shape and dtype."""
    x = converted(x, dtype)
    while x.ndim > len(shape):
        x = lax.index_in_dim(x, 0, 0, keepdims=False) if x.shape[0] else x.sum(0)
    if x.ndim < len(shape):
        dims = tuple(range(len(shape) - x.ndim, len(shape)))
        whole = (*shape[: len(shape) - x.ndim], *x.shape)
        x = lax.broadcast_in_dim(x, whole, dims)
    cut = tuple(slice(0, n) for n in shape)
    x = x[cut]
    edges = [(0, n - m, 0) for n, m in zip(shape, x.shape, strict=True)]
    if any(high for _, high, _ in edges):
        x = lax.pad(x, jnp.asarray(1, x.dtype), edges)
    return x
