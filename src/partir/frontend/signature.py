"""Parameters and name of a callable as its author wrote them, behind wrappers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from partir.errors import PartitionError

_KINDS = inspect.Parameter
_UNNAMED = "<unnamed function>"  # jax's wrappers around objects without a name


def read_signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature that a call has to fit; None if the callable does not tell.

    A wrapper that passes everything on has the signature of what it wraps; any other
    one has its own, even if `functools.wraps` says otherwise.
    """
    if inspect.ismethod(fn):
        return _bound(read_signature(fn.__func__))
    own = _own_signature(fn)
    if own is not None and not _takes_rest(own):
        return own
    behind = _behind(fn, own)
    if behind is None:
        return own
    return behind if own is None or _begins(behind, own) else own


def _behind(fn: Any, own: inspect.Signature | None) -> inspect.Signature | None:
    """The signature of what is wrapped, or of an object's method `__call__`."""
    inner = _wrapped(fn, own)
    if inner is not None:
        return read_signature(inner)
    call = type(fn).__call__
    if inspect.isroutine(fn) or not inspect.isfunction(call):
        return None
    return _bound(read_signature(call))


def _bound(signature: inspect.Signature | None) -> inspect.Signature | None:
    """Without `self`."""
    if signature is None:
        return None
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind == _KINDS.VAR_POSITIONAL:
        return signature
    return signature.replace(parameters=parameters[1:])


def function_name(fn: Callable[..., Any]) -> str:
    """The function's name as programs and profiles show it."""
    inner = fn.func if isinstance(fn, functools.partial) else fn
    name = _own_name(inner)
    if name == "__call__" and hasattr(inner, "__self__"):
        return _own_name(inner.__self__)
    behind = _wrapped(inner, _own_signature(inner))
    renamed = hasattr(inner, "__wrapped__") and name not in (
        _UNNAMED,
        _own_name(behind),
    )
    if behind is not None and not renamed:
        return function_name(behind)
    return name.replace("<lambda>", "lambda")


def _own_name(fn: Any) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__))


class _Shown(str):
    """A parameter's name that need not be one that Python could take."""

    def isidentifier(self) -> bool:
        return True


def named_signature(names: Sequence[str]) -> inspect.Signature:
    """A signature of these names: what jax calls the leaves of a call in messages."""
    kind = _KINDS.POSITIONAL_ONLY
    return inspect.Signature([_KINDS(_Shown(name), kind) for name in names])


class WrongCall(PartitionError, TypeError):
    """Arguments that the function does not take, or too few of them."""


def wrong_call(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> WrongCall | None:
    """How these arguments don't fit the function; None if they do.

    Asked after a TypeError, not before a call: a wrapper may change the arguments.
    """
    signature = read_signature(fn)
    if signature is None:
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name, takes = function_name(fn), _signature_text(signature)
        given = [f"{len(args)} by position"] if args else []
        given += [f"{', '.join(kwargs)} by name"] if kwargs else []
        nothing = f"nothing (partition takes arrays or shapes as args=({takes}))"
        return WrongCall(
            f"{name} can't be called like this: {error}. It takes ({takes}) and was "
            f"given {' and '.join(given) or nothing}"
        )
    return None


def _signature_text(signature: inspect.Signature) -> str:
    """``params, x, *rest, train=…``: names alone, without types and defaults."""
    stars: dict[object, str] = {_KINDS.VAR_POSITIONAL: "*", _KINDS.VAR_KEYWORD: "**"}
    return ", ".join(
        f"{stars.get(p.kind, '')}{p.name}{'' if p.default is p.empty else '=…'}"
        for p in signature.parameters.values()
    )


def _own_signature(fn: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(fn, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def _takes_rest(signature: inspect.Signature) -> bool:
    return any(p.kind == _KINDS.VAR_POSITIONAL for p in signature.parameters.values())


def _begins(behind: inspect.Signature, own: inspect.Signature) -> bool:
    """Whether a wrapper names nothing but the first parameters of what it wraps."""
    stars = (_KINDS.VAR_POSITIONAL, _KINDS.VAR_KEYWORD)
    named = [p.name for p in own.parameters.values() if p.kind not in stars]
    return named == list(behind.parameters)[: len(named)]


def _wrapped(fn: Any, own: inspect.Signature | None) -> Any:
    """What a wrapper says that it wraps, or the one function that it could.

    The latter is for functions of nothing but ``*args, **kwargs``, as of
    `checkify.checkify`, that hold a single callable.
    """
    if isinstance(fn, functools.partial):
        return None  # has taken some of the parameters away
    if hasattr(fn, "__wrapped__"):
        return fn.__wrapped__
    if not inspect.isfunction(fn) or own is None or not _passes_all_on(own):
        return None
    held = [cell.cell_contents for cell in fn.__closure__ or () if _is_filled(cell)]
    callables = [one for one in held if callable(one) and not isinstance(one, type)]
    return callables[0] if len(callables) == 1 else None


def _passes_all_on(signature: inspect.Signature) -> bool:
    kinds = [p.kind for p in signature.parameters.values()]
    return kinds == [_KINDS.VAR_POSITIONAL, _KINDS.VAR_KEYWORD]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
