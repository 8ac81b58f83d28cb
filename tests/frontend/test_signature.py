"""Names of arguments and of programs, behind all kinds of wrappers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import pytest
from jax.experimental import checkify

import partir
from tests.refusals import ARGS, arrays, mlp

NAMES = ["params/w1", "params/w2", "x"]


def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return inner


def timed(fn: Callable[..., Any]) -> Callable[..., Any]:
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return inner


class Model:
    def __call__(self, params: Any, x: Any) -> Any:
        return mlp(params, x)


class Decorated:
    @logged
    def __call__(self, params: Any, x: Any) -> Any:
        return mlp(params, x)


class Wrapper:
    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        functools.update_wrapper(self, fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)


WRAPPED: dict[str, tuple[Callable[..., Any], str]] = {
    "wraps": (logged(mlp), "mlp"),
    "no wraps": (timed(mlp), "mlp"),
    "twice": (logged(timed(mlp)), "mlp"),
    "object": (Model(), "Model"),
    "method": (Model().__call__, "Model"),
    "decorated": (Decorated(), "Decorated"),
    "wrapper": (Wrapper(mlp), "mlp"),
    "jit": (jax.jit(mlp), "mlp"),
    "checkpoint": (jax.checkpoint(mlp), "mlp"),
    "named scope": (jax.named_scope("scope")(mlp), "mlp"),
    "checkify": (checkify.checkify(mlp), "mlp"),
    "vmap of an object": (jax.vmap(Model(), in_axes=(None, 0)), "Model"),
}


@pytest.mark.parametrize("which", WRAPPED)
def test_names_behind_wrappers(which: str) -> None:
    fn, name = WRAPPED[which]
    params, x = ARGS
    if which.startswith("vmap"):
        x = jax.ShapeDtypeStruct((3, 12, 8), "float32")
    program = partir.trace(fn, params, x)
    assert [port.name for port in program.arguments] == NAMES
    assert program.name == name


def test_wrappers_with_parameters_of_their_own() -> None:
    @functools.wraps(mlp)
    def keyed(key: Any, params: Any, x: Any) -> Any:
        return mlp(params, x + jax.random.normal(key, x.shape))

    @functools.wraps(mlp)
    def first(params: Any, *args: Any) -> Any:
        return mlp(params, *args)

    @functools.wraps(mlp)
    def scaled(scale: Any, *args: Any) -> Any:
        return scale * mlp(*args)

    def names(fn: Any, *args: Any) -> list[str]:
        return [port.name for port in partir.trace(fn, *args).arguments]

    assert names(keyed, jax.random.key(0), *ARGS) == ["key", *NAMES]
    assert names(first, *ARGS) == NAMES
    assert names(scaled, 2.0, *ARGS) == ["scale", "args/0/w1", "args/0/w2", "args/1"]
    bound = functools.partial(mlp, x=arrays()[1])
    assert names(bound, ARGS[0]) == ["captured/0", *NAMES[:2]]
