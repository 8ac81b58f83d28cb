"""Samples of custom calls: those of the CPU run, those of TPUs are only read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jax import lax

from partir.rules.calls import BATCHED, target
from tests.rules.samples.sample import Sample, pick, sample, traced, written

_CALL = "stablehlo.custom_call"


@sample(BATCHED)
def batched(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """What jax writes on CPUs; matrices are symmetric and positive."""
    x = rng.normal(size=(4, 2, 3, 3))
    matrices = x @ x.swapaxes(-1, -2) + np.eye(3)
    diagonal, right = rng.normal(size=(4, 2, 3)), rng.normal(size=(4, 2, 3, 2))
    functions: dict[str, tuple[Callable[..., Any], ...]] = {
        "cholesky": (lax.linalg.cholesky, matrices),
        "lu": (lax.linalg.lu, matrices),
        "qr": (lambda x: lax.linalg.qr(x)[1], matrices),
        "eigh": (lax.linalg.eigh, matrices),
        "eig": (lax.linalg.eig, matrices),
        "svd": (lax.linalg.svd, matrices),
        "schur": (lax.linalg.schur, matrices),
        "hessenberg": (lax.linalg.hessenberg, matrices),
        "tridiagonal": (lax.linalg.tridiagonal, matrices),
        "triangular solve": (
            lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
            matrices,
            right,
        ),
        "tridiagonal solve": (
            lambda d, b: lax.linalg.tridiagonal_solve(d, d + 9, d, b),
            diagonal,
            right,
        ),
    }
    for label, (function, *args) in functions.items():
        for signature in traced(_CALL, function, *args):
            given = {a.shape: a for a in (diagonal, right, matrices)}
            values = tuple(given[t.shape] for t in signature.operands)
            yield Sample(f"{label} {signature}", signature, depth=1, given=values)


def _call(name: str, types: str, attrs: str = "", runs: bool = True) -> Sample:
    written_attrs = ", ".join(filter(None, [f'call_target_name = "{name}"', attrs]))
    return Sample(name, written(_CALL, types, written_attrs), runs=runs)


@sample(*map(target, ("Qr", "Eigh", "LuDecomposition")))
def decompositions(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Batches of matrices, as jax writes them for TPUs."""
    name = kind.partition("@")[2]
    results = {
        "Qr": "4x2x6x3xf32, 4x2x3xf32",
        "Eigh": "4x2x6x3xf32, 4x2x3xf32",
        "LuDecomposition": "4x2x6x3xf32, 4x2x3xi32, 4x2x6xi32",
    }
    yield _call(name, f"4x2x6x3xf32 -> {results[name]}", runs=False)


@sample(target("ProductOfElementaryHouseholderReflectors"))
def reflectors(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Two operands, the second a vector per matrix."""
    name = kind.partition("@")[2]
    yield _call(name, "4x2x6x3xf32, 4x2x3xf32 -> 4x2x6x3xf32", runs=False)


@sample(target("ApproxTopK"), target("PartialReduce"))
def approximate_top_k(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Along the last dimension and another one; both spellings of the options."""
    name = kind.partition("@")[2]
    types = "4x8x2xf32, 4x8x2xi32, f32, i32 -> 4x3x2xf32, 4x3x2xi32"
    config = "mhlo.backend_config = {reduction_dim = 1 : i64, top_k = 3 : i64}"
    yield _call(name, types, config, runs=False)
    types = "4x8xf32, 4x8xi32, f32, i32 -> 4x3xf32, 4x3xi32"
    config = r'backend_config = "{\22reduction_dim\22: 1, \22top_k\22: 3}"'
    yield _call(name, types, config, runs=False)


_ELEMENTWISE = "acos acosh asin asinh atanh cosh erf sinh".split()


@sample(*(target(f"mhlo.{name}") for name in _ELEMENTWISE))
def elementwise(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Ops of another dialect, as serialised programs hold them."""
    shape = pick(rng, ("4", "2x4"))
    attrs = "mhlo.attributes = {}, mhlo.version = 1 : i64"
    yield _call(kind.partition("@")[2], f"{shape}xf64 -> {shape}xf64", attrs)


@sample(target("mhlo.topk"))
def top_k(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """The largest of each row."""
    attrs = "mhlo.attributes = {k = 3 : i64, largest = true}, mhlo.version = 1 : i64"
    yield _call("mhlo.topk", "4x6xf64 -> 4x3xf64, 4x3xi32", attrs)


@sample(*map(target, ("annotate_device_placement", "MoveToDevice", "MoveToHost")))
def placement(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Every dimension; only back ends with a memory of the host's run them."""
    yield _call(kind.partition("@")[2], "4x6xf32 -> 4x6xf32", runs=False)
