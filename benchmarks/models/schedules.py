"""Schedules for the transformer, on a mesh with axes ``B`` (batch) and ``M`` (model).

``BP`` splits the batch; ``MP`` splits attention heads and the hidden dimension of the
MLP (Megatron), the second matrix of each pair following by propagation; ``Z2`` shards
the optimiser's state and ``Z3`` also the parameters over the batch axis, matrices only;
``EMB`` splits the embedding, and by propagation the activations between layers, along
the model's width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import partir


def matrices(name: str, shape: Sequence[int], dtype: Any) -> Any:
    """The first dimension that divides, for anything of rank two or more."""
    return partir.FIRST_DIVISIBLE_DIM if len(shape) > 1 else partir.UNKNOWN


BP = partir.ManualPartition({"tokens": 0, "targets": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"params/*/qkv": 2, "params/*/w1": 1}, axis="M", name="MP")
MP_SEPARATE = partir.ManualPartition(
    {
        "params/*/wq": 1,
        "params/*/wk": 1,
        "params/*/wv": 1,
        "params/*/gate": 1,
        "params/*/up": 1,
    },
    axis="M",
    name="MP",
)
Z2 = partir.ManualPartition(
    {"params/**": partir.REPLICATED, "opt_state/**": matrices}, axis="B", name="Z2"
)
Z3 = partir.ManualPartition(
    {"params/**": matrices, "opt_state/**": matrices}, axis="B", name="Z3"
)
# Where the model axis has nothing better to do: batch and parameters over it too.
BP_M = partir.ManualPartition({"tokens": 0, "targets": 0}, axis="M", name="BP(M)")
Z3_M = partir.ManualPartition(
    {"params/**": matrices, "opt_state/**": matrices}, axis="M", name="Z3(M)"
)
EMB = partir.ManualPartition({"params/embedding": 1}, axis="M", name="EMB")


def _combine(model_parallel: Any) -> dict[str, list[Any]]:
    return {
        "BP": [BP],
        "MP": [model_parallel],
        "BP+MP": [BP, model_parallel],
        "BP+MP+Z2": [BP, model_parallel, Z2],
        "BP+MP+Z3": [BP, model_parallel, Z3],
    }


SCHEDULES = _combine(MP)
SEPARATE_SCHEDULES = _combine(MP_SEPARATE)
EMBEDDED_SCHEDULES = {"MP+EMB": [MP, EMB], "BP+MP+Z3+EMB": [BP, MP, Z3, EMB]}

# What the command line takes from this file.
schedule = SCHEDULES["BP+MP+Z3"]


def schedules_for(*, separate: bool) -> dict[str, list[Any]]:
    """The schedules of one variant of the model, by name."""
    return SEPARATE_SCHEDULES if separate else SCHEDULES
