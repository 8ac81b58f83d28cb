"""Reducers that are no monoid: whether partial results may be joined, from what start.

StableHLO wants reducers to be associative and their initial values neutral. Not all
programs keep to the latter, and argmax does not: its index of "no element" is 0. So
that an initial value counts once whatever it is, partial results are reduced from
nothing: each element comes with a mark that it is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product

from partir.ir.core import Lambda, Op, Signature
from partir.ir.source import Location
from partir.ir.types import TensorType, tensor
from partir.rules.associative import direction_of, has_counterexample
from partir.rules.monoids import OPS, adding, identity

_ASSOCIATIVE = frozenset((*OPS.values(), "stablehlo.xor"))
_BOOLEAN = tensor((), "i1")

Symbol = tuple[str, int] | bool
"""The start or an element, with its place among the operands; or what is decided."""
START, ELEMENT = "start", "element"
UNORDERED = 2  # how a nan compares


def is_associative(body: Lambda) -> bool:
    """Whether it may be: no single op and no three numbers show otherwise."""
    if any(not type_.tensor for type_ in body.types):
        return False
    arguments = set(body.arguments)
    for op in body.ops:
        if len(op.operands) == 2 and arguments.issuperset(op.operands):
            made = not set(op.results).isdisjoint(body.results)
            if made and op.kind not in _ASSOCIATIVE:
                return False
            if op.kind == OPS["sum"] and not adding(body.types[op.results[0]].dtype):
                return False
    return not has_counterexample(body)


def from_nothing(body: Lambda) -> Lambda:
    """The reducer of values with a mark each, last among them: that there is one.

    Of two that are there it makes what `body` makes; of one, that one.
    """
    count = len(body.results)
    types, ops = list(body.types), list(body.ops)

    def new(type_: TensorType) -> int:
        types.append(type_)
        return len(types) - 1

    def emit(kind: str, *operands: int) -> int:
        made = new(types[operands[-1]])
        ins = tuple(types[v] for v in operands)
        signature = Signature.of(f"stablehlo.{kind}", {}, ins, (types[made],))
        ops.append(Op(signature, operands, (made,), Location()))
        return made

    left, right = body.arguments[:count], body.arguments[count:]
    one, other = new(_BOOLEAN), new(_BOOLEAN)
    both = emit("and", one, other)
    results = [
        emit("select", both, made, emit("select", one, a, b))
        for made, a, b in zip(body.results, left, right, strict=True)
    ]
    either = emit("or", one, other)
    arguments = (*left, one, *right, other)
    return Lambda(tuple(types), arguments, tuple(ops), (*results, either))


def counts_any_times(body: Lambda, literals: Sequence[str | None]) -> bool:
    """Whether initial values, known numbers, may count once for every tile.

    They may if the reducer makes the same of the start and an element in either order,
    and of the start with itself the start. All ways in which elements can compare with
    the start are tried.
    """
    types = [body.types[v] for v in body.arguments[: len(body.results)]]
    if not all(map(_is_plain, types, literals)):
        return False
    return _commutes(body)


def _is_plain(type_: TensorType, literal: str | None) -> bool:
    """Whether equal to it means the same number: no nan, no zero with a sign."""
    if literal is None or type_.dtype.startswith("complex"):
        return False
    if literal in (identity("max", type_), identity("min", type_)):
        return True
    if "f" not in type_.dtype or type_.dtype == "i1":
        return True
    try:
        return float(literal) not in (0.0, float("nan"))
    except ValueError:
        return False


@lru_cache(maxsize=1 << 12)
def _commutes(body: Lambda) -> bool:
    count = len(body.results)
    types = [body.types[v] for v in body.arguments[:count]]
    signs = [(-1, 0, 1, UNORDERED) if "f" in t.dtype else (-1, 0, 1) for t in types]
    start = [(START, k) for k in range(count)]
    element = [(ELEMENT, k) for k in range(count)]
    for case in product(*signs):
        one, other = (
            _results(body, first + second, case)
            for first, second in ((start, element), (element, start))
        )
        if one is None or other is None:
            return False
        if not all(map(_same, one, other, range(count), [case] * count)):
            return False
    return True


def _same(one: Symbol, other: Symbol, place: int, case: tuple[int, ...]) -> bool:
    """Whether two symbols are one number, which belongs to this place."""
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    return one[1] == other[1] == place and (one == other or case[place] == 0)


def _results(
    body: Lambda, arguments: list[tuple[str, int]], case: tuple[int, ...]
) -> list[Symbol] | None:
    """What the reducer makes, None if these cases do not tell."""
    known: dict[int, Symbol] = dict(zip(body.arguments, arguments, strict=True))
    for op in body.ops:
        operands = [known[v] for v in op.operands]
        made = _evaluated(op, operands, case)
        if made is None:
            return None
        known[op.results[0]] = made
    return [known[v] for v in body.results]


def _evaluated(op: Op, operands: list[Symbol], case: tuple[int, ...]) -> Symbol | None:
    if not operands:  # a constant: how it compares is no part of the cases
        return None
    name, (first, *others) = op.signature.name, operands
    if isinstance(first, bool):
        return _decided(name, first, others)
    sign = _sign(first, others[0], case) if len(others) == 1 else None
    if sign is None:
        return None
    if name == "compare":
        return _compared(op.signature, sign)
    if name not in ("maximum", "minimum"):
        return None
    if sign == UNORDERED:  # nan wins
        return ELEMENT, first[1]
    return first if (sign > 0) == (name == "maximum") else others[0]


def _decided(name: str, first: bool, others: list[Symbol]) -> Symbol | None:
    """What is made of something that is known to hold, or not to."""
    if name == "select":
        return others[0] if first else others[1]
    if not all(isinstance(other, bool) for other in others):
        return None
    if name == "not":
        return not first
    both = {"and": all, "or": any}.get(name)
    return both([first, *others]) if both else None


def _sign(one: Symbol, other: Symbol, case: tuple[int, ...]) -> int | None:
    """How two symbols of one place compare; None if that is not known."""
    if isinstance(one, bool) or isinstance(other, bool) or one[1] != other[1]:
        return None
    sign = case[one[1]]  # of the element beside the start
    if one == other:
        return UNORDERED if sign == UNORDERED and one[0] == ELEMENT else 0
    return sign if sign == UNORDERED or one[0] == ELEMENT else -sign


def _compared(signature: Signature, sign: int) -> bool | None:
    direction = direction_of(signature)
    if direction is None:
        return None
    if sign == UNORDERED:
        return direction == "NE"
    holds = {"LT": -1, "EQ": 0, "GT": 1}
    negated = {"GE": "LT", "NE": "EQ", "LE": "GT"}
    if direction in negated:
        return sign != holds[negated[direction]]
    return sign == holds[direction]
