"""`Sample`: an op to test with, and the two ways to write one: StableHLO and jax."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from partir.execute.types import jax_struct
from partir.frontend.parsing import parse_module
from partir.frontend.stablehlo import import_module
from partir.ir.core import Op, Signature
from partir.ir.types import TensorType, tensor

Generator = Callable[[str, np.random.Generator], Iterable["Sample"]]

_generators: dict[str, Generator] = {}

SHAPES = ("4x6", "6x4", "2x1x4", "12", "2x3x2")


@dataclass(frozen=True)
class Sample:
    """One op, its operands' values and, where they are known, their splats.

    `runs` is false for what a CPU can't run: its local form is read back only.
    """

    label: str
    signature: Signature
    depth: int = 2
    runs: bool = True
    splats: tuple[str | None, ...] = ()
    given: tuple[np.ndarray, ...] = ()

    def __post_init__(self) -> None:
        if not self.splats:
            none = (None,) * len(self.signature.operands)
            object.__setattr__(self, "splats", none)

    @cached_property
    def values(self) -> tuple[np.ndarray, ...]:
        """Operands: those given, else random."""
        if self.given:
            return self.given
        rng = np.random.default_rng(zlib.crc32(self.label.encode()))
        return tuple(random_value(rng, t) for t in self.signature.operands)


def sample(*kinds: str) -> Callable[[Generator], Generator]:
    """Register the generator of samples for these op kinds."""

    def register(function: Generator) -> Generator:
        for kind in kinds:
            full = kind if "." in kind else f"stablehlo.{kind}"
            assert full not in _generators, full
            _generators[full] = function
        return function

    return register


def kinds() -> frozenset[str]:
    """Op kinds that have samples."""
    return frozenset(_generators)


def samples_of(kind: str) -> list[Sample]:
    """The samples of an op kind, the same in every run."""
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    return list(_generators[kind](kind, rng))


# Values


def numpy_dtype(dtype: str) -> np.dtype:
    """NumPy's type for MLIR's spelling."""
    return np.dtype(jax_struct(tensor((), dtype)).dtype)


def random_value(rng: np.random.Generator, type_: TensorType) -> np.ndarray:
    """Floats around zero; integers so that some index nothing in small shapes."""
    dtype, shape = numpy_dtype(type_.dtype), type_.shape
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind == "u":
        return rng.integers(0, 7, shape).astype(dtype)
    if dtype.kind == "i":
        return rng.integers(-1, 5, shape).astype(dtype)
    value = rng.normal(size=shape) * 2
    if dtype.kind == "c":
        value = value + 1j * rng.normal(size=shape)
    return np.asarray(value).astype(dtype)


def pick(rng: np.random.Generator, items: Iterable[str]) -> str:
    """One of these."""
    return str(rng.choice(list(items)))


# Signatures


def written(kind: str, types: str, attrs: str = "", region: str = "") -> Signature:
    """An op in StableHLO, its types as ``"4x6xf64, i32 -> 4x6xf64"``."""
    ins, outs = (_tensors(side) for side in types.split("->"))
    arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(ins))
    names = ", ".join(f"%a{i}" for i in range(len(ins)))
    results = ", ".join(f"%r#{i}" for i in range(len(outs)))
    count = f":{len(outs)}"
    shown = f"{{{attrs}}}" if attrs else ""
    body = f"({region})" if region else ""
    types = f"({', '.join(ins)}) -> ({', '.join(outs)})"
    text = f"""
      func.func public @main({arguments}) -> ({", ".join(outs)}) {{
        %r{count} = "{kind}"({names}) {body} {shown} : {types}
        return {results} : {", ".join(outs)}
      }}"""
    return next(_of_kind(parse_module(text), kind))


def _tensors(text: str) -> list[str]:
    return [f"tensor<{item.strip()}>" for item in text.split(",") if item.strip()]


def traced(kind: str, function: Callable[..., Any], *args: Any) -> list[Signature]:
    """Ops of this kind in a jax function of arrays with these shapes or values."""
    shapes = [jax.ShapeDtypeStruct(np.shape(a), np.asarray(a).dtype) for a in args]
    lowered = jax.jit(function, keep_unused=True).trace(*shapes).lower()
    found = list(_of_kind(lowered.compiler_ir(), kind))
    assert found, f"no {kind} in {lowered.as_text()}"
    return found


def _of_kind(module: Any, kind: str) -> Iterator[Signature]:
    for op in import_module(module).ops:
        if isinstance(op, Op) and op.kind == kind:
            yield op.signature


def combine(op: str, dtype: str, swapped: bool = False) -> str:
    """A region that applies one binary op to its two arguments."""
    scalar = f"tensor<{dtype}>"
    names = "%y, %x" if swapped else "%x, %y"
    return f"""{{ ^bb0(%x: {scalar}, %y: {scalar}):
      %z = "stablehlo.{op}"({names}) : ({scalar}, {scalar}) -> {scalar}
      "stablehlo.return"(%z) : ({scalar}) -> () }}"""
