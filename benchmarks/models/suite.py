"""Models with schedules, as the benchmarks of the simulator run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import partir
from benchmarks.models import (
    attention,
    graph_network,
    mixer,
    mlp,
    scanned,
    schedules,
    spread,
    transformer,
)

MESHES = ({"B": 4, "M": 2}, {"B": 2, "M": 4}, {"B": 8, "M": 1})


@dataclass(frozen=True)
class Model:
    """A training step, its arguments' shapes, and tactics for it."""

    name: str
    step: Callable[..., Any]
    args: tuple[Any, ...]
    batch: Any
    model: Any
    loops: bool = False

    def schedules(self) -> dict[str, list[Any]]:
        """Schedules by name, from nothing to everything."""
        b, m, z2, z3 = self.batch, self.model, schedules.Z2, schedules.Z3
        found = [[], [b], [m], [b, m], [b, z2], [b, z3], [b, m, z2], [b, m, z3]]
        return {"+".join(t.name for t in s) or "nothing": s for s in found}


def transformer_model(name: str, config: transformer.Config) -> Model:
    (args, _), separate = transformer.example_args(config), config.separate
    model_parallel = schedules.MP_SEPARATE if separate else schedules.MP
    return Model(name, transformer.train_step, args, schedules.BP, model_parallel)


def small() -> Iterator[Model]:
    """Sizes that compile and are compared quickly."""
    yield Model("mlp", mlp.train_step, mlp.example_args()[0], mlp.BATCH, mlp.MODEL)
    made = attention.example_args(attention.Config(layers=3))[0]
    yield Model(
        "attention", attention.train_step, made, attention.BATCH, attention.MODEL
    )
    yield Model(
        "graph_network",
        graph_network.train_step,
        graph_network.example_args()[0],
        graph_network.EDGES,
        graph_network.MODEL,
    )
    yield Model(
        "scanned",
        scanned.train_step,
        scanned.example_args()[0],
        scanned.BATCH,
        scanned.MODEL,
        loops=True,
    )
    yield Model(
        "mixer", mixer.train_step, mixer.example_args()[0], mixer.BATCH, mixer.MODEL
    )
    config = transformer.Config.small(
        layers=3, width=128, head_dim=16, hidden=512, vocab=512, sequence=64
    )
    yield transformer_model("transformer", config)
    config = transformer.Config.small(
        layers=3,
        width=128,
        head_dim=16,
        hidden=512,
        vocab=512,
        sequence=64,
        separate=True,
    )
    yield transformer_model("gated", config)
    for name, (build, loops) in spread.MODELS.items():
        step, args, batch, model = build()
        yield Model(name, step, args, batch, model, loops)


def large() -> Iterator[Model]:
    """Sizes at which work, not dispatch, takes the time on a CPU."""
    config = mlp.Config(blocks=4, width=256, hidden=1024, batch=2048)
    yield Model(
        "mlp", mlp.train_step, mlp.example_args(config)[0], mlp.BATCH, mlp.MODEL
    )
    shape = attention.Config(layers=2, width=256, head_dim=32, sequence=256, batch=16)
    made = attention.example_args(shape)[0]
    yield Model(
        "attention", attention.train_step, made, attention.BATCH, attention.MODEL
    )
    tokens = mixer.Config(blocks=3, tokens=128, channels=256, hidden=512, batch=16)
    made = mixer.example_args(tokens)[0]
    yield Model("mixer", mixer.train_step, made, mixer.BATCH, mixer.MODEL)
    edges = graph_network.Config(latent=128, hidden=256, nodes=1024, edges=8192)
    made = graph_network.example_args(edges)[0]
    yield Model(
        "graph_network",
        graph_network.train_step,
        made,
        graph_network.EDGES,
        graph_network.MODEL,
    )
    config = transformer.Config.small(
        layers=3, width=256, head_dim=32, hidden=1024, vocab=1024, sequence=128
    )
    yield transformer_model("transformer", config)


def partitioned(
    model: Model, schedule: list[Any], axes: dict[str, int], **options: Any
) -> Any:
    """One model under one schedule on a mesh; parameters and state are donated."""
    return partir.partition(
        model.step,
        partir.Mesh(axes),
        schedule,
        args=model.args,
        donate_argnums=(0, 1),
        **options,
    )
