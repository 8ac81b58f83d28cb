"""Whole models that shift, cut or pad a tiled dimension, as on one device.

    python -m benchmarks.named_runs [NAME ...]

Each run is small, in 64-bit floats, on eight virtual devices. It prints its table, and
how far its results are from those of one device. Needs the extras ``frameworks`` and
``models``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FLAG = "--xla_force_host_platform_device_count=8"
if FLAG not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}".strip()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import Array, lax  # noqa: E402

import partir  # noqa: E402
from benchmarks.models import stacked, transformer, unet  # noqa: E402
from benchmarks.models.layers import separate_layer  # noqa: E402


@dataclass(frozen=True)
class Run:
    """A function, its arguments, and how it is split."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    mesh: Mapping[str, int]
    schedule: Sequence[Any]

    def partitioned(self, **options: Any) -> partir.Partitioned:
        """Under its schedule."""
        return partir.partition(
            self.fn, self.mesh, self.schedule, args=self.args, **options
        )


def tiled(axis: str, **dims: int) -> partir.ManualPartition:
    """One tactic, by names of arguments and tags."""
    return partir.ManualPartition(dims, axis=axis, name="+".join(dims))


def drawn(shapes: Any, scale: float = 0.3) -> Any:
    """Random numbers in these shapes; whole numbers are 0 to 7."""
    rng = np.random.default_rng(0)

    def sample(shape: Any) -> np.ndarray:
        if np.issubdtype(shape.dtype, np.integer):
            return rng.integers(0, 8, shape.shape).astype(shape.dtype)
        return scale * rng.standard_normal(shape.shape)

    return jax.tree.map(sample, shapes)


def f64(*sizes: int) -> jax.ShapeDtypeStruct:
    """The shape of an array of floats."""
    return jax.ShapeDtypeStruct(sizes, "float64")


def i32(*sizes: int) -> jax.ShapeDtypeStruct:
    """The shape of an array of whole numbers."""
    return jax.ShapeDtypeStruct(sizes, "int32")


# Images


def unet_by_height() -> Run:
    """A diffusion UNet's loss and gradients."""
    config = unet.Config(image=16, batch=2, width=8)
    (params, _, *batch), _ = unet.example_args(config)

    def loss(params: Any, images: Array, noise: Array, steps: Array) -> Array:
        return jnp.mean((unet.predict(config, params, images, steps) - noise) ** 2)

    schedule = [tiled("X", images=1, noise=1)]
    args = drawn((params, *batch))
    return Run(jax.value_and_grad(loss), args, {"X": 4}, schedule)


def convolve(x: Array, kernel: Array, stride: int = 1) -> Array:
    """Height and width, edges padded."""
    dims = ("NHWC", "HWIO", "NHWC")
    strides = (stride, stride)
    return lax.conv_general_dilated(x, kernel, strides, "SAME", dimension_numbers=dims)


def normalised(x: Array) -> Array:
    """Batch normalisation."""
    mean = x.mean((0, 1, 2))
    return (x - mean) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5)


def resnet_by_height() -> Run:
    """A stem, pooling, two residual blocks of which one halves the size, a head."""
    shapes = {
        "stem": f64(7, 7, 3, 8),
        "first": [f64(3, 3, 8, 8), f64(3, 3, 8, 8)],
        "second": [f64(3, 3, 8, 16), f64(3, 3, 16, 16), f64(1, 1, 8, 16)],
        "head": f64(16, 4),
    }

    def block(kernels: list[Array], x: Array, stride: int) -> Array:
        y = jax.nn.relu(normalised(convolve(x, kernels[0], stride)))
        y = normalised(convolve(y, kernels[1]))
        aside = convolve(x, kernels[2], stride) if len(kernels) > 2 else x
        return jax.nn.relu(y + aside)

    def loss(params: Any, images: Array, labels: Array) -> Array:
        x = jax.nn.relu(normalised(convolve(images, params["stem"], 2)))
        size, strides = (1, 3, 3, 1), (1, 2, 2, 1)
        x = lax.reduce_window(x, -jnp.inf, lax.max, size, strides, "SAME")
        x = block(params["second"], block(params["first"], x, 1), 2)
        logs = jax.nn.log_softmax(x.mean((1, 2)) @ params["head"])
        return -jnp.mean(jnp.take_along_axis(logs, labels[:, None] % 4, 1))

    args = drawn((shapes, f64(2, 64, 32, 3), i32(2)))
    return Run(jax.value_and_grad(loss), args, {"X": 4}, [tiled("X", images=1)])


# Grids


def wave_step() -> Run:
    """A wave in a box, leap-frog, 8 steps in a loop, and what started it."""

    def laplacian(u: Array) -> Array:
        wide = jnp.pad(u, 1)
        return (
            wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2] - 4 * u
        )

    def energy(u: Array, speed: Array) -> Array:
        def step(
            pair: tuple[Array, Array], _: None
        ) -> tuple[tuple[Array, Array], None]:
            now, before = pair
            return (2 * now - before + speed * laplacian(now), now), None

        return jnp.sum(lax.scan(step, (u, u), None, length=8)[0][0] ** 2)

    args = drawn((f64(32, 24), f64(32, 24)), 0.1)
    schedule = [tiled("X", u=0, speed=0), tiled("Y", u=1, speed=1)]
    return Run(jax.value_and_grad(energy), args, {"X": 4, "Y": 2}, schedule)


# Sequences


