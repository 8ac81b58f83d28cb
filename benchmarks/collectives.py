"""Collectives per schedule of the models, against formulas and published counts.

    python -m benchmarks.collectives [--layers 32] [--json]

Counts follow from the models (``benchmarks/models``). A transformer of L layers with 9
tensors each, m of them matrices, and one tied embedding:

- BP sums each gradient and the loss once;
- MP adds four all-reduces per layer, two forward and two backward;
- Z2 turns the matrices' m L + 1 all-reduces into reduce-scatters, and gathers as many
  updates;
- Z3 gathers each matrix forward and backward instead, and the embedding once more,
  since it is both look-up table and output matrix;
- EMB turns MP's four all-reduces into reduce-scatters and gathers what matrix products
  read: inputs of the first two forward and again for their gradients, and once for both
  gradients of the other two what came back to them; norms sum over a split dimension,
  as often as they have sums, and so do the logits.

Decoding T tokens with it (IT32): MP two all-reduces per layer and token; MQ gathers the
prompt's keys and values, and moves queries and what was mixed in every later token.
UNet: as BP, Z2, Z3 above, vectors too, but for what does not divide. GNS: gradients of
the edges' MLPs, and per step what nodes receive and two gradients of what they sent.

At 32 layers, the biased variant's and IT32's counts are those published for PartIR, but
that EMB gathers two values less per layer: there both gradients of a product gather for
themselves. The exit code is 1 if a count differs from its formula, or there is more
than what is published.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, astuple, dataclass
from typing import Any

import jax

import partir
from benchmarks.models import decoding, gns, transformer, unet
from benchmarks.models.schedules import EMBEDDED_SCHEDULES, schedules_for
from benchmarks.models.transformer import Config
from benchmarks.tables import format_table

MESH = partir.Mesh({"B": 4, "M": 2})


@dataclass(frozen=True)
class Counts:
    """Collectives of one step on one device, loops multiplied out."""

    all_gather: int = 0
    all_reduce: int = 0
    reduce_scatter: int = 0
    all_to_all: int = 0
    collective_permute: int = 0

    def __str__(self) -> str:
        """All kinds but the last, which is shown only if there is one."""
        shown = astuple(self) if self.collective_permute else astuple(self)[:4]
        return "/".join(map(str, shown))


@dataclass(frozen=True)
class Row:
    """One schedule of one model: what was counted and what should be.

    ``same`` says that the model has the published one's structure, as far as its counts
    tell, so that they must agree.
    """

    model: str
    schedule: str
    counted: Counts
    expected: Counts
    published: Counts | None
    same: bool = True

    @property
    def agrees(self) -> bool:
        """Whether the count is as expected, and no more than published."""
        if self.counted != self.expected:
            return False
        if self.published is None or not self.same:
            return True
        pairs = zip(astuple(self.counted), astuple(self.published), strict=True)
        return all(ours <= theirs for ours, theirs in pairs)


PUBLISHED = {
    "T32": {
        "BP": Counts(all_reduce=290),
        "MP": Counts(all_reduce=128),
        "BP+MP": Counts(all_reduce=418),
        "BP+MP+Z2": Counts(129, 289, 129),
        "BP+MP+Z3": Counts(259, 289, 129),
        "MP+EMB": Counts(256, 193, 128),
        "BP+MP+Z3+EMB": Counts(515, 354, 257),
    },
    "IT32": {
        "BP": Counts(),
        "BP+MP": Counts(all_reduce=98304),
        "BP+MQ+MP": Counts(64, 98304, 0, 98240),
    },
    "UNet": {
        "BP": Counts(all_reduce=503),
        "BP+Z2": Counts(517, 2, 501),
        "BP+Z3": Counts(799, 2, 501),
    },
    "GNS": {"ES": Counts(all_reduce=423)},
}


# Formulas


def matrices_per_layer(config: Config) -> int:
    """How many of a layer's nine tensors are matrices: four, or seven if separate."""
    return sum(len(shape) > 1 for shape in transformer.layer_shapes(config).values())


def transformer_counts(config: Config) -> dict[str, Counts]:
    """The formulas of this file's docstring."""
    layers = config.layers
    data = transformer.tensor_count(config) + 1
    model = 4 * layers
    sharded = matrices_per_layer(config) * layers + 1
    rest = data + model - sharded
    counts = {
        "BP": Counts(all_reduce=data),
        "MP": Counts(all_reduce=model),
        "BP+MP": Counts(all_reduce=data + model),
        "BP+MP+Z2": Counts(sharded, rest, sharded),
        "BP+MP+Z3": Counts(2 * sharded + 1, rest, sharded),
    }
    if config.separate:  # EMB is counted for matrices of which each reads its own value
        return counts
    # Sums of a norm: two forward and two backward; one each and one again if biased.
    gathers, sums = 6 * layers, (6 if config.biased else 8) * layers + 1
    return counts | {
        "MP+EMB": Counts(gathers, sums, model),
        "BP+MP+Z3+EMB": Counts(
            2 * sharded + 1 + gathers, rest - model + sums, sharded + model
        ),
    }


