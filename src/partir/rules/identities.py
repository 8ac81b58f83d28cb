"""What rewrites rest on: equations by name, where they hold, and what they assume.

Whatever moves, merges or delays a collective, or changes the form in which one is done,
says with `cites` which of these it uses. Each has tests at the edges of its types, and
`docs/identities.md` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Assumption:
    """What is taken for granted of the numbers that a program computes with."""

    name: str
    statement: str


@dataclass(frozen=True, slots=True)
class Identity:
    """An equation, the types and conditions in which it holds, what it assumes.

    It is exact, but that floats are rounded in another order where they are added.
    """

    name: str
    equation: str
    holds: str
    assumes: tuple[Assumption, ...] = ()


ASSUMPTIONS: dict[str, Assumption] = {}
IDENTITIES: dict[str, Identity] = {}
_cited: dict[str, tuple[Identity, ...]] = {}


def cites(*identities: Identity) -> Callable[[F], F]:
    """Say which identities a function uses."""

    def mark(function: F) -> F:
        _cited[f"{function.__module__}.{function.__qualname__}"] = identities
        return function

    return mark


def citations() -> Mapping[str, tuple[Identity, ...]]:
    """What functions cite, by their full names; of modules imported so far."""
    return _cited


def _assume(name: str, statement: str) -> Assumption:
    return ASSUMPTIONS.setdefault(name, Assumption(name, statement))


def _identity(name: str, equation: str, holds: str, *assumes: Assumption) -> Identity:
    return IDENTITIES.setdefault(name, Identity(name, equation, holds, assumes))


# Assumptions

FINITE = _assume(
    "finite operands",
    "The operands of a product, a convolution, a Fourier transform or a triangular "
    "solve are finite. If one is not, what is infinite may become nan.",
)
IN_RANGE = _assume(
    "sums in range",
    "No part of a sum or product of floats overflows or underflows, in whatever order "
    "it is computed. If one does, what is finite may become infinite or nan.",
)
ZEROS = _assume(
    "zeros alike",
    "The sign of a zero that a sum over devices gives, or a sum with zeros, does not "
    "matter, nor does a denormal number: XLA's sums on CPUs start from +0 and flush "
    "denormals, and XLA leaves out what adds zero.",
)
ASSOCIATIVE = _assume(
    "associative reducers",
    "A reducer that is more than one op is associative, as StableHLO demands. If it is "
    "not, no result is more right than another.",
)

# Reductions over devices

PARTS = _identity(
    "parts",
    "reduce(x) = reduce(reduce(tile 0), reduce(tile 1), …)",
    "sum, product, maximum, minimum, and, or, in any type; nan wins in maximum and "
    "minimum; not products of complex numbers",
    IN_RANGE,
    ZEROS,
)
PIECES = _identity(
    "pieces",
    "x = x + nothing + nothing + …",
    "any type, where one device has an element and the others the sum's identity: "
    "-0, 0, false; of powers of two, the least",
    ZEROS,
)
JOINED = _identity(
    "joined",
    "reduce(init, x) = reduce(init, [reduce(tile 0), reduce(tile 1), …])",
    "any reducer and any type, tiles in their order; init counts once, or for every "
    "tile if it can be shown that this does not matter",
    ASSOCIATIVE,
)
LARGEST = _identity(
    "largest",
    "top_k(x) = top_k([top_k(tile 0), top_k(tile 1), …])",
    "any type, tiles in their order, so that of equals the first is found; places are "
    "counted from the start of the whole",
)
ONCE = _identity(
    "once",
    "reduce(init, x) = reduce(reduce(init, tile 0), reduce(identity, tile 1), …)",
    "any reduction with an identity; where it is idempotent, init itself will do",
    ZEROS,
)
SCATTERED = _identity(
    "scattered",
    "slice(all_reduce x) = reduce_scatter x",
    "any reduction, any type; nothing else reads what is reduced",
)
ORDERED = _identity(
    "ordered",
    "max(x, y) = float(max(order(x), order(y)))",
    "maximum and minimum of floats; order(x) is x's bits as an integer in the same "
    "order, nan at the end that wins",
)
CUT = _identity(
    "cut",
    "reduce(x, y) = cut(reduce(wide x, wide y))",
    "two-bit integers as bytes: what is cut off a sum or product does not count",
)

# Sums that move

MOVED = _identity(
    "moved",
    "move(Σ x) = Σ move(x)",
    "any type; elements only change places, which are equal on all devices, and what "
    "is filled in is zero",
    ZEROS,
)
ADDED = _identity(
    "added",
    "Σ x + Σ y = Σ (x + y)",
    "within one type: integers wrap around alike; floats",
    IN_RANGE,
    ZEROS,
)
NEGATED = _identity(
    "negated", "-Σ x = Σ -x", "within one type: integers, floats", ZEROS
)
SCALED = _identity(
    "scaled",
    "c · Σ x = Σ c · x",
    "within one type: integers; floats if c is finite for certain",
    IN_RANGE,
    ZEROS,
)
DIVIDED = _identity(
    "divided",
    "(Σ x) / c = Σ (x / c)",
    "real floats, if c is one number everywhere; neither c nor 1 / c is denormal",
    IN_RANGE,
    ZEROS,
)
MULTIPLIED = _identity(
    "multiplied",
    "(Σ x) @ w = Σ (x @ w)",
    "products and convolutions: integers within one type; floats, also into a wider "
    "type; pieces only if w is finite for certain",
    FINITE,
    IN_RANGE,
    ZEROS,
)
TRANSFORMED = _identity(
    "transformed",
    "F(Σ x) = Σ F(x)",
    "Fourier transforms, and triangular solves that divide by nothing; not pieces",
    FINITE,
    IN_RANGE,
    ZEROS,
)
COMPOSED = _identity(
    "composed",
    "g(f(Σ x)) = Σ g(f(x))",
    "if f and g each let the sum through",
    FINITE,
    IN_RANGE,
    ZEROS,
)
ACCUMULATED = _identity(
    "accumulated",
    "loop(a + Σ x) = Σ loop(a + x)",
    "a starts from zero, nothing else reads it, and every op between lets the sum "
    "through, or makes floats wider; any number of iterations, none as well",
    FINITE,
    IN_RANGE,
    ZEROS,
)

# Layouts

TILED = _identity(
    "tiled",
    "gather(slice x) = x",
    "any type, any tuples of axes: a value is the same in every layout",
)
AGAIN = _identity(
    "again",
    "move(f(x)) = f(move x)",
    "any type; f does little, keeps tiles apart and has no effects; no more bytes move",
)
BESIDE = _identity(
    "beside",
    "f(x)[tile] = f(x[window])",
    "any type; the window holds all that the tile is made of, and outside of the value "
    "what the op would read there",
)
ROWWISE = _identity(
    "rowwise",
    "window(x @ w) = x @ window(w)",
    "any type; ops that make each row, of the dimension that is read in windows, from "
    "one row of each operand that has it, wherever it lies",
)
SHORT = _identity(
    "short",
    "reduce(x) = reduce(tile, …, short tile followed by the identity)",
    "any reduction with an identity; both sides of a product; elsewhere what is behind "
    "the end is cut off before it counts",
    ZEROS,
)
TURNED = _identity(
    "turned",
    "transpose(x @ y) = transpose(y) @ transpose(x)",
    "products in any type: what is multiplied may change places",
)
EQUAL = _identity(
    "equal",
    "gather x = gather x",
    "moves of equal values with the same axes and dimensions",
)
TOGETHER = _identity(
    "together",
    "move [x, y] = [move x, move y]",
    "any type, values side by side along another dimension than moves are along; sums "
    "of each element by itself",
)
WAITING = _identity(
    "waiting", "x after y = x", "a barrier; it delays a move and changes no number"
)
UNREAD = _identity(
    "unread", "f(x), g(y) = f(x)", "nothing reads g(y), and g has no effects"
)

# Normal forms

SHIFTED = _identity(
    "shifted",
    "slice(pad x) = pad x, with the slice's edges taken off the pad's",
    "any type; pads and slices of neighbours in any order, if nothing is added where "
    "something was cut off, and all that is added is one number",
)
ROTATED = _identity(
    "rotated",
    "concatenate(x[k:], x[:k]) = roll(x)",
    "any type; slices of one value that go on where the one before ended, from the "
    "beginning again behind the end, as often as they do",
)
DISJOINT = _identity(
    "disjoint",
    "pad(x) + pad(y) = concatenate(x, y)",
    "any type; pads with zeros along one dimension, of parts that don't overlap and "
    "leave no gap",
    ZEROS,
)
PADDED = _identity(
    "padded",
    "window(pad x) = window of x, with the pad's edges as its padding",
    "reductions padded with their identity, which they start from; convolutions padded "
    "with zeros",
    FINITE,
    ZEROS,
)
POOLED = _identity(
    "pooled",
    "slice(select_and_scatter(pad x, y)) = select_and_scatter(x, y), filled",
    "any type; padding that has the number to which any other is preferred, and whose "
    "part of the result is cut off; infinities and nan go where they went",
)
UNMERGED = _identity(
    "unmerged",
    "reshape(reshape(x) @ w + b) = x @ w + b",
    "any type; what reshapes merge before a product is what they split behind it, or "
    "what it, or another reduction, takes together, in the same order",
)
SET_APART = _identity(
    "set apart",
    "slice(reshape x) = reshape(slice x)",
    "any type; a slice of the first of the dimensions that one was split into",
)
TAKEN = _identity(
    "taken",
    "case(constant) = its branch",
    "any type; a number that is no branch's takes the last",
)
