"""Predicted memory beside compilers', on models that nobody mended the simulator by.

    python -m benchmarks.held_out_memory cpu|tpu [--topology v5e:2x4] [--only gpt2,vit]
        [--keep FOLDER] [--kept-only] [--write]

Twelve models of packages, as their authors wrote them, in both regimes (weights larger
than activations, and the reverse), half of them computing in bfloat16, split over eight
devices by batch, and half of them also by ZeRO-3. Nothing runs. For CPUs sizes are
divided. ``--keep`` keeps figures in a folder as `benchmarks.compilers` does, and with
``--kept-only`` nothing more is compiled: the page names what is missing. The models
that the simulator was mended by are listed apart: those of `benchmarks/models`, through
`benchmarks.compilers` and `benchmarks.simulator_accuracy`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import transformers as hf
from jax import Array

import partir
from benchmarks.compiled import Compiler
from benchmarks.compilers import DEVICES, RESULTS, compiler_of, devices_of
from benchmarks.models.schedules import matrices
from benchmarks.models.training import train_with, training_state
from benchmarks.zoo.case import old_names

AXES = {"B": 8}
LENGTH = 512
BATCH = partir.ManualPartition({"batch/*": 0}, axis="B", name="BP")
SHARDED = partir.ManualPartition(
    {"params/**": matrices, "opt_state/**": matrices}, axis="B", name="Z3"
)


@dataclass(frozen=True)
class Model:
    """A loss of parameters and a batch; what shapes they have for sizes and a type.

    `width` and `rows` are of the regime: few rows of a wide model, or the reverse.
    """

    make: Callable[[int, int, Any], tuple[Callable[..., Array], Any, tuple[Any, ...]]]
    dtype: str
    heavy: bool  # weights larger than activations
    sharded: bool


def _of_tokens(kind: str, config: Callable[[int], Any], seq2seq: bool = False) -> Any:
    def make(width: int, rows: int, dtype: Any) -> Any:
        model = getattr(hf, kind)(config(width), dtype=dtype, _do_init=False)
        key = jax.random.PRNGKey(0)
        params = jax.eval_shape(lambda key: model.init_weights(key, (1, LENGTH)), key)
        ids = jax.ShapeDtypeStruct((rows, LENGTH), jnp.int32)

        def loss(params: Any, ids: Array, labels: Array) -> Array:
            more = {"decoder_input_ids": ids} if seq2seq else {}
            logits = model(ids, params=params, **more).logits
            chosen = jnp.take_along_axis(
                jax.nn.log_softmax(logits.astype(jnp.float32)), labels[..., None], -1
            )
            return -jnp.mean(chosen)

        return loss, params, (ids, ids)

    return make


def _of_images(width: int, rows: int, dtype: Any) -> Any:
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
    pixels = jax.ShapeDtypeStruct((rows, 3, 224, 224), jnp.float32)

    def loss(params: Any, pixels: Array) -> Array:
        logits = model(pixels, params=params, train=False).logits
        return jnp.mean(jax.nn.log_softmax(logits.astype(jnp.float32)) ** 2)

    return loss, params, (pixels,)


def _perceptron(width: int, rows: int, dtype: Any) -> Any:
    def network(x: Array) -> Array:
        return hk.nets.MLP([4 * width, width, 4 * width, 10])(x.astype(dtype))

    return _of_haiku(network, jax.ShapeDtypeStruct((16 * rows, width), jnp.float32))


def _recurrent(width: int, rows: int, dtype: Any) -> Any:
    def network(x: Array) -> Array:
        core = hk.LSTM(width)
        outs, _ = hk.dynamic_unroll(
            core, x.astype(dtype), core.initial_state(x.shape[1]), time_major=True
        )
        return outs

    def batched(x: Array) -> Array:
        return network(jnp.swapaxes(x, 0, 1))

    x = jax.ShapeDtypeStruct((rows, LENGTH // 8, width), jnp.float32)
    return _of_haiku(batched, x)


def _of_haiku(network: Callable[[Array], Array], x: Any) -> Any:
    net = hk.without_apply_rng(hk.transform(network))
    params = jax.eval_shape(net.init, jax.random.PRNGKey(0), x)

    def loss(params: Any, x: Array) -> Array:
        return jnp.mean(net.apply(params, x).astype(jnp.float32) ** 2)

    return loss, params, (x,)


def _gpt2(n: int) -> Any:
    return hf.GPT2Config(n_embd=n, n_layer=2, n_head=n // 64, vocab_size=16384)


def _sized(kind: Any, **more: Any) -> Callable[[int], Any]:
    """A configuration with the names that most have."""
    return lambda n: kind(
        hidden_size=n,
        intermediate_size=4 * n,
        num_hidden_layers=2,
        num_attention_heads=n // 64,
        vocab_size=16384,
        **more,
    )


def _t5(n: int) -> Any:
    return hf.T5Config(
        d_model=n, d_ff=4 * n, num_layers=2, num_heads=n // 64, vocab_size=16384
    )


def _bart(n: int) -> Any:
    names = ("encoder", "decoder")
    sizes = {f"{name}_layers": 2 for name in names}
    sizes |= {f"{name}_attention_heads": n // 64 for name in names}
    sizes |= {f"{name}_ffn_dim": 4 * n for name in names}
    return hf.BartConfig(d_model=n, vocab_size=16384, **sizes)


def _opt(n: int) -> Any:
    return hf.OPTConfig(
        hidden_size=n,
        ffn_dim=4 * n,
        num_hidden_layers=2,
        num_attention_heads=n // 64,
        vocab_size=16384,
        word_embed_proj_dim=n,
    )


def _gptj(n: int) -> Any:
    return hf.GPTJConfig(
        n_embd=n, n_layer=2, n_head=n // 64, rotary_dim=32, vocab_size=16384
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


def sizes(model: Model, platform: str) -> tuple[int, int]:
    """Width and rows."""
    width, rows = (2048, 8) if model.heavy else (768, 64)
    if platform == "cpu":
        return width // 4 // 64 * 64, max(rows // 4, AXES["B"])
    return width, rows


@dataclass(frozen=True)
class Row:
    """A model's memory, predicted and as the compiler says."""

    name: str
    predicted: int
    compiled: int

    @property
    def error(self) -> float:
        """Relative to the compiler's."""
        return self.predicted / self.compiled - 1


