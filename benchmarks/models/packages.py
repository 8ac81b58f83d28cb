"""Models of packages, as authors wrote them; nobody mended the simulator by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import transformers as hf
from jax import Array


@dataclass(frozen=True)
class Sizes:
    """How large a model and its batch are."""

    width: int
    rows: int
    length: int = 512  # of a text, in tokens
    words: int = 16384


@dataclass(frozen=True)
class Model:
    """A loss of parameters and a batch; what shapes they have for sizes and a type.

    Sizes are of the regime: few rows of a wide model, or the reverse.
    """

    make: Callable[[Sizes, Any], tuple[Callable[..., Array], Any, tuple[Any, ...]]]
    dtype: str
    heavy: bool  # weights larger than activations
    sharded: bool


def _of_tokens(kind: str, config: Callable[[Sizes], Any], seq2seq: bool = False) -> Any:
    def make(sizes: Sizes, dtype: Any) -> Any:
        model = getattr(hf, kind)(config(sizes), dtype=dtype, _do_init=False)
        key, shape = jax.random.PRNGKey(0), (1, sizes.length)
        params = jax.eval_shape(lambda key: model.init_weights(key, shape), key)
        ids = jax.ShapeDtypeStruct((sizes.rows, sizes.length), jnp.int32)

        def loss(params: Any, ids: Array, labels: Array) -> Array:
            more = {"decoder_input_ids": ids} if seq2seq else {}
            logits = model(ids, params=params, **more).logits
            chosen = jnp.take_along_axis(
                jax.nn.log_softmax(logits.astype(jnp.float32)), labels[..., None], -1
            )
            return -jnp.mean(chosen)

        return loss, params, (ids, ids)

    return make


def _of_images(sizes: Sizes, dtype: Any) -> Any:
    width = sizes.width
    config = hf.ViTConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=2,
        num_attention_heads=width // 64,
        num_labels=1000,
    )
    model = hf.FlaxViTForImageClassification(config, dtype=dtype, _do_init=False)
    shape = (1, 224, 224, 3)
    key = jax.random.PRNGKey(0)
    params = jax.eval_shape(lambda key: model.init_weights(key, shape), key)
    pixels = jax.ShapeDtypeStruct((sizes.rows, 3, 224, 224), jnp.float32)

    def loss(params: Any, pixels: Array) -> Array:
        logits = model(pixels, params=params, train=False).logits
        return jnp.mean(jax.nn.log_softmax(logits.astype(jnp.float32)) ** 2)

    return loss, params, (pixels,)


def _perceptron(sizes: Sizes, dtype: Any) -> Any:
    width = sizes.width

    def network(x: Array) -> Array:
        return hk.nets.MLP([4 * width, width, 4 * width, 10])(x.astype(dtype))

    x = jax.ShapeDtypeStruct((16 * sizes.rows, width), jnp.float32)
    return _of_haiku(network, x)


def _recurrent(sizes: Sizes, dtype: Any) -> Any:
    width = sizes.width

    def network(x: Array) -> Array:
        core = hk.LSTM(width)
        outs, _ = hk.dynamic_unroll(
            core, x.astype(dtype), core.initial_state(x.shape[1]), time_major=True
        )
        return outs

    def batched(x: Array) -> Array:
        return network(jnp.swapaxes(x, 0, 1))

    shape = (sizes.rows, sizes.length // 8, width)
    return _of_haiku(batched, jax.ShapeDtypeStruct(shape, jnp.float32))


def _of_haiku(network: Callable[[Array], Array], x: Any) -> Any:
    net = hk.without_apply_rng(hk.transform(network))
    params = jax.eval_shape(net.init, jax.random.PRNGKey(0), x)

    def loss(params: Any, x: Array) -> Array:
        return jnp.mean(net.apply(params, x).astype(jnp.float32) ** 2)

    return loss, params, (x,)


def _gpt2(s: Sizes) -> Any:
    heads = s.width // 64
    return hf.GPT2Config(n_embd=s.width, n_layer=2, n_head=heads, vocab_size=s.words)


def _sized(kind: Any, **more: Any) -> Callable[[Sizes], Any]:
    """A configuration with the names that most have."""
    return lambda s: kind(
        hidden_size=s.width,
        intermediate_size=4 * s.width,
        num_hidden_layers=2,
        num_attention_heads=s.width // 64,
        vocab_size=s.words,
        **more,
    )


def _t5(s: Sizes) -> Any:
    heads = s.width // 64
    return hf.T5Config(
        d_model=s.width,
        d_ff=4 * s.width,
        num_layers=2,
        num_heads=heads,
        vocab_size=s.words,
    )


def _bart(s: Sizes) -> Any:
    names = ("encoder", "decoder")
    more = {f"{name}_layers": 2 for name in names}
    more |= {f"{name}_attention_heads": s.width // 64 for name in names}
    more |= {f"{name}_ffn_dim": 4 * s.width for name in names}
    return hf.BartConfig(d_model=s.width, vocab_size=s.words, **more)


def _opt(s: Sizes) -> Any:
    return hf.OPTConfig(
        hidden_size=s.width,
        ffn_dim=4 * s.width,
        num_hidden_layers=2,
        num_attention_heads=s.width // 64,
        vocab_size=s.words,
        word_embed_proj_dim=s.width,
    )


def _gptj(s: Sizes) -> Any:
    return hf.GPTJConfig(
        n_embd=s.width,
        n_layer=2,
        n_head=s.width // 64,
        rotary_dim=32,
        vocab_size=s.words,
    )


MODELS = {
    "gpt2": Model(_of_tokens("FlaxGPT2LMHeadModel", _gpt2), "float32", False, True),
    "bert": Model(
        _of_tokens("FlaxBertForMaskedLM", _sized(hf.BertConfig)),
        "bfloat16",
        False,
        False,
    ),
    "t5": Model(
        _of_tokens("FlaxT5ForConditionalGeneration", _t5, True), "float32", True, True
    ),
    "bart": Model(
        _of_tokens("FlaxBartForConditionalGeneration", _bart, True),
        "bfloat16",
        False,
        True,
    ),
    "opt": Model(_of_tokens("FlaxOPTForCausalLM", _opt), "float32", True, False),
    "gptj": Model(_of_tokens("FlaxGPTJForCausalLM", _gptj), "bfloat16", True, True),
    "llama": Model(
        _of_tokens("FlaxLlamaForCausalLM", _sized(hf.LlamaConfig)),
        "bfloat16",
        False,
        True,
    ),
    "electra": Model(
        _of_tokens(
            "FlaxElectraForMaskedLM", _sized(hf.ElectraConfig, embedding_size=128)
        ),
        "float32",
        False,
        False,
    ),
    "roberta": Model(
        _of_tokens("FlaxRobertaForMaskedLM", _sized(hf.RobertaConfig)),
        "bfloat16",
        True,
        False,
    ),
    "vit": Model(_of_images, "float32", False, False),
    "perceptron": Model(_perceptron, "float32", True, True),
    "lstm": Model(_recurrent, "float32", False, False),
}
