"""Thirty "why" questions with their answers, written before there was an `explain`.

Each says what is partitioned how, what is asked, and what a good answer holds: the
cause, the line of the user's code where things part, the tactic since which it is so,
and one action that helps, as (what is done, to what, with which dimension). Ten have
none. Every action that an answer offers is applied and measured by the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import partir
from partir import FIRST_DIVISIBLE_DIM, REPLICATED, ManualPartition
from tests.explain import programs as p
from tests.explain.programs import f32, i32


@dataclass(frozen=True)
class Help:
    """An action: "leave_out", "other_dim", "tile", "keep", "choose" or "pad"."""

    action: str
    target: str
    dim: int | None = None


@dataclass(frozen=True)
class Question:
    """What is asked of which partition, and what the answer must hold.

    `ask` is a name; or a kind of collective and the name of the value that it moves,
    of which "any" is the first.
    `line` is a piece of the line of code that the answer must point to. Whether a
    remedy pays is `marginal` where it is for the simulator's last percent to say.
    """

    title: str
    fn: Any
    args: tuple[Any, ...]
    schedule: Sequence[Any]
    ask: str | tuple[str, str]
    cause: str
    tactic: str | None
    line: str | None = None
    help: Help | None = None
    axis: str | None = None
    mesh: Any = None
    carry: Any = None
    marginal: bool = False


def tiles(name: str = "tiles", axis: str = "A", **inputs: Any) -> ManualPartition:
    return ManualPartition(inputs, axis=axis, name=name)


def matrices(name: str, shape: Sequence[int], dtype: Any) -> Any:
    return FIRST_DIVISIBLE_DIM if len(shape) > 1 else partir.UNKNOWN


BP = tiles("BP", "B", x=0, y=0)
MP = ManualPartition({"params/layers/*/up": 1}, axis="M", name="MP")
Z3 = ManualPartition({"params/**": matrices, "opt/**": matrices}, axis="B", name="Z3")
SQUARE, ROWS = f32(4096, 4096), f32(4096, 1024)
HEADS = f32(2, 4096, 8, 128)


def training(
    title: str, schedule: Sequence[Any], ask: Any, cause: str, tactic: Any, **more: Any
) -> Question:
    args, mesh, carry = (
        p.TRAINING,
        {"B": 4, "M": 2},
        {"out/0": "params", "out/1": "opt"},
    )
    return Question(
        title,
        p.train_step,
        args,
        schedule,
        ask,
        cause,
        tactic,
        mesh=mesh,
        carry=carry,
        **more,
    )


WITH_HELP = [
    Question(
        "two operands of a product ask for different loops",
        p.product,
        (SQUARE, SQUARE),
        [tiles(x=0, w=0)],
        ("all_gather", "w"),
        "conflict",
        "tiles",
        "jnp.tanh(x @ w)",
        Help("leave_out", "w"),
    ),
    training(
        "a weight sharded by ZeRO-3 is gathered for its product (jax#25010)",
        [BP, MP, Z3],
        ("all_gather", "params/layers/0/up"),
        "other_loop",
        "Z3",
        line='norm(x) @ layer["up"]',
        help=Help("keep", "params/layers/0/up"),
    ),
    Question(
        "a loop over microbatches steps through what is tiled",
        p.accumulated,
        (SQUARE, f32(8, 4096, 4096)),
        [tiles(x=0)],
        "%accumulated.<locals>.body/dot_general/0",
        "one_slice",
        "tiles",
        "lax.scan(body, jnp.zeros(w.shape[1]), x)",
        Help("other_dim", "x", 1),
    ),
    Question(
        "stacked layers are tiled along the layers (jax#20381)",
        p.stacked_layers,
        (f32(8, 4096, 4096), f32(1024, 4096)),
        [tiles(stack=0)],
        "out",
        "one_slice",
        "tiles",
        "lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, stack)",
        Help("other_dim", "stack", 2),
    ),
    Question(
        "one slice is taken of what is tiled",
        p.third_expert,
        (f32(4, 4096, 4096), SQUARE),
        [tiles(x=0)],
        "out",
        "one_slice",
        "tiles",
        "x[2] @ w",
        Help("other_dim", "x", 1),
    ),
    Question(
        "a reshape splits a dimension into parts that do not divide",
        p.rows_in_threes,
        (f32(12, 1024), f32(1024, 4096)),
        [tiles(x=0)],
        ("all_to_all", "x"),
        "does_not_divide",
        "tiles",
        "x.reshape(3, 4, 1024)",
        Help("other_dim", "x", 1),
    ),
    Question(
        "a Fourier transform along the tiled sequence",
        p.mixed_by_fourier,
        (f32(8, 4096, 1024), f32(1024, 1024)),
        [tiles(x=1)],
        ("all_to_all", "%mixed_by_fourier/convert/0"),
        "no_loop",
        "tiles",
        "jnp.fft.fft(x, axis=1)",
        Help("other_dim", "x", 0),
    ),
    Question(
        "queries and keys are both tiled along the sequence (jax#23052)",
        p.attention,
        (HEADS, HEADS, HEADS),
        [tiles(q=1, k=1, v=1)],
        ("all_gather", "k"),
        "conflict",
        "tiles",
        'jnp.einsum("bqhd,bkhd->bhqk", q, k)',
        Help("other_dim", "k", 2),
    ),
    Question(
        "rows that do not divide stay whole (jax#26946: 17 on 8 devices)",
        p.product,
        (f32(1025, 4095), f32(4095, 4095)),
        [tiles(x=FIRST_DIVISIBLE_DIM)],
        "x",
        "does_not_divide",
        "tiles",
        help=Help("pad", "x", 0),
        mesh={"A": 8},
    ),
    training(
        "nobody named the head, so every device holds all of it",
        [BP, MP],
        "params/head",
        "nobody_asked",
        None,
        help=Help("tile", "params/head", 1),
        axis="M",
    ),
    training(
        "the optimiser's state is whole on the batch axis (ZeRO)",
        [BP],
        "opt/mu/head",
        "nobody_asked",
        None,
        help=Help("tile", "opt/mu/head", 0),
        axis="B",
    ),
    training(
        "what fills memory at the peak, and who could halve it (jax#31292)",
        [BP],
        "peak_bytes",
        "memory",
        None,
        help=Help("tile", "opt/mu/layers/0/up", 0),
    ),
    Question(
        "a result that was asked to be whole",
        p.product,
        (SQUARE, SQUARE),
        [
            ManualPartition({}, axis="A", outputs={"out": REPLICATED}, name="whole"),
            tiles(x=0),
        ],
        ("all_gather", "%product/dot_general/0"),
        "kept_whole",
        "whole",
        "jnp.tanh(x @ w)",
        Help("leave_out", "out"),
    ),
    Question(
        "a loss that is shifted by one asks the neighbours",
        p.shifted_loss,
        (f32(8, 4096, 1024), f32(1024, 1024)),
        [tiles(h=1)],
        ("collective_permute", "h"),
        "neighbours",
        "tiles",
        "h[:, :-1] @ w",
        Help("other_dim", "h", 0),
    ),
    Question(
        "a roll along the tiled rows asks the neighbours",
        p.rolled,
        (SQUARE,),
        [tiles(x=0)],
        ("collective_permute", "x"),
        "neighbours",
        "tiles",
        "jnp.roll(x, 1, 0)",
        Help("other_dim", "x", 1),
    ),
    Question(
        "rows of a tiled table are looked up (xla#42481)",
        p.looked_up,
        (f32(32768, 4096), i32(16384)),
        [tiles(table=0)],
        ("all_reduce", "%looked_up/gather/0"),
        "summed",
        "tiles",
        "table[tokens]",
        Help("other_dim", "table", 1),
    ),
    Question(
        "a product over the dimension that is tiled",
        p.product,
        (SQUARE, SQUARE),
        [tiles(x=1)],
        ("all_reduce", "%product/dot_general/0"),
        "summed",
        "tiles",
        "jnp.tanh(x @ w)",
        Help("other_dim", "x", 0),
    ),
    Question(
        "a cache tiled along the sequence is summed over (Enzyme-JAX#596)",
        p.cache_step,
        (f32(8, 8192, 8, 128), f32(8, 1, 8, 128), i32()),
        [tiles(cache=1)],
        ("all_reduce", "%attention/dot_general/1"),
        "summed",
        "tiles",
        'jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)',
        Help("other_dim", "cache", 0),
    ),
    Question(
        "what a loop carries is tiled in two ways",
        p.carried,
        (SQUARE, SQUARE, SQUARE),
        [tiles(x=0, y=1)],
        "%carried.<locals>.body/dot_general/0",
        "conflict",
        "tiles",
        "lax.fori_loop(0, 3, body, (x, jnp.zeros_like(x)))",
        Help("other_dim", "y", 0),
    ),
    Question(
        "a tag that was asked to be whole is gathered",
        p.tagged,
        (f32(1024, 2048), f32(2048, 8192), f32(8192, 2048)),
        [ManualPartition({"hidden": REPLICATED}, axis="A", name="pin"), tiles(w1=1)],
        "%tagged/dot_general/1",
        "kept_whole",
        "pin",
        'partir.tag(jax.nn.relu(x @ w1), "hidden")',
        Help("leave_out", "hidden"),
    ),
]

WITHOUT_HELP = [
    training(
        "the sum of the loss over the batch",
        [BP],
        ("all_reduce", "%loss/reduce/0"),
        "summed",
        "BP",
        line="return jnp.mean(",
    ),
    training("an argument is tiled as it was asked for", [BP, MP], "x", "asked", "BP"),
    training(
        "the state of a weight follows the weight",
        [BP, MP],
        "opt/mu/layers/1/down",
        "propagated",
        "MP",
        line="0.9 * m + 0.1 * g",
        axis="M",
    ),
    training(
        "a tag in every layer follows the weight",
        [BP, MP],
        "hidden",
        "propagated",
        "MP",
        line='jax.nn.relu(norm(x) @ layer["up"])',
        axis="M",
    ),
    training("a scalar has nothing to tile", [BP], "opt/count", "nobody_asked", None),
    Question(
        "an op that nobody has a rule for",
        partir.load(p.NO_RULE),
        (),
        [tiles(arg0=0)],
        ("all_gather", "%main/dot_general/1"),
        "no_rule",
        "tiles",
    ),
    Question(
        "a sort of all rows, after work that must be shared out",
        p.wide_sort,
        (SQUARE, SQUARE),
        [tiles(x=0)],
        ("all_gather", "%wide_sort/reduce/0"),
        "no_loop",
        "tiles",
        "jnp.sort(scores)",
    ),
    Question(
        "a transform of the only dimension, after work that must be shared out",
        p.long_signal,
        (SQUARE, SQUARE),
        [tiles(x=0)],
        ("all_gather", "%long_signal/convert/0"),
        "no_loop",
        "tiles",
        "jnp.fft.fft(loud)",
    ),
    Question(
        "the model itself keeps a value whole",
        p.constrained,
        (f32(4096, 16384), f32(16384, 4096), f32(4096, 64)),
        [tiles(x=0)],
        ("all_gather", "%constrained/tanh/0"),
        "kept_whole",
        None,
        "lax.with_sharding_constraint(",
    ),
    Question(
        "tokens go to their experts (jax#34168)",
        p.mixture,
        (f32(8, 1024, 1024), f32(1024, 8), f32(8, 1024, 4096), f32(8, 4096, 1024)),
        [tiles(x=0, w1=0, w2=0)],
        ("all_to_all", "%mixture/transpose/0"),
        "other_loop",
        "tiles",
        "jax.nn.relu(sent @ w1[:, None])",
    ),
]

QUESTIONS = [*WITH_HELP, *WITHOUT_HELP]
DEVICE = "tpu_v5p"
