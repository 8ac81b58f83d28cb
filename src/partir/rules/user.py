"""`rule`: users' own rules for custom calls, and the rule of opaque functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import TracebackType

from partir.errors import PartitionError
from partir.ir.core import Program, Signature
from partir.ir.user_rule import OPAQUE, RULE, SAME, UserRule, parse
from partir.ir.user_rule_shapes import fitted, require_sizes, sizes
from partir.rules import registry
from partir.rules.factor import Factor

_CALL = "stablehlo.custom_call"
_written: dict[str, UserRule] = {}  # by target


class RegisteredRule:
    """What `partir.rule` returns. As a context, it takes the rule back at the end."""

    def __init__(self, target: str, rule: UserRule, before: UserRule | None) -> None:
        """Made by `partir.rule`."""
        self.target, self.rule = target, rule
        self._before = before

    def __repr__(self) -> str:
        """Target and rule."""
        return f'<partir.rule "{self.target}": {self.rule}>'

    def remove(self) -> None:
        """Forget the rule; one that it replaced is back."""
        if _written.get(self.target) is self.rule:
            _put(self.target, self._before)

    def __enter__(self) -> RegisteredRule:
        """The rule itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove it."""
        self.remove()


def rule(target: str, rule: str, *, replace: bool = False) -> RegisteredRule:
    """Say how the dimensions of a custom call belong together, so that it can be tiled.

    Args:
        target: the call's `call_target_name`, as given to `jax.ffi.ffi_call`.
        rule: ``"b s d, d f -> b s f sum=d"``: operands, ``->``, results, one name per
            dimension. A call on tiles along a name gives tiles along it. A name that a
            result lacks is marked with how the parts are put together: ``sum=d``, or
            mul, max, min, and, or. ``_`` or ``1`` is a dimension that stays whole,
            ``...`` any number of dimensions, ``()`` a scalar. ``same=b``: results
            without b do not depend on it. ``grouped=h``: sizes of h differ, but are
            multiples of the smallest (query heads that share a key head).
        replace: whether another rule for this target may be there already.

    Returns:
        A handle: ``.remove()`` takes the rule back, as does the end of a ``with``.

    Raises:
        PartitionError: the rule is malformed, or the target has another one.

    Example:
        >>> import partir
        >>> module = '''
        ... func.func @main(%x: tensor<8x4xf32>) -> tensor<8xf32> {
        ...   %0 = stablehlo.custom_call @row_norms(%x)
        ...     : (tensor<8x4xf32>) -> tensor<8xf32>
        ...   return %0 : tensor<8xf32>
        ... }'''
        >>> rows = partir.ManualPartition({"arg0": 0}, axis="B")
        >>> with partir.rule("row_norms", "b _ -> b"):
        ...     partir.partition(partir.load(module), {"B": 4}, [rows]).out_specs
        (P('B',),)
    """
    if not isinstance(target, str) or not target:
        raise PartitionError(f"a rule's target is a custom call's name, got {target!r}")
    made = parse(rule)
    before = _written.get(target)
    if before is not None and before != made and not replace:
        raise PartitionError(
            f'custom call "{target}" has the rule "{before}" already, not "{made}"; '
            "pass replace=True to put this one in its place"
        )
    _put(target, made)
    return RegisteredRule(target, made, before)


def _put(target: str, rule: UserRule | None) -> None:
    """Set or remove a rule. Answers kept for such calls are no longer true."""
    shown = f'"{target}"'
    if rule is None:
        _written.pop(target, None)
        registry.target_rules.pop(shown, None)
    else:
        _written[target] = rule
        registry.target_rules[shown] = lambda op: factors(rule, op)
    for signature in Signature.known():
        if signature.attrs.get("call_target_name") == shown:
            signature.cache.clear()


def user_rules() -> dict[str, UserRule]:
    """All rules of users, by target: to be put in place in another process."""
    return dict(_written)


def put_rules(rules: dict[str, UserRule]) -> None:
    """Put rules of another process in place."""
    for target, rule in rules.items():
        if _written.get(target) != rule:
            _put(target, rule)


def factors(rule: UserRule, op: Signature) -> Iterator[Factor]:
    """A factor for each name."""
    made = fitted(rule, op.operands, op.results)
    monoids = {name: mark for name, mark in made.reduced if mark != SAME}
    for name in made.names:
        size = math.gcd(*sizes(made, name, op.operands, op.results).values())
        operands, results = made.places(name)
        yield Factor(size, operands, results, monoids.get(name))


def _opaque(op: Signature) -> Iterator[Factor]:
    """As its author wrote it: such a call brings its rule along."""
    yield from factors(parse(op.attrs[RULE].strip('"')), op)


registry.target_rules[f'"{OPAQUE}"'] = _opaque


def require_rules_fit(program: Program) -> None:
    """A custom call that its user's rule doesn't fit is a PartitionError."""
    if not _written:
        return
    for op in program.ops:
        target = op.signature.attrs.get("call_target_name", "").strip('"')
        if op.kind != _CALL or target not in _written:
            continue
        types = op.signature.operands, op.signature.results
        try:
            require_sizes(fitted(_written[target], *types), *types)
        except PartitionError as error:
            raise PartitionError(
                f'custom call "{target}" at {op.location}: {error}'
            ) from None
