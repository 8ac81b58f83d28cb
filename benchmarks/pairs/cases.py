"""The pairs: three models x four schedules x unrolled or scanned x two regimes.

The list was written down before anything was mended by it; none is left out. In the
*weights* regime parameters are larger than what the forward pass keeps, in the
*activations* regime it is the other way round. `RESTING` came later: where weights are
larger, with one more tactic, which leaves all arguments and results as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import partir
from benchmarks.models import mlp, scanned, schedules, stacked, transformer

AXES = {"B": 4, "M": 2}
SCHEDULES = ("BP", "BP+MP", "BP+MP+Z2", "BP+MP+Z3")
REGIMES = ("weights", "activations")
FORMS = ("unrolled", "scanned")
DONATED = (0, 1)

_MLP = {
    "weights": mlp.Config(blocks=8, width=256, hidden=1024, batch=32),
    "activations": mlp.Config(blocks=8, width=64, hidden=256, batch=4096),
}
_TRANSFORMER = {
    "weights": transformer.Config(
        layers=4,
        width=256,
        heads=8,
        head_dim=32,
        hidden=1024,
        vocab=512,
        sequence=8,
        batch=8,
        biased=True,
    ),
    "activations": transformer.Config(
        layers=4, width=64, vocab=256, sequence=64, batch=32, biased=True
    ),
}
_GATED = {
    regime: replace(config, layers=3, biased=False, separate=True)
    for regime, config in _TRANSFORMER.items()
}
MODELS: dict[str, dict[str, Any]] = {
    "MLP": _MLP,
    "transformer": _TRANSFORMER,
    "gated transformer": _GATED,
}
_STACKED_SEPARATE = partir.ManualPartition(
    {
        "params/layers/wq": 2,
        "params/layers/wk": 2,
        "params/layers/wv": 2,
        "params/layers/gate": 2,
        "params/layers/up": 2,
    },
    axis="M",
    name="MP",
)


REST = partir.Gathered({"params/**": "rest", "opt_state/**": "rest"}, axis="B")


@dataclass(frozen=True)
class Pair:
    """One program that is partitioned by partir, by Shardy and by GSPMD."""

    model: str
    form: str
    regime: str
    schedule: str

    def __str__(self) -> str:
        return f"{self.model}, {self.form}, {self.regime}, {self.schedule}"

    def case(self) -> tuple[Callable[..., Any], tuple[Any, ...], list[Any]]:
        """The training step, its arguments' shapes, and the tactics."""
        config = MODELS[self.model][self.regime]
        make = _mlp if self.model == "MLP" else _transformer
        step, args, tactics = make(config, self.form)
        tactics["rest"] = REST
        return step, args, [tactics[name] for name in self.schedule.split("+")]


PAIRS = tuple(
    Pair(model, form, regime, schedule)
    for model in MODELS
    for form in FORMS
    for regime in REGIMES
    for schedule in SCHEDULES
)
RESTING = tuple(
    Pair(model, form, "weights", f"BP+MP+{zero}+rest")
    for model in MODELS
    for form in FORMS
    for zero in ("Z2", "Z3")
)


def _mlp(config: mlp.Config, form: str) -> tuple[Any, Any, dict[str, Any]]:
    model: Any = mlp if form == "unrolled" else scanned
    found = {"BP": model.BATCH, "MP": model.MODEL}
    found |= {"Z2": schedules.Z2, "Z3": schedules.Z3}
    if form == "scanned":
        found |= {name: _of_stacks(name) for name in ("Z2", "Z3")}
    return model.train_step, model.example_args(config)[0], found


def _transformer(
    config: transformer.Config, form: str
) -> tuple[Any, Any, dict[str, Any]]:
    if form == "unrolled":
        model_parallel = schedules.MP_SEPARATE if config.separate else schedules.MP
        found = {"BP": schedules.BP, "Z2": schedules.Z2, "Z3": schedules.Z3}
    else:
        model_parallel = _STACKED_SEPARATE if config.separate else stacked.MP
        found = {"BP": stacked.BP, "Z2": stacked.Z2, "Z3": stacked.Z3}
    model: Any = transformer if form == "unrolled" else stacked
    args = model.example_args(config)[0]
    return model.step_for(config), args, {**found, "MP": model_parallel}


def _of_stacks(name: str) -> Any:
    """Z2 or Z3 for matrices that are stacked: biases have two dimensions then."""

    def matrices(name: str, shape: Any, dtype: Any) -> Any:
        return partir.FIRST_DIVISIBLE_DIM if len(shape) > 2 else partir.UNKNOWN

    params = matrices if name == "Z3" else partir.REPLICATED
    return partir.ManualPartition(
        {"params/**": params, "opt_state/**": matrices}, axis="B", name=name
    )
