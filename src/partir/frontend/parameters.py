"""A function's parameters: their names, and which are static or donated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from partir.errors import PartitionError, nearest
from partir.frontend.signature import read_signature

Static = tuple[int | str, type, Any]
"""Position or keyword, type and value: 1, 1.0 and True are equal but not the same."""


@dataclass(frozen=True, slots=True)
class Options:
    """Which arguments are static and which may be donated, as jax.jit takes them."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        static_argnums: int | Sequence[int] | None = (),
        static_argnames: str | Sequence[str] | None = (),
        donate_argnums: int | Sequence[int] | None = (),
        donate_argnames: str | Sequence[str] | None = (),
    ) -> Options:
        """Accept single ones, sequences and None."""
        return cls(
            _numbers("static", static_argnums),
            _names("static", static_argnames),
            _numbers("donate", donate_argnums),
            _names("donate", donate_argnames),
        )


def _numbers(what: str, given: Any) -> tuple[int, ...]:
    listed = _listed(given)
    whole = [hasattr(n, "__index__") and not isinstance(n, bool) for n in listed]
    if not all(whole):
        raise PartitionError(
            f"{what}_argnums takes positions of arguments, as 1 or (0, 1), got "
            f"{given!r}; names go into {what}_argnames"
        )
    return tuple(int(n) for n in listed)


def _names(what: str, given: Any) -> tuple[str, ...]:
    listed = _listed(given)
    if not all(isinstance(name, str) for name in listed):
        raise PartitionError(
            f'{what}_argnames takes names of arguments, as "x" or ("x", "y"), got '
            f"{given!r}; positions go into {what}_argnums"
        )
    return listed


def _listed(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    single = isinstance(given, str) or not isinstance(given, Iterable)
    return (given,) if single else tuple(given)


class Parameters:
    """Names of a function's parameters, and which are static or donated."""

    def __init__(
        self,
        named: Sequence[str] = (),
        *,
        others: Sequence[str] = (),
        rest: str | None = None,
        extra: str | None = None,
        options: Options | None = None,
    ) -> None:
        """`named` can be positional, `others` are keyword-only; then *rest, **extra."""
        self._named, self._known = list(named), {*named, *others}
        self._rest, self._extra = rest, extra
        options = options or Options()
        self.static_numbers, self.static_names = self._both(
            "static", options.static_argnums, options.static_argnames
        )
        self.donated_numbers, self.donated_names = self._both(
            "donate", options.donate_argnums, options.donate_argnames
        )
        both = self.static_names & self.donated_names
        if both:
            raise PartitionError(
                f'"{min(both)}" is both static and donated: only arrays can be donated'
            )

    @classmethod
    def of(cls, fn: Callable[..., Any], options: Options) -> Parameters:
        """Read a function's signature; one that has none takes anything."""
        signature = read_signature(fn)
        if signature is None:
            return cls(rest="args", extra="kw", options=options)
        found = list(signature.parameters.values())
        kinds = inspect.Parameter
        positional = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        return cls(
            [p.name for p in found if p.kind in positional],
            others=[p.name for p in found if p.kind == kinds.KEYWORD_ONLY],
            rest=next((p.name for p in found if p.kind == kinds.VAR_POSITIONAL), None),
            extra=next((p.name for p in found if p.kind == kinds.VAR_KEYWORD), None),
            options=options,
        )

    def _both(
        self, what: str, numbers: Sequence[int], names: Sequence[str]
    ) -> tuple[set[int], set[str]]:
        """A parameter given by number is meant by name too, and the other way."""
        count = len(self._named)
        wrapped = {n + count if n < 0 else n for n in numbers}
        for number in wrapped:
            if number < 0 or (number >= count and self._rest is None):
                raise PartitionError(
                    f"{what}_argnums has {number}, but the function takes {count} "
                    f"positional arguments: {', '.join(self._named) or 'none'}"
                )
        for name in names:
            if name not in self._known and self._extra is None:
                raise PartitionError(
                    f'{what}_argnames has "{name}", which is no parameter of the '
                    f"function; nearest: {nearest(name, sorted(self._known))}"
                )
        by_name = {self._named.index(n) for n in names if n in self._named}
        by_number = {self._named[n] for n in wrapped if n < count}
        return wrapped | by_name, set(names) | by_number

    def positional(self, number: int) -> str:
        """Name of a positional argument."""
        if number < len(self._named):
            return self._named[number]
        return f"{self._rest or 'args'}/{number - len(self._named)}"

    def keyword(self, name: str) -> str:
        """Name of a keyword argument."""
        return name if name in self._known else f"{self._extra or 'kw'}/{name}"

    # Static arguments

    def take_statics(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], tuple[Static, ...]]:
        """The arguments without the static ones, and those."""
        if not (self.static_numbers or self.static_names):
            return tuple(args), dict(kwargs), ()
        numbers, names = self.static_numbers, self.static_names
        statics: list[Static] = [
            (i, type(a), a) for i, a in enumerate(args) if i in numbers
        ]
        statics += [(n, type(a), a) for n, a in sorted(kwargs.items()) if n in names]
        return (
            tuple(a for i, a in enumerate(args) if i not in numbers),
            {n: a for n, a in kwargs.items() if n not in names},
            tuple(statics),
        )

    def check_statics(self, statics: Sequence[Static]) -> None:
        """Static arguments identify the call, so they need a hash."""
        for where, kind, value in statics:
            try:
                hash(value)
            except TypeError:
                name = self.positional(where) if isinstance(where, int) else where
                raise PartitionError(
                    f'static argument "{name}" is a {kind.__name__}, which has no '
                    "hash: pass a hashable value (a tuple for a list, a frozen "
                    "dataclass), or an array as an ordinary argument"
                ) from None
