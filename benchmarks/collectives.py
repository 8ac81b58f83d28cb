"""Collectives per schedule of the transformer's training step, against expectation.

    python -m benchmarks.collectives [--layers 32] [--json]

Counts follow from the model: with L layers of 9 tensors, m of them matrices, and one
tied embedding,

- BP sums each gradient and the loss once;
- MP adds four all-reduces per layer, two forward and two backward;
- Z2 turns the matrices' m L + 1 all-reduces into reduce-scatters, and gathers as many
  updates;
- Z3 gathers each matrix forward and backward instead, and the embedding once more,
  since it is both look-up table and output matrix.

At 32 layers of the fused variant these are the figures published for PartIR (T32). The
exit code is 1 if any count differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, astuple, dataclass

import partir
from benchmarks.models import transformer
from benchmarks.models.schedules import schedules_for
from benchmarks.models.transformer import Config
from benchmarks.tables import format_table


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
    """One schedule of one model: what was counted and what should be."""

    variant: str
    schedule: str
    counted: Counts
    expected: Counts
    published: Counts | None

    @property
    def agrees(self) -> bool:
        """Whether the count is as expected."""
        return self.counted == self.expected and self.published in (None, self.counted)


PUBLISHED = {
    "BP": Counts(all_reduce=290),
    "MP": Counts(all_reduce=128),
    "BP+MP": Counts(all_reduce=418),
    "BP+MP+Z2": Counts(129, 289, 129),
    "BP+MP+Z3": Counts(259, 289, 129),
}


def matrices_per_layer(config: Config) -> int:
    """How many of a layer's nine tensors are matrices: four, or seven if separate."""
    return sum(len(shape) > 1 for shape in transformer.layer_shapes(config).values())


def expected_counts(config: Config) -> dict[str, Counts]:
    """The formulas of this file's docstring."""
    layers = config.layers
    data = transformer.tensor_count(config) + 1
    model = 4 * layers
    sharded = matrices_per_layer(config) * layers + 1
    rest = data + model - sharded
    return {
        "BP": Counts(all_reduce=data),
        "MP": Counts(all_reduce=model),
        "BP+MP": Counts(all_reduce=data + model),
        "BP+MP+Z2": Counts(sharded, rest, sharded),
        "BP+MP+Z3": Counts(2 * sharded + 1, rest, sharded),
    }


def count_variant(config: Config, mesh: partir.Mesh) -> list[Row]:
    """Partition one model under every schedule."""
    args, kwargs = transformer.example_args(config)
    program = partir.trace(transformer.step_for(config), *args, **kwargs)
    expected = expected_counts(config)
    known = PUBLISHED if config.layers == 32 and not config.separate else {}
    rows = []
    for name, schedule in schedules_for(separate=config.separate).items():
        done = partir.partition(program, mesh, schedule, donate_argnums=(0, 1))
        variant = "separate" if config.separate else "fused"
        counted = Counts(**done.collectives)
        rows.append(Row(variant, name, counted, expected[name], known.get(name)))
    return rows


def show(rows: list[Row], layers: int, mesh: partir.Mesh) -> str:
    """The table that a person reads."""
    header = ("model", "schedule", "counted", "formula", "published", "")
    body = [
        (
            row.variant,
            row.schedule,
            row.counted,
            row.expected,
            row.published or "-",
            "ok" if row.agrees else "DIFFERS",
        )
        for row in rows
    ]
    title = f"{layers} layers, mesh {mesh}: "
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
    mesh = partir.Mesh({"B": 4, "M": 2})
    rows = []
    for separate in (False, True):
        config = Config.small(layers=options.layers, separate=separate)
        rows += count_variant(config, mesh)
    if options.json:
        print(json.dumps([asdict(row) | {"agrees": row.agrees} for row in rows]))
    else:
        print(show(rows, options.layers, mesh))
    return 0 if all(row.agrees for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
