"""A transformer whose MLPs are mixtures of experts, and its training step with Adam.

Each token goes to its two best experts, as long as they have room: every expert takes
at most ``capacity`` tokens of a sequence. Tokens are sent and fetched by one-hot
products, so that shapes are static.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import partir
from benchmarks.models.layers import attend, cross_entropy, rms_norm
from benchmarks.models.training import train_with, training_args


@dataclass(frozen=True)
class Config:
    """Sizes."""

    layers: int = 1
    width: int = 16
    heads: int = 4
    head_dim: int = 4
    hidden: int = 32
    experts: int = 8
    capacity: int = 2
    vocab: int = 32
    sequence: int = 8
    batch: int = 16
    compute_dtype: str | None = None
    remat: bool = False

    @classmethod
    def full(cls, **changes: Any) -> Config:
        """18 billion parameters, 64 experts; to be traced, not to be run."""
        full = cls(
            layers=16,
            width=2048,
            heads=16,
            head_dim=128,
            hidden=4096,
            experts=64,
            capacity=40,  # a quarter more than 2 x 1024 / 64
            vocab=32768,
            sequence=1024,
            batch=256,
            compute_dtype="bfloat16",
            remat=True,
        )
        return replace(full, **changes)


def param_shapes(config: Config) -> dict[str, Any]:
    """The embedding and seven tensors per layer."""
    d, h, k, f = config.width, config.heads, config.head_dim, config.hidden
    layer = {
        "norm1": (d,),
        "qkv": (d, 3, h, k),
        "out": (h, k, d),
        "norm2": (d,),
        "router": (d, config.experts),
        "w1": (config.experts, d, f),
        "w2": (config.experts, f, d),
    }
    layers = {f"layer_{number}": dict(layer) for number in range(config.layers)}
    return {"embedding": (config.vocab, d), **layers}


def route(router: Array, x: Array, capacity: int) -> tuple[Array, Array]:
    """Where each token goes, ``[group, token, expert, place]``: as ones, and as gates.

    Second choices queue behind all first ones. Who finds no place is dropped.
    """
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    gates = jax.nn.softmax(wide @ router.astype(wide.dtype), axis=-1)
    experts = gates.shape[-1]
    first = jax.nn.one_hot(jnp.argmax(gates, axis=-1), experts, dtype=wide.dtype)
    others = jnp.where(first > 0, 0, gates)
    second = jax.nn.one_hot(jnp.argmax(others, axis=-1), experts, dtype=wide.dtype)
    queued = jnp.sum(first, axis=1, keepdims=True)
    places = (
        (jnp.cumsum(first, axis=1) - 1) * first,
        (jnp.cumsum(second, axis=1) - 1 + queued) * second,
    )
    dispatch, combine = jnp.zeros((2, *gates.shape, capacity), wide.dtype)
    for chosen, place in zip((first, second), places, strict=True):
        slots = jax.nn.one_hot(place.astype(jnp.int32), capacity, dtype=wide.dtype)
        slots = slots * chosen[..., None]
        dispatch, combine = dispatch + slots, combine + slots * gates[..., None]
    dispatch, combine = dispatch.astype(x.dtype), combine.astype(x.dtype)
    return partir.tag(dispatch, "routes"), partir.tag(combine, "routes")


def mixture(layer: dict[str, Array], x: Array, capacity: int) -> Array:
    """Every token through its experts, weighted by their gates."""
    dispatch, combine = route(layer["router"], x, capacity)
    sent = partir.tag(jnp.einsum("gsec,gsd->egcd", dispatch, x), "sent")
    hidden = jax.nn.relu(jnp.einsum("egcd,edf->egcf", sent, layer["w1"]))
    made = partir.tag(jnp.einsum("egcf,efd->egcd", hidden, layer["w2"]), "made")
    return partir.tag(jnp.einsum("gsec,egcd->gsd", combine, made), "combined")


def step_for(config: Config) -> Any:
    """The training step in the number formats of ``config``."""
    mix = jax.checkpoint(attend) if config.remat else attend

    def loss_fn(params: dict[str, Any], tokens: Array, targets: Array) -> Array:
        x = params["embedding"][tokens]
        for number in range(config.layers):
            layer = params[f"layer_{number}"]
            y = rms_norm(x, layer["norm1"])
            qkv = jnp.einsum("bsd,dchk->bschk", y, layer["qkv"])
            mixed = mix(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])
            x = x + jnp.einsum("bshk,hkd->bsd", mixed, layer["out"])
            x = x + mixture(layer, rms_norm(x, layer["norm2"]), config.capacity)
        logits = jnp.einsum("bsd,vd->bsv", x, params["embedding"])
        return cross_entropy(logits, targets)

    return train_with(loss_fn, config.compute_dtype)


def example_args(
    config: Config | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Shapes of the step's arguments, as ``(args, kwargs)``; no arrays."""
    config = config or Config()
    tokens = jax.ShapeDtypeStruct((config.batch, config.sequence), jnp.int32)
    return training_args(param_shapes(config), tokens, tokens), {}


@dataclass(frozen=True)
class ExpertParallel:
    """Batch and experts share an axis: tokens change places for experts.

    What routes and combines tokens stays with its group, in the backward pass too; so
    the products that send tokens loop over groups, and what they read or make is moved.
    """

    axis: str = "B"
    name: str = "EP"

    def apply(self, partition: partir.Partition) -> None:
        """Experts' weights and what they make by expert, everything else by group."""
        inputs = ("batch/*", "params/*/w1", "params/*/w2")
        for name in (*inputs, "routes", "combined", "made"):
            partition.tile(name, 0, self.axis)
        for name in ("routes/grad", "combined/grad", "made/grad"):
            for value in partition.values(name):
                partition.tile(value, 0, self.axis)
        partition.propagate(self.axis)
        for op in partition.conflicts():
            partition.choose(op, op.factors[0], self.axis)


def matrices(name: str, shape: Any, dtype: Any) -> Any:
    """The first dimension that divides, for anything of rank two or more."""
    return partir.FIRST_DIVISIBLE_DIM if len(shape) > 1 else partir.UNKNOWN


BP = partir.ManualPartition({"batch/*": 0}, axis="B", name="BP")
EP = ExpertParallel()
# Experts on an axis of their own, along which tokens are not split.
ES = partir.ManualPartition(
    {"params/*/w1": 0, "params/*/w2": 0}, axis="M", name="experts"
)
MP = partir.ManualPartition({"params/*/qkv": 2, "params/*/w1": 2}, axis="M", name="MP")
Z3 = partir.ManualPartition(
    {"params/**": matrices, "opt_state/**": matrices}, axis="B", name="Z3"
)
BP_M = partir.ManualPartition({"batch/*": 0}, axis="M", name="BP(M)")
SCHEDULES = {
    "BP": [BP],
    "BP+Z3": [BP, Z3],
    "EP": [EP],
    "EP+Z3": [EP, Z3],
    "EP+MP": [EP, MP],
    "EP+MP+Z3": [EP, MP, Z3],
    "EP+BP(M)": [EP, BP_M],
    "BP+experts": [BP, ES],
}
