"""transformers' Flax classes, called as its users call them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from transformers import (
    BertConfig,
    FlaxBertForMaskedLM,
    FlaxGPT2LMHeadModel,
    FlaxLlamaForCausalLM,
    FlaxT5ForConditionalGeneration,
    FlaxViTForImageClassification,
    GPT2Config,
    LlamaConfig,
    T5Config,
    ViTConfig,
)
from transformers.utils import logging

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

logging.set_verbosity_error()
BATCH, LENGTH, VOCAB, WIDTH, HIDDEN, HEADS = 8, 8, 32, 16, 32, 4


def _model(kind: Any, config: Any, *shape: int) -> tuple[Any, Any]:
    """A model and random parameters; its own initialisation takes far longer."""
    with wide_floats():
        model = kind(config, dtype=jnp.float64, _do_init=False)
        shapes = jax.eval_shape(
            lambda key: model.init_weights(key, shape), jax.random.PRNGKey(0)
        )
    return model, drawn(shapes)


def gpt2() -> Case:
    """GPT-2 with dropout; the language model's head is the embedding."""
    config = GPT2Config(
        vocab_size=VOCAB, n_positions=LENGTH, n_embd=WIDTH, n_layer=1, n_head=HEADS
    )
    model, params = _model(FlaxGPT2LMHeadModel, config, 1, LENGTH)

    def loss(params: Any, ids: Array, key: Array) -> Array:
        logits = model(ids, params=params, dropout_rng=key, train=True).logits
        return cross_entropy(logits[:, :-1], ids[:, 1:])

    batch = tokens(0, VOCAB, BATCH, LENGTH), jax.random.PRNGKey(1)
    megatron = {"params/**/c_fc/kernel": 0, "params/transformer/wte/embedding": 0}
    return training_case(
        loss, params, batch, tactics({"batch/0": 0}, megatron, zero="**/c_fc/kernel")
    )


def bert() -> Case:
    """BERT's masked language model with padding."""
    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        max_position_embeddings=LENGTH,
    )
    model, params = _model(FlaxBertForMaskedLM, config, 1, LENGTH)

    def loss(params: Any, ids: Array, mask: Array, labels: Array) -> Array:
        logits = model(ids, attention_mask=mask, params=params).logits
        return cross_entropy(logits, labels)

    ids, labels = tokens(0, VOCAB, 2, BATCH, LENGTH)
    mask = (tokens(1, 4, BATCH, LENGTH) > 0).astype("int32")
    megatron = {
        **{f"params/**/self/{name}/kernel": 1 for name in ("query", "key", "value")},
        "params/**/intermediate/dense/kernel": 1,
    }
    rows = {"batch/*": 0}
    return training_case(loss, params, (ids, mask, labels), tactics(rows, megatron))


def t5() -> Case:
    """T5: encoder, decoder, relative positions."""
    config = T5Config(
        vocab_size=VOCAB,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=HIDDEN,
        num_layers=1,
        num_heads=HEADS,
        decoder_start_token_id=0,
    )
    model, params = _model(FlaxT5ForConditionalGeneration, config, 1, LENGTH)

    def loss(params: Any, ids: Array, labels: Array) -> Array:
        shifted = jnp.pad(labels[:, :-1], ((0, 0), (1, 0)))
        out = model(ids, decoder_input_ids=shifted, params=params, train=False)
        return cross_entropy(out.logits, labels)

    batch = tuple(tokens(0, VOCAB, 2, BATCH, LENGTH))
    megatron = {
        **{f"params/**/{name}/kernel": 1 for name in "qkv"},
        "params/**/wi/kernel": 1,
    }
    schedule = tactics({"batch/*": 0}, megatron, zero="**/wi/kernel")
    case = training_case(loss, params, batch, schedule)
    return replace(case, limit=1e-5)  # its layer norm is in 32 bits whatever one asks


def vit() -> Case:
    """ViT: a convolution cuts the patches."""
    config = ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        image_size=8,
        patch_size=4,
        num_labels=8,
    )
    model, params = _model(FlaxViTForImageClassification, config, 1, 8, 8, 3)

    def loss(params: Any, images: Array, labels: Array) -> Array:
        return cross_entropy(model(images, params=params).logits, labels)

    batch = floats(0, BATCH, 3, 8, 8), tokens(1, 8, BATCH)
    megatron = {
        **{f"params/**/{name}/kernel": 1 for name in ("query", "key", "value")},
        "params/**/intermediate/dense/kernel": 1,
    }
    return training_case(loss, params, batch, tactics({"batch/*": 0}, megatron))


def llama() -> Case:
    """Llama with grouped-query attention and rotary positions."""
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        max_position_embeddings=LENGTH,
    )
    model, params = _model(FlaxLlamaForCausalLM, config, 1, LENGTH)

    def loss(params: Any, ids: Array) -> Array:
        logits = model(ids, params=params, train=True).logits
        return cross_entropy(logits[:, :-1], ids[:, 1:])

    megatron = {
        **{f"params/**/{name}_proj/kernel": 1 for name in ("q", "k", "v")},
        **{f"params/**/{name}_proj/kernel": 1 for name in ("gate", "up")},
        "params/lm_head/kernel": 1,
    }
    batch = (tokens(0, VOCAB, BATCH, LENGTH),)
    schedule = tactics({"batch/0": 0}, megatron, zero="**/mlp/*/kernel")
    return training_case(loss, params, batch, schedule)