def shifted_language_model() -> Run:
    """Two layers with rotary attention; the loss compares with the next token."""
    width, heads, vocab = 16, 2, 32
    matrix = f64(width, heads, width // heads)
    layer = {
        **dict.fromkeys(("wq", "wk", "wv"), matrix),
        "out": f64(heads, width // heads, width),
        **dict.fromkeys(("norm1", "norm2"), f64(width)),
        **dict.fromkeys(("gate", "up"), f64(width, 2 * width)),
        "down": f64(2 * width, width),
    }
    params = {"table": f64(vocab, width), "layers": [layer, layer]}

    def loss(params: Any, tokens: Array) -> Array:
        x = params["table"][tokens]
        for each in params["layers"]:
            x = separate_layer(each, x)
        logits = x[:, :-1] @ params["table"].T
        logs = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(logs, tokens[:, 1:, None], -1))

    args = drawn((params, i32(2, 32)))
    return Run(jax.value_and_grad(loss), args, {"S": 4}, [tiled("S", tokens=1)])


def state_space_model() -> Run:
    """Gates, a short convolution and a diagonal recurrence by associative scan."""
    shapes = {
        "in": f64(8, 16),
        "taps": f64(4, 16),
        "rate": f64(16),
        "step": f64(16, 16),
        "out": f64(16, 8),
    }

    def joined(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return a[0] * b[0], b[0] * a[1] + b[1]

    def loss(params: Any, x: Array, y: Array) -> Array:
        u = x @ params["in"]
        late = jnp.pad(u, ((0, 0), (3, 0), (0, 0)))
        taps = [late[:, n : n + u.shape[1]] * params["taps"][n] for n in range(4)]
        u = jax.nn.silu(sum(taps))
        step = jax.nn.softplus(u @ params["step"])
        decay = jnp.exp(-step * jnp.exp(params["rate"]))
        states = lax.associative_scan(joined, (decay, step * u), axis=1)[1]
        return jnp.mean((states @ params["out"] - y) ** 2)

    args = drawn((shapes, f64(2, 64, 8), f64(2, 64, 8)))
    return Run(jax.value_and_grad(loss), args, {"S": 4}, [tiled("S", x=1, y=1)])


# Projections and vocabularies


def gpt2_under_megatron() -> Run:
    """Transformers' GPT-2: queries, keys and values come out of one matrix."""
    from benchmarks.zoo import huggingface

    case = huggingface.gpt2()
    rows = partir.ManualPartition({"batch/0": 0}, axis="B", name="BP")
    names = ("attn/c_attn", "mlp/c_fc")
    kernels = {f"params/**/{name}/kernel": 0 for name in names}
    columns = partir.ManualPartition(kernels, axis="M", name="MP")
    return Run(case.step, case.args, {"B": 4, "M": 2}, [rows, columns])


def vocabulary_of_50257() -> Run:
    """The table is an argument, and whole; logits and what follows are not."""

    def loss(table: Array, hidden: Array, labels: Array) -> Array:
        logits = partir.tag(hidden @ table.T, "logits")
        logs = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.take_along_axis(logs, labels[..., None], -1))

    args = drawn((f64(50257, 4), f64(2, 4, 4), i32(2, 4)))
    return Run(jax.value_and_grad(loss, (0, 1)), args, {"V": 8}, [tiled("V", logits=2)])


# Pipelines

SMALL = transformer.Config.small(
    layers=8,
    dtype="float64",
    batch=16,
    sequence=4,
    width=8,
    heads=2,
    head_dim=4,
    hidden=16,
    vocab=16,
)


def pipelined_transformer() -> Run:
    """Eight layers in two stages, with batch and model parallelism; Adam."""
    stages = partir.ManualPartition(
        {"params/layers/*": 0, "opt_state/*/layers/*": 0}, axis="S", name="stages"
    )
    step = stacked.step_for(SMALL, stages=2, microbatches=4)
    shapes, _ = stacked.example_args(SMALL)
    params, opt_state, *batch = drawn(shapes)
    opt_state = jax.tree.map(np.zeros_like, opt_state)
    mesh = {"S": 2, "B": 2, "M": 2}
    schedule = [stacked.BP, stacked.MP, stages]
    return Run(step, (params, opt_state, *batch), mesh, schedule)


RUNS: dict[str, Callable[[], Run]] = {
    "UNet, height tiled": unet_by_height,
    "ResNet, height tiled": resnet_by_height,
    "wave equation, both dimensions tiled": wave_step,
    "language model, sequence tiled, shifted loss": shifted_language_model,
    "state-space model, sequence tiled": state_space_model,
    "GPT-2 with fused projections under Megatron": gpt2_under_megatron,
    "vocabulary of 50257, tiled inside": vocabulary_of_50257,
    "transformer in a pipeline, with BP and MP": pipelined_transformer,
}


def largest_error(got: Any, want: Any) -> float:
    """Of all results, relative to the largest number of each."""
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)
    arrays = [(np.asarray(a, float), np.asarray(b, float)) for a, b in pairs]
    return max(
        float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-9)) for a, b in arrays
    )


def main(argv: list[str] | None = None) -> int:
    """Do all runs, or those that are named."""
    parser = argparse.ArgumentParser(description="Whole models as on one device.")
    parser.add_argument("names", nargs="*", help="parts of names")
    names = parser.parse_args(argv).names
    worst = 0.0
    with jax.enable_x64(True):
        for name, build in RUNS.items():
            if names and not any(part in name for part in names):
                continue
            run = build()
            done = run.partitioned()
            error = largest_error(done.compile()(*run.args), jax.jit(run.fn)(*run.args))
            worst = max(worst, error)
            print(f"{name}: within {error:.1e} of one device\n{done}\n", flush=True)
    return 0 if worst < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
