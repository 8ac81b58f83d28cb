"""A decoder-only transformer and its Adam training step, in plain JAX.

Three variants share the code around them, each with nine tensors per layer and one
embedding that serves both the look-up and the logits (9 L + 1 tensors):

- *fused*: one matrix for queries, keys and values, LayerNorm, a GELU MLP with a
  bias in the middle; four matrices and five vectors per layer, no positions;
- *biased* (``Config(biased=True)``): the same with RMSNorm, computed again in the
  backward pass, and biases after both outputs, also four matrices and five vectors;
- *separate* (``Config(separate=True)``): three matrices for queries, keys and
  values, RMSNorm, rotary positions, a gated MLP; seven matrices and two vectors.

Nothing here knows about devices. The functions read every size, and the variant,
from the parameters that they are given, so that ``train_step`` takes arrays only::

    params, opt_state, loss = train_step(params, opt_state, tokens, targets)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from benchmarks.models.layers import apply_layer, attend, cross_entropy, widened

Params = dict[str, Any]
OptState = dict[str, Any]
Step = Callable[[Params, OptState, Array, Array], tuple[Params, OptState, Array]]

LEARNING_RATE = 1e-3
BETA1, BETA2, EPSILON = 0.9, 0.95, 1e-8


@dataclass(frozen=True)
class Config:
    """Sizes and number formats of one model.

    ``dtype`` is that of parameters and optimiser state; ``compute_dtype``, if
    given, that of activations and matrix products (mixed precision). ``remat``
    computes attention's weights again in the backward pass instead of keeping them.
    """

    layers: int = 2
    width: int = 64
    heads: int = 8
    head_dim: int = 8
    hidden: int = 256
    vocab: int = 256
    sequence: int = 16
    batch: int = 16
    separate: bool = False
    biased: bool = False
    dtype: str = "float32"
    compute_dtype: str | None = None
    remat: bool = False

    @classmethod
    def small(cls, layers: int = 2, **changes: Any) -> Config:
        """Narrow enough to run on a CPU at any depth."""
        return replace(cls(layers=layers), **changes)

    @classmethod
    def t32(cls, **changes: Any) -> Config:
        """5 billion parameters; to be traced, not to be run."""
        full = cls(
            layers=32,
            width=4096,
            heads=32,
            head_dim=128,
            hidden=10240,
            vocab=32768,
            sequence=2048,
            batch=48,
            biased=True,
            compute_dtype="bfloat16",
            remat=True,
        )
        return replace(full, **changes)

    @classmethod
    def t48(cls, **changes: Any) -> Config:
        """32 billion parameters; to be traced, not to be run."""
        wide = {"layers": 48, "width": 8192, "heads": 64, "hidden": 24576, "batch": 64}
        return cls.t32(**(wide | changes))


# Parameters


def layer_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The nine tensors of one layer."""
    d, h, k, f = config.width, config.heads, config.head_dim, config.hidden
    if config.separate:
        return {
            "norm1": (d,),
            "wq": (d, h, k),
            "wk": (d, h, k),
            "wv": (d, h, k),
            "out": (h, k, d),
            "norm2": (d,),
            "gate": (d, f),
            "up": (d, f),
            "down": (f, d),
        }
    if config.biased:
        return {
            "norm1": (d,),
            "qkv": (d, 3, h, k),
            "out": (h, k, d),
            "out_bias": (d,),
            "norm2": (d,),
            "w1": (d, f),
            "b1": (f,),
            "w2": (f, d),
            "b2": (d,),
        }
    return {
        "ln1_scale": (d,),
        "ln1_bias": (d,),
        "qkv": (d, 3, h, k),
        "out": (h, k, d),
        "ln2_scale": (d,),
        "ln2_bias": (d,),
        "w1": (d, f),
        "b1": (f,),
        "w2": (f, d),
    }


def param_shapes(config: Config) -> Params:
    """Shapes and dtypes of all parameters, as ``jax.ShapeDtypeStruct``s."""
    struct = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.dtype(config.dtype))
    params: Params = {"embedding": struct((config.vocab, config.width))}
    for index in range(config.layers):
        shapes = layer_shapes(config)
        params[f"layer_{index}"] = {name: struct(s) for name, s in shapes.items()}
    return params


def _fan_in(name: str, shape: tuple[int, ...]) -> int:
    """How many numbers are summed into each output of this matrix."""
    if name == "embedding":
        return shape[1]
    return math.prod(shape[:-1]) if name == "out" else shape[0]


def _init_leaf(
    path: tuple[Any, ...], struct: jax.ShapeDtypeStruct, key: Array
) -> Array:
    name = path[-1].key
    if len(struct.shape) == 1:
        fill = jnp.zeros if name.endswith("bias") or name in ("b1", "b2") else jnp.ones
        return fill(struct.shape, struct.dtype)
    draw = jax.random.normal(key, struct.shape, struct.dtype)
    return draw * _fan_in(name, struct.shape) ** -0.5


