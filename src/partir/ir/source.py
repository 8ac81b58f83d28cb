"""Where an op was written: the user's line, the module path, and the whole stack."""

from __future__ import annotations

import functools
import os
import re
import sys
from dataclasses import dataclass, field
from typing import NamedTuple

# Packages whose lines are not the user's.
FRAMEWORKS = frozenset(
    (
        "beartype chex diffrax distrax einops equinox flax haiku jax jaxlib jaxtyping "
        "jraph keras keras_hub lineax numpy optax optimistix orbax penzai rlax torch "
        "torch_xla torchax transformers typeguard"
    ).split()
)
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\](\w+)")
_STANDARD = re.compile(r"[/\\]lib[/\\]python3(?:\.\d+)?[/\\](?!(?:site|dist)-packages)")
# How a name stack spells jitted functions, control flow and transformations around the
# user's own scopes.
_JITTED = re.compile(r"\bp?jit\([^()]*\)")
_CONTROL = re.compile(r"\b(?:while/(?:body|cond)|cond/branch_\d+_fun)\b")
_TRANSFORM = re.compile(r"\b(?:jvp|transpose|vmap|pmap|linearize)\(([^()]*)\)")
_AGAIN = frozenset({"checkpoint", "remat2"})
_CALLS = frozenset(
    (
        "closed_call core_call custom_jvp_call custom_vjp_call jit pjit "
        "rematted_computation shard_map"
    ).split()
)


class Frame(NamedTuple):
    """One call of a stack."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        """``model.py:12 (attend)``."""
        name = f" ({self.function})" if self.function else ""
        return f"{short(self.file)}:{self.line}{name}"


@dataclass(frozen=True, slots=True)
class Location:
    """The innermost line that is the user's own, and jax's name stack there.

    `stack` is empty where the line is all there is. Where every line is a framework's,
    `file` and `line` are the innermost of those.
    """

    function: str = ""
    file: str = ""
    line: int = 0
    path: str = ""
    stack: tuple[Frame, ...] = field(default=(), compare=False, repr=False)

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The whole stack, innermost first, with the lines of frameworks."""
        if self.stack or not self.file:
            return self.stack
        return (Frame(self.function, self.file, self.line),)

    @property
    def scope(self) -> str:
        """The module path, ``layer_3/mlp``: what `path` has of the user's own scopes.

        >>> Location(path="jit(step)/transpose(jvp(net))/layer_3/jit(relu)/mul").scope
        'net/layer_3'
        """
        return _scope(self.path)

    @property
    def framework(self) -> str | None:
        """The package that the line belongs to, if it is not the user's."""
        return framework_of(self.file)

    def __str__(self) -> str:
        """``model.py:12 in layer_3/mlp``; ``model.py:12 (attend)`` without scopes."""
        if not self.file:
            return self.path or "an unknown place"
        if self.file == "-":  # text that came from no file
            return f"line {self.line}"
        text = f"{short(self.file)}:{self.line}"
        if self.scope:
            text += f" in {self.scope}"
        elif self.function:
            text += f" ({self.function})"
        if self.framework:
            text += f" (inside {self.framework}: no line of your own)"
        return text


def short(file: str) -> str:
    """A file's path from its package or the working directory, if it is there."""
    package = _PACKAGE.search(file)
    if package:
        return file[package.start(1) :]
    try:
        return file.removeprefix(os.getcwd() + os.sep)
    except FileNotFoundError:  # somebody removed the working directory
        return file


@functools.cache
def framework_of(file: str) -> str | None:
    """The framework that a file belongs to; None for the user's files.

    >>> framework_of("/usr/lib/python3/dist-packages/flax/linen/linear.py")
    'flax'
    """
    packages = _PACKAGE.findall(file)
    if packages:
        return packages[-1] if packages[-1] in FRAMEWORKS else None
    if _STANDARD.search(file):
        return "Python"
    for name in FRAMEWORKS & sys.modules.keys():  # not in a folder of packages
        folders = getattr(sys.modules[name], "__path__", ())
        if any(file.startswith(folder + os.sep) for folder in folders):
            return name
    return None


@functools.lru_cache(maxsize=1 << 14)
def _scope(path: str) -> str:
    path, _, op = _CONTROL.sub("", _JITTED.sub("", path)).rpartition("/")
    count = 1
    while count:
        path, count = _TRANSFORM.subn(r"\1", path)
    found: list[str] = []
    for name in path.split("/"):
        if name in _AGAIN:
            _drop_repetition(found)
        elif name and name not in _CALLS:
            found.append(name)
    if op in _AGAIN:
        _drop_repetition(found)
    return "/".join(found)


def _drop_repetition(names: list[str]) -> None:
    """``net a b a b`` -> ``net a b``: what is computed again says its path twice."""
    for count in range(len(names) // 2, 0, -1):
        if names[-count:] == names[-2 * count : -count]:
            del names[-count:]
            return