def decoding_counts(config: decoding.Config) -> dict[str, Counts]:
    """Per layer: two sums a token, two gathers, two moves a token but the first."""
    pair = 2 * config.layers
    sums = pair * config.tokens
    return {
        "BP": Counts(),
        "BP+MP": Counts(all_reduce=sums),
        "BP+MQ+MP": Counts(pair, sums, 0, sums - pair),
    }


def unet_counts(config: unet.Config) -> dict[str, Counts]:
    """One tensor does not divide, the output's bias.

    Z3 gathers weights and norms' scales again for the gradient of what they were
    applied to; the image and the timestep need none.
    """
    leaves = jax.tree_util.tree_leaves_with_path(
        unet.param_shapes(config), is_leaf=lambda x: isinstance(x, tuple)
    )
    again = sum(path[-1].key in ("w", "scale") for path, _ in leaves) - 2
    sharded = len(leaves) - 1
    return {
        "BP": Counts(all_reduce=len(leaves) + 1),
        "BP+Z2": Counts(sharded, 2, sharded),
        "BP+Z3": Counts(sharded + again, 2, sharded),
    }


def gns_counts(config: gns.Config) -> dict[str, Counts]:
    """An MLP's tensors: a matrix and a bias per layer, and the norm's two."""
    tensors = 2 * (config.depth + 1) + 2
    return {"ES": Counts(all_reduce=(tensors + 3) * config.steps + tensors)}


# Counting


def count(
    model: str,
    program: Any,
    schedules: dict[str, Any],
    expected: dict[str, Counts],
    published: dict[str, Counts],
    *,
    same: bool = True,
) -> Iterable[Row]:
    """Partition one model under every schedule that there is a formula for."""
    for name, formula in expected.items():
        donate = () if model == "IT32" else (0, 1)
        done = partir.partition(program, MESH, schedules[name], donate_argnums=donate)
        counted = Counts(**done.collectives)
        yield Row(model, name, counted, formula, published.get(name), same)


def count_transformer(config: Config) -> Iterable[Row]:
    """All schedules of one variant."""
    args, kwargs = transformer.example_args(config)
    program = partir.trace(transformer.step_for(config), *args, **kwargs)
    variant = "separate" if config.separate else "biased" if config.biased else "fused"
    known = PUBLISHED["T32"] if config.layers == 32 and variant == "biased" else {}
    schedules = schedules_for(separate=config.separate) | EMBEDDED_SCHEDULES
    return count(variant, program, schedules, transformer_counts(config), known)


def count_others(layers: int) -> Iterable[Row]:
    """The other models in the published structure, narrow; IT32 of ``layers``."""
    it32 = decoding.Config(layers=layers, tokens=1536)
    image = unet.Config(factors=(1, 2, 4), blocks=3)
    graph = gns.Config(steps=24, depth=5)
    built: tuple[tuple[str, Any, Any, Callable[[Any], Any]], ...] = (
        ("IT32", decoding, it32, decoding_counts),
        ("UNet", unet, image, unet_counts),
        ("GNS", gns, graph, gns_counts),
    )
    for name, module, config, formulas in built:
        program = partir.trace(module.step_for(config), *module.example_args(config)[0])
        known = PUBLISHED[name] if name != "IT32" or layers == 32 else {}
        expected = formulas(config)
        yield from count(
            name, program, module.SCHEDULES, expected, known, same=name == "IT32"
        )


def show(rows: list[Row], layers: int) -> str:
    """The table that a person reads."""
    header = ("model", "schedule", "counted", "formula", "published", "")
    body = [
        (
            row.model,
            row.schedule,
            row.counted,
            row.expected,
            "-" if row.published is None else row.published,
            "ok" if row.agrees else "DIFFERS",
        )
        for row in rows
    ]
    title = f"{layers} layers, mesh {MESH}: "
    return f"{title}all_gather/all_reduce/reduce_scatter/all_to_all\n" + format_table(
        header, body
    )


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Collectives per schedule.")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Count, print, and return 1 if anything differs."""
    options = parse_arguments(argv)
    rows: list[Row] = []
    for variant in ({"biased": True}, {}, {"separate": True}):
        rows += count_transformer(Config.small(layers=options.layers, **variant))
    rows += count_others(options.layers)
    if options.json:
        print(json.dumps([asdict(row) | {"agrees": row.agrees} for row in rows]))
    else:
        print(show(rows, options.layers))
    return 0 if all(row.agrees for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
