"""Convolutions: haiku's ResNet, and equinox modules with attention."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
from jax import Array

from benchmarks.zoo.case import (
    Case,
    cross_entropy,
    drawn,
    floats,
    tactics,
    tokens,
    training_case,
    wide_floats,
)

BATCH, CLASSES, WIDTH, HEADS = 8, 8, 16, 4


def _resnet(images: Array) -> Array:
    net = hk.nets.ResNet(
        blocks_per_group=(1, 1, 1, 1),
        num_classes=CLASSES,
        bottleneck=False,
        channels_per_group=(8, 8, 16, 16),
        use_projection=(False, True, True, True),
        initial_conv_config={"output_channels": 8},
    )
    return net(images, is_training=True)


def resnet() -> Case:
    """A ResNet with batch normalisation, whose averages are part of the state."""
    network = hk.without_apply_rng(hk.transform_with_state(_resnet))
    images, labels = floats(0, BATCH, 16, 16, 3), tokens(1, CLASSES, BATCH)
    with wide_floats():
        shapes = jax.eval_shape(network.init, jax.random.PRNGKey(0), images)
    params, averages = drawn(shapes)

    def loss(params: Any, images: Array, labels: Array, averages: Any) -> Array:
        logits, _ = network.apply(params, averages, images)
        return cross_entropy(logits, labels)

    schedule = tactics(
        {"batch/0": 0, "batch/1": 0},
        {"params/res_net/~/block_group_*/~/block_0/~/conv_0/w": 3},
    )
    return training_case(loss, params, (images, labels, averages), schedule)


class ConvAttention(eqx.Module):
    """Patches by convolution, attention among them, a linear head."""

    patches: eqx.nn.Conv2d
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, key: Array) -> None:
        first, second, third = jax.random.split(key, 3)
        self.patches = eqx.nn.Conv2d(3, WIDTH, 3, stride=2, padding=1, key=first)
        self.attention = eqx.nn.MultiheadAttention(HEADS, WIDTH, key=second)
        self.norm = eqx.nn.LayerNorm(WIDTH)
        self.head = eqx.nn.Linear(WIDTH, CLASSES, key=third)

    def __call__(self, image: Array) -> Array:
        found = jax.nn.gelu(self.patches(image)).reshape(WIDTH, -1).T
        found = found + self.attention(found, found, found)
        pooled = jnp.max(jax.vmap(self.norm)(found), axis=0)
        return self.head(pooled)


def conv_attention() -> Case:
    """An equinox module, mapped over the batch."""
    model = ConvAttention(jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(params: Any, images: Array, labels: Array) -> Array:
        model = eqx.combine(params, static)
        return cross_entropy(jax.vmap(model)(images), labels)

    batch = floats(0, BATCH, 3, 8, 8), tokens(1, CLASSES, BATCH)
    schedule = tactics({"batch/*": 0}, {"params/attention/*_proj/weight": 0})
    return training_case(loss, params, batch, schedule)