def init_params(config: Config, key: Array) -> Params:
    """Random parameters."""
    shapes = param_shapes(config)
    structure = jax.tree.structure(shapes)
    keys = jax.random.split(key, structure.num_leaves)
    keys = jax.tree.unflatten(structure, list(keys))
    return jax.tree_util.tree_map_with_path(_init_leaf, shapes, keys)


def init_optimizer(params: Params) -> OptState:
    """Adam's state before the first step."""
    return {
        "mu": jax.tree.map(jnp.zeros_like, params),
        "nu": jax.tree.map(jnp.zeros_like, params),
        "count": jnp.zeros((), jnp.int32),
    }


def init(config: Config, key: Array) -> tuple[Params, OptState]:
    """Random parameters and the optimiser's state for them."""
    params = init_params(config, key)
    return params, init_optimizer(params)


# Model


def forward(
    params: Params,
    tokens: Array,
    *,
    compute_dtype: DTypeLike | None = None,
    remat: bool = False,
) -> Array:
    """Logits ``[batch, sequence, vocab]`` of ``tokens`` ``[batch, sequence]``."""
    if compute_dtype is not None:
        params = jax.tree.map(lambda p: p.astype(compute_dtype), params)
    mix = jax.checkpoint(attend) if remat else attend
    x = params["embedding"][tokens]
    for index in range(len(params) - 1):
        layer = params[f"layer_{index}"]
        x = apply_layer(layer, x, mix)
    return jnp.einsum("bsd,vd->bsv", x, params["embedding"])


def loss_fn(
    params: Params,
    tokens: Array,
    targets: Array,
    *,
    compute_dtype: DTypeLike | None = None,
    remat: bool = False,
) -> Array:
    """Cross-entropy, averaged over all tokens."""
    logits = forward(params, tokens, compute_dtype=compute_dtype, remat=remat)
    return cross_entropy(logits, targets)


# Training


def adam(params: Params, grads: Params, state: OptState) -> tuple[Params, OptState]:
    """One step of Adam with bias correction; reads each gradient elementwise."""
    count = state["count"] + 1
    steps = widened(count.astype(params["embedding"].dtype))
    unbias1, unbias2 = 1 - BETA1**steps, 1 - BETA2**steps

    def first(m: Array, g: Array) -> Array:
        return BETA1 * m + (1 - BETA1) * g

    def second(n: Array, g: Array) -> Array:
        return BETA2 * n + (1 - BETA2) * (g * g)

    def update(p: Array, m: Array, n: Array) -> Array:
        direction = (m / unbias1) / (jnp.sqrt(n / unbias2) + EPSILON)
        return p - (LEARNING_RATE * direction).astype(p.dtype)

    mu = jax.tree.map(first, state["mu"], grads)
    nu = jax.tree.map(second, state["nu"], grads)
    new_params = jax.tree.map(update, params, mu, nu)
    return new_params, {"mu": mu, "nu": nu, "count": count}


def train_step(
    params: Params,
    opt_state: OptState,
    tokens: Array,
    targets: Array,
    *,
    compute_dtype: DTypeLike | None = None,
    remat: bool = False,
) -> tuple[Params, OptState, Array]:
    """Gradient of the loss and one step of Adam."""
    loss, grads = jax.value_and_grad(loss_fn)(
        params, tokens, targets, compute_dtype=compute_dtype, remat=remat
    )
    params, opt_state = adam(params, grads, opt_state)
    return params, opt_state, loss


def step_for(config: Config) -> Step:
    """``train_step`` in the number formats of ``config``."""
    if config.compute_dtype is None and not config.remat:
        return train_step
    dtype = jnp.dtype(config.compute_dtype) if config.compute_dtype else None

    def mixed_train_step(
        params: Params, opt_state: OptState, tokens: Array, targets: Array
    ) -> tuple[Params, OptState, Array]:
        return train_step(
            params, opt_state, tokens, targets, compute_dtype=dtype, remat=config.remat
        )

    return mixed_train_step


# Arguments


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of ``train_step``'s arguments, as ``(args, kwargs)``; no arrays."""
    config = config or Config.small()
    params = param_shapes(config)
    opt_state = jax.eval_shape(init_optimizer, params)
    tokens = jax.ShapeDtypeStruct((config.batch, config.sequence), jnp.int32)
    return (params, opt_state, tokens, tokens), {}


def example_batch(config: Config, key: Array) -> tuple[Array, Array]:
    """Tokens and targets of sequences that count up from a random start."""
    start = jax.random.randint(key, (config.batch, 1), 0, config.vocab, jnp.int32)
    counted = (start + jnp.arange(config.sequence + 1, dtype=jnp.int32)) % config.vocab
    return counted[:, :-1], counted[:, 1:]


def tensor_count(config: Config) -> int:
    """How many tensors the parameters are."""
    return len(jax.tree.leaves(param_shapes(config)))


def parameter_count(config: Config) -> int:
    """How many numbers the parameters hold."""
    return sum(math.prod(p.shape) for p in jax.tree.leaves(param_shapes(config)))
