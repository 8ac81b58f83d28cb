"""Samples of transforms, factorisations and solvers, and of batch normalisation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.rules.samples.sample import Sample, random_value, sample, written


@sample("fft")
def fft(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Each type; one dimension transformed, and two."""
    c = "complex<f64>"
    for types, name, length in (
        (f"4x2x6x{c} -> 4x2x6x{c}", "FFT", "6"),
        (f"4x2x6x{c} -> 4x2x6x{c}", "IFFT", "2, 6"),
        (f"4x6xf64 -> 4x4x{c}", "RFFT", "6"),
        (f"2x4x4x{c} -> 2x4x6xf64", "IRFFT", "4, 6"),
    ):
        attrs = f"fft_type = #stablehlo<fft_type {name}>"
        attrs += f", fft_length = array<i64: {length}>"
        yield Sample(f"{name} {length}", written(kind, types, attrs))


@sample("cholesky")
def cholesky(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Positive matrices, in two dimensions of batches."""
    for lower in ("true", "false"):
        signature = written(kind, "4x2x3x3xf64 -> 4x2x3x3xf64", f"lower = {lower}")
        x = rng.normal(size=(4, 2, 3, 3))
        matrix = x @ x.swapaxes(-1, -2) + np.eye(3)
        yield Sample(f"lower {lower}", signature, given=(matrix,))


@sample("triangular_solve")
def triangular_solve(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """From the left and from the right; no batch, and one."""
    for types, left, transposed, unit in (
        ("2x3x3xf64, 2x3x4xf64 -> 2x3x4xf64", "true", "NO_TRANSPOSE", "false"),
        ("2x3x3xf64, 2x4x3xf64 -> 2x4x3xf64", "false", "TRANSPOSE", "true"),
        ("4x4xf64, 4x4xf64 -> 4x4xf64", "true", "ADJOINT", "false"),
    ):
        attrs = (
            f"left_side = {left}, lower = true, unit_diagonal = {unit}, "
            f"transpose_a = #stablehlo<transpose {transposed}>"
        )
        yield Sample(f"{types} {attrs}", written(kind, types, attrs))


@sample("batch_norm_training", "batch_norm_grad", "batch_norm_inference")
def batch_norm(kind: str, rng: np.random.Generator) -> Iterator[Sample]:
    """Features last and in the middle; variances are positive."""
    for shape, feature in (("4x6", 1), ("2x4x6", 1)):
        x, c = f"{shape}xf64", f"{shape.split('x')[feature]}xf64"
        types = {
            "training": f"{x}, {c}, {c} -> {x}, {c}, {c}",
            "grad": f"{x}, {c}, {c}, {c}, {x} -> {x}, {c}, {c}",
            "inference": f"{x}, {c}, {c}, {c}, {c} -> {x}",
        }[kind.rpartition("_")[2]]
        attrs = f"epsilon = 0.01 : f32, feature_index = {feature} : i64"
        signature = written(kind, types, attrs)
        given = [random_value(rng, t) for t in signature.operands]
        variance = 4 if kind.endswith("inference") else 3
        if len(given) > 3:
            given[variance] = np.abs(given[variance])
        yield Sample(f"{shape} {feature}", signature, given=tuple(given))
