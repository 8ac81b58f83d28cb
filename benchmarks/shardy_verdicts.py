"""Comparing one op's factors with Shardy's: what only one of the two can tile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from partir.ir.core import Signature
from partir.rules.factor import Factor
from partir.rules.nest import Nest, nest_of
from partir.rules.registry import rule_text

_NAME = re.compile(r"[a-z](?:_\d+)?")
Dims = tuple[int | None, ...]
Key = tuple[Dims, Dims, bool]  # operands, results, whether results are reduced


@dataclass(frozen=True)
class Rule:
    """Shardy's rule: factors along each dimension, major first, and their sizes."""

    operands: tuple[tuple[tuple[str, ...], ...], ...]
    results: tuple[tuple[tuple[str, ...], ...], ...]
    sizes: dict[str, int]
    sets: dict[str, frozenset[str]]
    text: str

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read what Shardy prints, `#sdy.op_sharding_rule<([i],[j])->([i, j]) …>`."""
        body = text.partition("<")[2].rpartition(">")[0]
        left, right = body.partition(" {")[0].split("->")
        sizes = re.search(r" \{([^}]*)\}", body)
        found = re.findall(rf"({_NAME.pattern})=(\d+)", sizes[1] if sizes else "")
        sets = {
            name: frozenset(_NAME.findall(members))
            for name, members in re.findall(r"([a-z_]+)=\{([^}]*)\}", body)
        }
        return cls(
            _tensors(left),
            _tensors(right),
            {name: int(size) for name, size in found},
            sets,
            body,
        )

    def is_(self, kind: str, name: str) -> bool:
        """Whether a factor is in one of the rule's sets."""
        return name in self.sets.get(kind, ())

    def key(self, name: str) -> Key:
        """Where a factor runs along."""
        return (
            tuple(_place(name, dims) for dims in self.operands),
            tuple(_place(name, dims) for dims in self.results),
            self.is_("reduction", name),
        )

    def before(self, name: str) -> list[str]:
        """Factors that have to be tiled in full first: more major in a dimension."""
        found: list[str] = []
        for names in (n for dims in (*self.operands, *self.results) for n in dims):
            if name in names:
                for other in names[: names.index(name)]:
                    found += [*self.before(other), other]
        return [n for n in dict.fromkeys(found) if self.sizes[n] > 1]

    def tileable(self, reshape: bool) -> Iterator[str]:
        """Factors that Shardy can tile. In a reshape, both sides must have them."""
        for name, size in self.sizes.items():
            _, results, reduced = self.key(name)
            joined = reduced or any(dim is not None for dim in results)
            whole = self.is_("need_replication", name)
            if size > 1 and joined and not whole:
                others = [name, *self.before(name)] if reshape else []
                if all(None not in self.key(n)[0] + self.key(n)[1] for n in others):
                    yield name


def _tensors(text: str) -> tuple[tuple[tuple[str, ...], ...], ...]:
    return tuple(
        tuple(tuple(_NAME.findall(dim)) for dim in tensor.split(",") if dim.strip())
        for tensor in re.findall(r"\[([^\]]*)\]", text)
    )


def _place(name: str, dims: tuple[tuple[str, ...], ...]) -> int | None:
    return next((i for i, names in enumerate(dims) if name in names), None)


@dataclass(frozen=True)
class Verdict:
    """One op: its rule, Shardy's, and what only one of them says."""

    op: Signature
    ours: str
    theirs: Rule | None
    more: tuple[Factor, ...]
    less: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """Ops with equal ones need not be shown twice."""
        theirs = re.sub(r"\{[a-z]=.*?\}", "", self.theirs.text) if self.theirs else ""
        return self.op.kind, self.ours, theirs


def compared(op: Signature, answer: str | None) -> Verdict:
    """What of the factors on both sides the other one lacks."""
    nest = nest_of(op)
    if answer is None:
        return Verdict(op, rule_text(op), None, nest.factors, ())
    rule = Rule.parse(answer)
    tileable = list(rule.tileable(reshape=op.name == "reshape"))
    local = {rule.key(n) for n in tileable if not rule.is_("permutation", n)}
    exchanged = [rule.key(n) for n in tileable if rule.is_("permutation", n)]
    more = tuple(
        factor
        for factor in nest.factors
        if _key(factor) not in local
        and not (factor.reach and any(_covers(_key(factor), key) for key in exchanged))
    )
    less = tuple(n for n in tileable if not _reached(nest, rule, n))
    return Verdict(op, rule_text(op), rule, more, less)


def _key(factor: Factor) -> Key:
    return factor.operands, factor.results, factor.reduce is not None


def _reached(nest: Nest, rule: Rule, name: str) -> bool:
    """Whether we can tile what Shardy's factor runs along, others before it.

    What it exchanges elements for, we may tile in other operands as well.
    """
    key = rule.key(name)
    if rule.is_("permutation", name):
        return any(_covers(_key(factor), key) for factor in nest.factors)
    for other in rule.before(name):
        number = _number(nest, rule.key(other))
        if number is None or nest.factors[number].size % rule.sizes[other]:
            return False
        nest = nest.inside(other, rule.sizes[other], number)
    return _number(nest, key) is not None


def _covers(ours: Key, theirs: Key) -> bool:
    pairs = zip(ours[0] + ours[1], theirs[0] + theirs[1], strict=True)
    return ours[2] == theirs[2] and all(b in (a, None) for a, b in pairs)


def _number(nest: Nest, key: Key) -> int | None:
    found = (i for i, factor in enumerate(nest.factors) if _key(factor) == key)
    return next(found, None)
