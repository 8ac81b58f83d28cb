"""How many partitioned programs are proved, and why the others are not.

    python -m benchmarks.proofs [models published patterns zoo] [--layers 4] [--reasons]

- *models*: the small training steps of `benchmarks.models.suite` under every schedule;
- *published*: transformer, decoding, UNet, GNS under their schedules, `--layers` deep;
- *patterns*: `benchmarks.patterns` with their gradients, over eight devices;
- *zoo*: training steps as authors wrote them (needs the extras `frameworks`, `models`).

A program counts as proved if all of its results are. The exit code is 1 if a result is
said to be wrong: none of these is.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax

import partir
from benchmarks.models import decoding, gns, schedules, suite, transformer, unet
from benchmarks.tables import format_table

MESH = {"B": 4, "M": 2}
Named = tuple[str, Callable[[], Any]]


@dataclass
class Tally:
    """What came of one group of programs."""

    proved: int = 0
    not_proved: int = 0
    disproved: int = 0
    partitioning: float = 0.0
    proving: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, partition: Callable[[], Any]) -> None:
        """Partition a program and prove it."""
        begin = time.perf_counter()
        done = partition()
        done.stablehlo()
        self.partitioning += time.perf_counter() - begin
        proof = done.proof()
        self.proving += proof.seconds
        self.disproved += bool(proof.disproved)
        if not proof.not_proved:
            self.proved += 1
            return
        self.not_proved += 1
        first = (*proof.disproved, *proof.not_proved)[0]
        self.reasons[f"{name}: {first}"] += 1


def models(layers: int) -> Iterator[Named]:
    """Small training steps."""
    for model in suite.small():
        for name, tactics in model.schedules().items():
            yield (
                f"{model.name} {name}",
                lambda m=model, t=tactics: suite.partitioned(m, t, MESH),
            )


def published(layers: int) -> Iterator[Named]:
    """The models that published counts are about."""
    for variant in ({"biased": True}, {}, {"separate": True}):
        config = transformer.Config.small(layers=layers, **variant)
        args, kwargs = transformer.example_args(config)
        program = partir.trace(transformer.step_for(config), *args, **kwargs)
        tactics = schedules.schedules_for(separate=config.separate)
        if not config.separate:
            tactics = tactics | schedules.EMBEDDED_SCHEDULES
        yield from _each(f"transformer {variant}", program, tactics)
    others: tuple[tuple[str, Any, Any], ...] = (
        ("IT", decoding, decoding.Config(layers=layers, tokens=1536)),
        ("UNet", unet, unet.Config(factors=(1, 2, 4), blocks=3)),
        ("GNS", gns, gns.Config(steps=max(layers * 3 // 4, 1), depth=5)),
    )
    for name, module, chosen in others:
        program = partir.trace(module.step_for(chosen), *module.example_args(chosen)[0])
        yield from _each(name, program, module.SCHEDULES)


def _each(model: str, program: Any, tactics: dict[str, Any]) -> Iterator[Named]:
    for name, chosen in tactics.items():
        yield (
            f"{model} {name}",
            lambda c=chosen: partir.partition(program, MESH, c),
        )


def patterns(layers: int) -> Iterator[Named]:
    """Functions and their gradients over one axis."""
    from benchmarks.patterns.catalogue import PATTERNS
    from benchmarks.patterns.compare import Case

    for name, pattern in PATTERNS.items():
        yield name, lambda p=pattern: Case(p).partitioned


def zoo(layers: int) -> Iterator[Named]:
    """Models of frameworks, at tiny sizes and in 64-bit types."""
    from benchmarks.zoo import CASES

    for name, build in CASES.items():
        yield name, lambda b=build: _zoo(b())


def _zoo(case: Any) -> Any:
    return partir.partition(case.step, MESH, list(case.schedule), args=case.args)


GROUPS = {"models": models, "published": published, "patterns": patterns, "zoo": zoo}


def tally(group: str, layers: int, only: str = "") -> Tally:
    """Prove all programs of one group."""
    found = Tally()
    for name, partition in GROUPS[group](layers):
        if only in name:
            found.add(name, partition)
    return found


def main(argv: list[str] | None = None) -> int:
    """Prove, print, and return 1 if something right is said to be wrong."""
    parser = argparse.ArgumentParser(description="Programs that are proved.")
    parser.add_argument("groups", nargs="*", default=list(GROUPS), metavar="GROUP")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--only", default="", help="programs with this in their name")
    parser.add_argument("--reasons", action="store_true", help="why others are not")
    options = parser.parse_args(argv)
    wrong, rows = 0, []
    for group in options.groups:
        with jax.enable_x64(group == "zoo"):
            found = tally(group, options.layers, options.only)
        wrong += found.disproved
        rows.append(
            (
                group,
                found.proved,
                found.not_proved,
                found.disproved,
                f"{found.partitioning:.1f} s",
                f"{found.proving:.1f} s",
            )
        )
        if options.reasons:
            print("\n".join(found.reasons))
    header = ("group", "proved", "not proved", "wrong", "partitioning", "proving")
    print(format_table(header, rows))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