def measure(args: argparse.Namespace) -> Iterator[Row]:
    """Compile one after another, without those that are not to be compiled."""
    mesh = devices_of(args.platform, args.topology, AXES)
    device = DEVICES[args.topology.split(":")[0]]
    compiler = compiler_of(args, AXES)
    for name in args.only.split(","):
        with old_names():
            row = _row(name, args.platform, device, mesh, compiler)
        if row is None:
            continue
        print(f"{name}: {row.predicted} {row.compiled} {row.error:+.1%}", flush=True)
        yield row


def _row(
    name: str, platform: str, device: str, mesh: Any, compiler: Compiler
) -> Row | None:
    model = MODELS[name]
    width, rows = sizes(model, platform)
    loss, params, batch = model.make(width, rows, jnp.dtype(model.dtype))
    args = (*training_state(params), *batch)
    done = partir.partition(
        train_with(loss),
        AXES,
        [BATCH, SHARDED] if model.sharded else [BATCH],
        args=args,
        donate_argnums=(0, 1),
        device=device,
        devices=mesh,
        verify="off",
    )
    made = compiler.made(done.compile().lower(*args))
    return Row(name, done.estimate.peak_bytes, made.memory) if made else None


def page(rows: Sequence[Row], args: argparse.Namespace) -> str:
    """The table with how it was made."""
    names = ["jax", "transformers", "dm-haiku", *["libtpu"] * (args.platform == "tpu")]
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in names)
    command = f"python -m benchmarks.held_out_memory {' '.join(sys.argv[1:])}"
    lines = [
        f"# Memory of models that nobody mended by: {args.platform} {args.topology}",
        "",
        "| | |",
        "|---|---|",
        f"| command | `{command}` |",
        f"| date | {datetime.date.today()} |",
        f"| versions | {versions} |",
        "| machine | any: nothing is run |",
        "",
        f"Mesh `{partir.Mesh(AXES)}`, two layers. *Heavy*: weights larger than",
        "activations.",
        "",
        "| model | type | heavy | schedule | predicted MiB | compiled MiB | error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        model = MODELS[row.name]
        cells = (
            row.name,
            model.dtype,
            "yes" if model.heavy else "no",
            "BP+Z3" if model.sharded else "BP",
            f"{row.predicted / 2**20:.0f}",
            f"{row.compiled / 2**20:.0f}",
            f"{row.error:+.1%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    errors = [abs(row.error) for row in rows]
    median, worst = statistics.median(errors), max(errors)
    lines += ["", f"Median {median:.1%}, worst {worst:.1%}.", ""]
    missing = [name for name in MODELS if name not in {row.name for row in rows}]
    if missing:
        lines += [f"Not compiled: {', '.join(missing)}.", ""]
    return "\n".join(lines)


def main() -> None:
    """Compile what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("platform", choices=("cpu", "tpu"))
    parser.add_argument("--topology", default=None)
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for what was compiled")
    parser.add_argument("--kept-only", action="store_true")
    args = parser.parse_args()
    args.topology = args.topology or {"tpu": "v5e:2x4", "cpu": ""}[args.platform]
    rows = list(measure(args))
    text = page(rows, args)
    print(text)
    if args.write:
        name = f"{args.platform}_{args.topology.replace(':', '_')}".strip("_")
        (RESULTS / f"held_out_memory_{name}.md").write_text(text)


if __name__ == "__main__":
    main()
