"""Search methods side by side: the same moves, costs and budget.

    python -m benchmarks.methods [--models T32,MoE] [--evaluations 400] [--seconds 60]

For each model (`benchmarks.models.experts`) on its first target: predicted step time of
what each method finds, on the whole program, over that of the best expert schedule that
fits, and after how many evaluations it stopped. Only `mcts` and `random` use the seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.chosen import names
from benchmarks.models.experts import MODELS, Model
from benchmarks.search import Found, Row, against, find
from benchmarks.tables import format_table

METHODS = ("mcts", "integer", "beam", "greedy", "random")


def cell(row: Row, found: Found) -> str:
    """Ratio to the expert, and evaluations."""
    fits = "" if found.fits >= row.best.fits else " (no fit)"
    return f"{row.ratio(found):.3f}{fits} ({found.evaluations})"


def line(model: Model, args: argparse.Namespace) -> list[str]:
    """One model, all methods."""
    start, row = against(model, model.targets[0])
    cells = []
    for method in METHODS:
        cells.append(cell(row, find(start, row, args.seed, args, method)))
        print(f"{model.name}: {method} {cells[-1]}", file=sys.stderr, flush=True)
    return [model.name, row.target, row.best.name, *cells]


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="names, by default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--evaluations", type=int, default=400)
    args = parser.parse_args(argv)
    wanted = names(parser, args.models, MODELS, ",")
    rows = [line(MODELS[name], args) for name in wanted]
    print(format_table(["model", "on", "best expert", *METHODS], rows))


if __name__ == "__main__":
    main()
